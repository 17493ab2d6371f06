"""Rules about who is asked, and who is asked who that should be.

- a broker that has said again and again that it does not lead a partition, or coordinate a group or transaction, is not
  asked on before the client has asked who does
- where nothing is wrong, metadata that were news are asked for again as soon as news may be (KIP-580)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from kafwire.errors import ErrorCode
from kafwire.testing.simulation.conduct.sent import BACKOFF_S, LATE_S, SPREAD, Notes, Place, Sent, codes

IN_VAIN = 5  # requests for the same to a broker that is the wrong one
COORDINATED = {
    *("OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn"),
    *("InitProducerId", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
}
NOBODY = -1


class Lookups:
    """What all clients were told of leaders and coordinators.

    `waiting_of`: the partitions that a client has something to send to again.
    """

    def __init__(self, notes: Notes, waiting_of: Callable[[Hashable], Iterable[Place]]) -> None:
        self._notes = notes
        self._waiting_of = waiting_of
        # By client, broker, and what it was asked for: how often it has said that it is the wrong one.
        self._refusals: Counter[tuple[Hashable, int, Hashable]] = Counter()
        self._looked_up: dict[tuple[Hashable, str], int] = {}  # when a client was told who does, in the order of all
        self._asking: Counter[Hashable] = Counter()  # by client: requests for metadata on their way
        # By client: the newest epoch of a partition that it was told, and its leader.
        self._told: dict[tuple[Hashable, Place], tuple[int, int]] = {}
        self._news_s: dict[Hashable, float] = {}  # by client: when its last metadata came, if they were news
        self._wants_s: dict[Hashable, float] = {}  # by client: when it has to ask for metadata again

    # --- who is asked

    def asks(self, sent: Sent, what: Hashable) -> None:
        """A few times a broker may be asked in vain, while the client waits to ask who it should be."""
        if self._refusals[sent.client, sent.node, what] >= IN_VAIN:
            self._notes.wrong(
                sent,
                f"it has refused {IN_VAIN} times as the wrong coordinator of {what}, and the client looked up no other",
            )

    def led(self, sent: Sent, place: Place, data: Any) -> None:
        """An answer says of a partition whether the broker leads it, and perhaps who does (KIP-951)."""
        if data.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return
        self._refuse(sent, "Metadata", place)
        hint = data.current_leader
        self._refusals.pop((sent.client, hint.leader_id, place), None)
        if hint.leader_id != NOBODY:
            self._is_news(sent.client, place, hint.leader_epoch, hint.leader_id)
            self._wants_s.pop(sent.client, None)
            return
        _, leader = self._told.get((sent.client, place), (-1, NOBODY))
        is_free = sent.name == "Produce" and sent.message.transactional_id is None
        if is_free and leader == sent.node and sent.client in self._news_s and not self._asking[sent.client]:
            due_s = max(self._news_s[sent.client] + BACKOFF_S * SPREAD, self._notes.clock())
            self._wants_s.setdefault(sent.client, due_s)

    def coordinated(self, sent: Sent, answer: Any) -> None:
        """Whether a broker has said that it does not coordinate what it was asked for."""
        if ErrorCode.NOT_COORDINATOR in codes(answer):
            for who in coordinated_by(sent):
                self._refuse(sent, "FindCoordinator", who)

    def _refuse(self, sent: Sent, lookup: str, what: Hashable) -> None:
        """A broker has said that it is the wrong one; who was told another one since may have asked before."""
        if sent.number > self._looked_up.get((sent.client, lookup), -1):
            self._refusals[sent.client, sent.node, what] += 1

    # --- who is asked who that is

    def looks_up(self, sent: Sent) -> None:
        """Metadata are asked for."""
        client = sent.client
        self._asking[client] += 1
        due_s = self._wants_s.pop(client, None)
        if due_s is None or self._notes.calm_since() >= self._news_s.get(client, -1.0):
            return
        late_s = self._notes.clock() - due_s
        if late_s > LATE_S:
            self._notes.wrong(sent, f"it was to be asked {late_s:.3f} s ago, after news in which no leader was found")

    def told(self, sent: Sent, answer: Any) -> None:
        """A client was told who leads, or who coordinates."""
        self._looked_up[sent.client, sent.name] = self._notes.number()
        kind = str
        if sent.name == "Metadata":
            kind = tuple  # type: ignore[assignment]
            self.lost(sent)
            self._learns(sent.client, answer)
        for key in [key for key in self._refusals if key[0] == sent.client and isinstance(key[2], kind)]:
            del self._refusals[key]

    def lost(self, sent: Sent) -> None:
        """A request for metadata is not on its way any more."""
        self._asking[sent.client] -= 1

    def _learns(self, client: Hashable, answer: Any) -> None:
        news = False
        for topic in answer.topics:
            for part in topic.partitions:
                # What it was told by the topic's name it knows by its id, and the other way round.
                places = [(name, part.partition_index) for name in (topic.name, topic.topic_id)]
                told = [self._is_news(client, place, part.leader_epoch, part.leader_id) for place in places]
                news |= all(told)
        self._news_s.pop(client, None)
        if news:
            self._news_s[client] = self._notes.clock()
            if any(self._told.get((client, place), (-1, 0))[1] == NOBODY for place in self._waiting_of(client)):
                self._wants_s.setdefault(client, self._notes.clock() + BACKOFF_S * SPREAD)

    def _is_news(self, client: Hashable, place: Place, epoch: int, leader: int) -> bool:
        if epoch <= self._told.get((client, place), (-1, NOBODY))[0]:
            return False
        self._told[client, place] = epoch, leader
        return True


def coordinated_by(sent: Sent) -> list[str]:
    """The groups or transactional ids of a request, whose coordinator it is for."""
    if sent.name not in COORDINATED:
        return []
    if sent.name == "OffsetFetch" and sent.message.groups:
        return [f"group {group.group_id}" for group in sent.message.groups]
    if sent.name == "AddPartitionsToTxn":
        return [f"transactions of {sent.message.v3_and_below_transactional_id}"]
    if sent.name in ("EndTxn", "InitProducerId", "AddOffsetsToTxn"):
        identity = sent.message.transactional_id
        return [] if identity is None else [f"transactions of {identity}"]  # without one any broker does
    return [f"group {sent.message.group_id}"]
