"""Rules about the choice of a broker, and about lookups of leaders and coordinators.

- after a broker has repeatedly denied that it leads a partition, or coordinates a group or transaction, the client
  looks up the right broker before it asks this one again
- where no fault lasts, a client that got new metadata requests metadata again as soon as they may change (KIP-580)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from kafwire.broker.log.partition import NO_LEADER
from kafwire.errors import ErrorCode
from kafwire.testing.simulation.conduct.sent import BACKOFF_S, LATE_S, SPREAD, Notes, Place, Sent, codes

IN_VAIN = 5  # requests for the same partition or id to the wrong broker
COORDINATED = {
    *("OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn"),
    *("InitProducerId", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
}


class Lookups:
    """The leaders and coordinators that each client knows from responses.

    `waiting_of`: the partitions for which a client has batches to retry.
    """

    def __init__(self, notes: Notes, waiting_of: Callable[[Hashable], Iterable[Place]]) -> None:
        self._notes = notes
        self._waiting_of = waiting_of
        # By client, broker, and partition or id: how often the broker denied that it is the right one.
        self._refusals: Counter[tuple[Hashable, int, Hashable]] = Counter()
        # The last response to a lookup, as a number in the order of all events.
        self._looked_up: dict[tuple[Hashable, str], int] = {}
        self._asking: Counter[Hashable] = Counter()  # by client: Metadata requests in flight
        # By client and partition: the newest known leader epoch, and its leader.
        self._known: dict[tuple[Hashable, Place], tuple[int, int]] = {}
        self._news_s: dict[Hashable, float] = {}  # by client: the time of the last metadata with changes
        self._wants_s: dict[Hashable, float] = {}  # by client: the time at which it must request metadata again

    # --- the choice of a broker

    def asks(self, sent: Sent, what: Hashable) -> None:
        """Judge a request to a broker: a few in vain are fine, while the client waits for a lookup."""
        if self._refusals[sent.client, sent.node, what] >= IN_VAIN:
            self._notes.wrong(
                sent,
                f"it has refused {IN_VAIN} times as the wrong broker for {what}, and the client looked up no other",
            )

    def led(self, sent: Sent, place: Place, data: Any) -> None:
        """Note from a response whether the broker leads the partition, and the leader that it names (KIP-951)."""
        if data.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return
        self._refuse(sent, "Metadata", place)
        hint = data.current_leader
        self._refusals.pop((sent.client, hint.leader_id, place), None)
        if hint.leader_id != NO_LEADER:
            self._is_news(sent.client, place, hint.leader_epoch, hint.leader_id)
            self._wants_s.pop(sent.client, None)
            return
        _, leader = self._known.get((sent.client, place), (-1, NO_LEADER))
        is_free = sent.name == "Produce" and sent.message.transactional_id is None
        if is_free and leader == sent.node and sent.client in self._news_s and not self._asking[sent.client]:
            due_s = max(self._news_s[sent.client] + BACKOFF_S * SPREAD, self._notes.clock())
            self._wants_s.setdefault(sent.client, due_s)

    def coordinated(self, sent: Sent, response: Any) -> None:
        """Note if a broker denies that it coordinates the groups or transactions of a request."""
        if ErrorCode.NOT_COORDINATOR in codes(response):
            for coordinated in coordinated_by(sent):
                self._refuse(sent, "FindCoordinator", coordinated)

    def _refuse(self, sent: Sent, lookup: str, what: Hashable) -> None:
        """Note that a broker is the wrong one, unless the client looked up the right one after it sent this request."""
        if sent.number > self._looked_up.get((sent.client, lookup), -1):
            self._refusals[sent.client, sent.node, what] += 1

    # --- lookups

    def looks_up(self, sent: Sent) -> None:
        """Judge a Metadata request."""
        client = sent.client
        self._asking[client] += 1
        due_s = self._wants_s.pop(client, None)
        if due_s is None or self._notes.calm_since() >= self._news_s.get(client, -1.0):
            return
        late_s = self._notes.clock() - due_s
        if late_s > LATE_S:
            self._notes.wrong(sent, f"it was due {late_s:.3f} s ago, after new metadata without a leader")

    def learn(self, sent: Sent, response: Any) -> None:
        """Note the leaders, or the coordinator, of a response to a lookup."""
        self._looked_up[sent.client, sent.name] = self._notes.number()
        kind = str
        if sent.name == "Metadata":
            kind = tuple  # type: ignore[assignment]
            self.lost(sent)
            self._learns(sent.client, response)
        for key in [key for key in self._refusals if key[0] == sent.client and isinstance(key[2], kind)]:
            del self._refusals[key]

    def lost(self, sent: Sent) -> None:
        """Note that a Metadata request is no longer in flight."""
        self._asking[sent.client] -= 1

    def _learns(self, client: Hashable, response: Any) -> None:
        news = False
        for topic in response.topics:
            for part in topic.partitions:
                # A client that knows a partition by the topic's name knows it by the topic's id too, and vice versa.
                places = [(name, part.partition_index) for name in (topic.name, topic.topic_id)]
                fresh = [self._is_news(client, place, part.leader_epoch, part.leader_id) for place in places]
                news |= all(fresh)
        self._news_s.pop(client, None)
        if news:
            self._news_s[client] = self._notes.clock()
            if any(self._known.get((client, place), (-1, 0))[1] == NO_LEADER for place in self._waiting_of(client)):
                self._wants_s.setdefault(client, self._notes.clock() + BACKOFF_S * SPREAD)

    def _is_news(self, client: Hashable, place: Place, epoch: int, leader: int) -> bool:
        if epoch <= self._known.get((client, place), (-1, NO_LEADER))[0]:
            return False
        self._known[client, place] = epoch, leader
        return True


def coordinated_by(sent: Sent) -> list[str]:
    """Return the groups or transactional ids in a request that goes to their coordinator."""
    if sent.name not in COORDINATED:
        return []
    if sent.name == "OffsetFetch" and sent.message.groups:
        return [f"group {group.group_id}" for group in sent.message.groups]
    if sent.name == "AddPartitionsToTxn":
        return [f"transactions of {sent.message.v3_and_below_transactional_id}"]
    if sent.name in ("EndTxn", "InitProducerId", "AddOffsetsToTxn"):
        identity = sent.message.transactional_id
        # Without a transactional id, any broker serves the request.
        return [] if identity is None else [f"transactions of {identity}"]
    return [f"group {sent.message.group_id}"]
