"""A fetch session (KIP-227) as the client sees it: what the next request to a broker has to say, and what answers mean.

A broker remembers which partitions a session asks for, so that a request names only what changes: partitions that are
new, or wanted from another offset, and partitions to forget. Both sides count the session's requests (the epoch); when
they disagree, or the broker has thrown the session away, the next request is a full one and opens another.

- What is wanted changes at any time. What the broker has changes when a request is made up, not when it is answered: an
  answer that does not come, or is refused, ends the session, so either the broker has what the last request made it, or
  nothing that is worth knowing. So a request in flight needs no third state, and whatever changes meanwhile is part of
  the difference that the next one sends.
- A request never adds and forgets the same partition, be it by two keys. The broker forgets last, so it would lose what
  was added, and answers would leave the partition out for ever after, as they do one without news.
- The order matters where an answer has no room for all. In a session it is the broker's, who moves partitions that gave
  records to the back and adds new ones there; the order of full requests is kept the same way here. The first partition
  that has data always gives some. So while a partition with data waits, each good answer serves another one that stood
  before it, which then stands behind it on both sides, and never gets past it again: not by a full request either,
  which gives the broker the order of this side. But the answer that opens a session moves nobody at the broker, so
  whoever it serves may be served once more. Of n partitions wanted, each one with data is therefore served in n good
  answers at the latest, and one more for each session opened meanwhile, whatever goes wrong in between.
- An answer to an offer to open a session, with session id 0, is a refusal: the broker's slots are all taken (1,000 by
  default), or it throttles us and has not looked at the request. Who goes on without a session offers again after 2, 4,
  8, ... at most 64 requests: a throttled start then costs one full request more, while a full broker is not made to
  look for a session to evict at each of thousands of requests (whose owner would then ask, and evict, in turn).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from kafwire.error_codes import ErrorCode
from kafwire.lazy_dataclass import dataclass

K = TypeVar("K", bound=Hashable)

LAST_EPOCH = 2**31 - 1
# Epochs that say what a full request wants: a new session; none (and an end to the one named).
OPEN = 0
WITHOUT = -1
LONGEST_REFUSAL = 6  # as a power of two, in requests


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a partition: records from `offset` on, about `max_bytes` of them.

    `leader_epoch` lets the broker fence an old view of who leads; `last_fetched_epoch` lets it find that the log was
    truncated below us (KIP-320, KIP-595). -1: not told.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class Plan(NamedTuple, Generic[K]):
    """What a request says: its session, what it adds or changes, and what it forgets, in the order of the wire."""

    session_id: int
    epoch: int
    add: list[tuple[K, Asked]]
    forget: list[K]

    @property
    def full(self) -> bool:
        """Whether `add` is all that is asked for."""
        return self.epoch <= OPEN


class FetchSession(Generic[K]):
    """What is wanted from one broker, and how the next request asks for it. One request is in flight at a time.

    Keys are the caller's; two that are wanted at once must not be the same partition to the broker. Where a new key may
    take the place of an old one, `name` gives what the broker calls a key's partition (a topic's name or id, and a
    number). Who begins to call partitions by other names (KIP-516) calls `renew`.
    """

    def __init__(
        self,
        *,
        sessions: bool = True,
        name: Callable[[K], Hashable] | None = None,
        last_epoch: int = LAST_EPOCH,
    ) -> None:
        self._sessions = sessions
        self._last_epoch = last_epoch
        self._name = name
        self._wanted: dict[K, Asked] = {}  # in the order of a full request
        self._has: dict[K, Asked] = {}  # as the last request left it at the broker; of no use when the next one is full
        self._changed: dict[K, None] = {}  # where the two may differ; new keys in the order in which they were wanted
        self._id = 0
        self._epoch = OPEN
        self._renew = False  # what the broker has is not to be built upon
        self._flight: Plan[K] | None = None
        self._closed = False  # since the request in flight was made up
        self._refused = 0  # in a row
        self._until_offer = 0  # requests to make without offering to open a session

    def want(self, key: K, asked: Asked) -> None:
        """Ask for `key` from the next request on, instead of what was asked before; O(1)."""
        if key not in self._wanted:
            self._changed.pop(key, None)
        self._changed[key] = None
        self._wanted[key] = asked

    def drop(self, key: K) -> None:
        """Do not ask for `key` any more; O(1). Unknown keys are fine."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self._wanted

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[K]:
        """The wanted keys in the order of a full request."""
        return iter(self._wanted)

    def asked(self, key: K) -> Asked | None:
        """What is wanted of `key`."""
        return self._wanted.get(key)

    def sent(self, key: K) -> Asked | None:
        """What the last request left at the broker of `key`: an answer's records are from there on."""
        return self._has.get(key)

    def covers(self, key: K) -> bool:
        """Whether the request in flight asks for `key` as it is wanted now."""
        return self._flight is not None and key in self._wanted and self._has.get(key) == self._wanted[key]

    @property
    def in_flight(self) -> bool:
        """Whether a request is made up and neither answered nor lost."""
        return self._flight is not None

    @property
    def session_id(self) -> int:
        """The session that the broker keeps for us, as far as we know; 0 for none."""
        return self._id

    @property
    def epoch(self) -> int:
        """The next request's epoch: 0 opens a session, -1 goes without."""
        if not self._sessions or self._until_offer > 0:
            return WITHOUT
        return OPEN if self._renew else self._epoch

    def plan(self) -> Plan[K]:
        """The next request, O(changes) in a session; it is then in flight. ValueError while another one is."""
        if self._flight is not None:
            raise ValueError("a fetch request of this session is in flight: answer it with on_answer or on_lost first")
        epoch = self.epoch
        if epoch <= OPEN:
            plan = Plan(self._id, epoch, list(self._wanted.items()), [])
            self._has = dict(self._wanted)
        else:
            plan = self._difference(epoch)
        self._changed.clear()
        self._renew = False
        self._closed = False
        self._flight = plan
        return plan

    def _difference(self, epoch: int) -> Plan[K]:
        add: list[tuple[K, Asked]] = []
        forget: list[K] = []
        for key in self._changed:
            asked = self._wanted.get(key)
            if asked is None:
                if self._has.pop(key, None) is not None:
                    forget.append(key)
            elif asked != self._has.get(key):
                self._has[key] = asked
                add.append((key, asked))
        if self._name is not None and add and forget:
            added = {self._name(key) for key, _ in add}
            forget = [key for key in forget if self._name(key) not in added]
        return Plan(self._id, epoch, add, forget)

    def on_answer(self, error_code: int, session_id: int, served: Iterable[K]) -> bool:
        """Take in an answer's head; `served` are the keys that it has records of, which then stand at the back.

        True: its partitions may be taken in. False: a session error, nothing in it counts, and `plan` again (a full
        request). An answer with records that the request did not ask for, or of another session, is such an error.
        """
        plan = self._flight
        if plan is None:
            raise ValueError("no fetch request of this session is in flight")
        served = list(served)
        stray = [key for key in served if key not in self._has]
        if stray and self._name is not None:
            sent = {self._name(key) for key in self._has}
            stray = [key for key in stray if self._name(key) not in sent]
        if error_code or stray or (not plan.full and session_id not in {0, plan.session_id}):
            self._end_flight(0 if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._id)
            return False
        self._flight = None
        for key in served:
            asked = self._wanted.pop(key, None)
            if asked is not None:
                self._wanted[key] = asked
        if plan.epoch == WITHOUT:
            self._until_offer = max(0, self._until_offer - 1)
        elif plan.full:
            self._opened(session_id)
        elif self._closed or session_id == 0:
            # Closed by us meanwhile; or by the broker, since the request left nothing in it.
            self._id, self._epoch = 0, OPEN
        else:
            self._epoch = plan.epoch % self._last_epoch + 1
        return True

    def _opened(self, session_id: int) -> None:
        """The answer to an offer to open a session."""
        self._id = session_id
        if session_id == 0:
            self._epoch = OPEN
            self._refused = min(self._refused + 1, LONGEST_REFUSAL)
            self._until_offer = 2**self._refused - 1
            return
        self._refused = 0
        self._epoch = OPEN + 1
        # Whoever closed meanwhile did not know of it: it is there to be closed, and not to be built upon.
        self._renew |= self._closed

    def on_lost(self) -> None:
        """No answer comes, or one that cannot be read: the next request is full, and ends the session it names.

        Whether the broker has counted the request is not known, so the epoch is not either.
        """
        if self._flight is not None:
            self._end_flight(self._id)

    def _end_flight(self, session_id: int) -> None:
        plan, self._flight = self._flight, None
        assert plan is not None
        if plan.epoch == WITHOUT:
            self._until_offer = max(0, self._until_offer - 1)
        self._id = session_id
        self._epoch = OPEN

    def renew(self) -> None:
        """Let the next request be a full one: the caller changed what partitions are called."""
        self._renew = True

    def closing(self) -> tuple[int, int] | None:
        """The (session id, epoch) that end the session at the broker, None without one; it is then no longer ours."""
        if self._id == 0:
            self._closed = True
            return None
        close = (self._id, WITHOUT)
        self._id, self._epoch = 0, OPEN
        self._closed = True
        return close
