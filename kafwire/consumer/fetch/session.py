"""The client side of a fetch session (KIP-227): the contents of the next request, and the effect of responses.

A broker remembers a session's partitions, so that a request names only changes: partitions that are new, partitions
with another offset or size, and partitions to forget. Both sides count the session's requests (the epoch). If the
counts differ, or the broker has evicted the session, the next request is a full one and opens another session.

- The wanted partitions change at any time. The client's copy of the broker's partitions changes when a request is
  built, not at its response. A missing or refused response ends the session: so the broker either has the state of the
  last request, or a state that does not matter any more. A request in flight needs no third state, and the next request
  sends all changes that came meanwhile.
- A request never adds and forgets the same partition, not even by two keys. The broker forgets last: it would lose the
  added partition, and responses would leave the partition out for ever, like one without new records.
- The order of partitions matters if a response lacks room for all. In a session the broker keeps the order: partitions
  that returned records move to the back, and new ones are added there. The client keeps the order of full requests in
  the same way. The first partition with data always returns some. So while a partition with data waits, each good
  response serves a partition before it, which then moves behind it on both sides and never gets ahead again, as a full
  request gives the broker the client's order. One exception: the response that opens a session moves no partition at
  the broker, so a partition may be served twice. Of n wanted partitions, each one with data is therefore served within
  n good responses, plus one for each session opened meanwhile, whatever fails in between.
- Session id 0, in the response to a request that offers to open a session, is a refusal: all slots of the broker are
  taken (1,000 by default), or the broker throttles the client and has not looked at the request. The client continues
  without a session, and offers again after 2, 4, 8, ... at most 64 requests. A throttled start then costs one more full
  request. A full broker need not look for a session to evict at each of thousands of requests (the evicted client would
  then offer, and evict, in turn).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from kafwire.error_codes import ErrorCode
from kafwire.lazy_dataclass import dataclass

K = TypeVar("K", bound=Hashable)

# Epochs of requests, in share sessions (KIP-932) too: the first opens a session, the second ends it.
OPEN = 0
CLOSE = -1
LAST_EPOCH = 2**31 - 1
WITHOUT = CLOSE  # a full request without a session ends the named one
LONGEST_REFUSAL = 6  # exponent: at most 2**6 requests between offers


def next_epoch(epoch: int, last: int = LAST_EPOCH) -> int:
    """Return the epoch after this one: 1 after `OPEN`, and after the last."""
    return epoch % last + 1


@dataclass(frozen=True, slots=True)
class Asked:
    """The request for a partition: records from `offset` on, at most about `max_bytes`.

    `leader_epoch` lets the broker fence a client with stale metadata; `last_fetched_epoch` lets it find that the log
    was truncated below the offset (KIP-320, KIP-595). -1: not sent.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class Plan(NamedTuple, Generic[K]):
    """A request's session, its partitions to add or change, and those to forget, in the order of the wire."""

    session_id: int
    epoch: int
    add: list[tuple[K, Asked]]
    forget: list[K]

    @property
    def full(self) -> bool:
        """True if `add` has all partitions."""
        return self.epoch <= OPEN


class FetchSession(Generic[K]):
    """The wanted partitions of one broker, and the next request for them. One request is in flight at a time.

    The caller chooses the keys; two keys wanted at once must not be the same partition. If a new key may replace an old
    one of the same partition, `name` returns the broker's name of a key's partition (topic name or id, and number).
    When the names change, as from topic names to ids (KIP-516), call `renew`.
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
        self._has: dict[K, Asked] = {}  # the broker's state after the last request; unused if the next one is full
        self._changed: dict[K, None] = {}  # keys for which the two may differ; new keys in the order of `want` calls
        self._id = 0
        self._epoch = OPEN
        self._renew = False  # the next request must be full
        self._flight: Plan[K] | None = None
        self._closed = False  # `closing` was called since the request in flight was built
        self._refused = 0  # refusals in a row
        self._until_offer = 0  # requests to send before the next offer to open a session

    def want(self, key: K, asked: Asked) -> None:
        """Request `asked` for `key` from the next request on, instead of any earlier value; O(1)."""
        if key not in self._wanted:
            self._changed.pop(key, None)
        self._changed[key] = None
        self._wanted[key] = asked

    def drop(self, key: K) -> None:
        """Request `key` no more; O(1). Unknown keys are ignored."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self._wanted

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[K]:
        """Iterate over the wanted keys, in the order of a full request."""
        return iter(self._wanted)

    def asked(self, key: K) -> Asked | None:
        """Return the wanted request for `key`."""
        return self._wanted.get(key)

    def sent(self, key: K) -> Asked | None:
        """Return the broker's state of `key` after the last request: a response's records begin at its offset."""
        return self._has.get(key)

    def covers(self, key: K) -> bool:
        """Return True if the request in flight has `key` with its wanted value."""
        return self._flight is not None and key in self._wanted and self._has.get(key) == self._wanted[key]

    @property
    def in_flight(self) -> bool:
        """True from `plan` until the response, or the loss, of the request."""
        return self._flight is not None

    @property
    def session_id(self) -> int:
        """The id of the session that the broker keeps, as far as the client knows; 0 for none."""
        return self._id

    @property
    def epoch(self) -> int:
        """The next request's epoch: 0 opens a session, -1 has none."""
        if not self._sessions or self._until_offer > 0:
            return WITHOUT
        return OPEN if self._renew else self._epoch

    def plan(self) -> Plan[K]:
        """Build the next request, which is then in flight; O(changes) in a session. ValueError if one is in flight."""
        if self._flight is not None:
            raise ValueError("a fetch request of this session is in flight: call on_response or on_lost first")
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

    def on_response(self, error_code: int, session_id: int, served: Iterable[K]) -> bool:
        """Process the head of a response; the keys with records (`served`) move to the back.

        True: the response is valid. False: a session error; ignore the response, and `plan` the next request (a full
        one). Records that were not requested, and another session's id, are session errors too.
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
            # Closed by the client meanwhile; or by the broker, as the request left no partition in the session.
            self._id, self._epoch = 0, OPEN
        else:
            self._epoch = next_epoch(plan.epoch, self._last_epoch)
        return True

    def _opened(self, session_id: int) -> None:
        """Process the response to an offer to open a session."""
        self._id = session_id
        if session_id == 0:
            self._epoch = OPEN
            self._refused = min(self._refused + 1, LONGEST_REFUSAL)
            self._until_offer = 2**self._refused - 1
            return
        self._refused = 0
        self._epoch = next_epoch(OPEN)
        # `closing` came before the session's id was known: keep the session only to close it; the next request is full.
        self._renew |= self._closed

    def on_lost(self) -> None:
        """Handle a missing or unreadable response: the next request is full, and ends the session that it names.

        The broker may or may not have counted the request, so its epoch is not known.
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
        """Make the next request a full one, because the names of partitions have changed."""
        self._renew = True

    def closing(self) -> tuple[int, int] | None:
        """Forget the session. Return the (session id, epoch) that end it at the broker, or None without a session."""
        if self._id == 0:
            self._closed = True
            return None
        close = (self._id, WITHOUT)
        self._id, self._epoch = 0, OPEN
        self._closed = True
        return close
