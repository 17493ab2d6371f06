"""`PartitionOwnership`: the state of one assigned partition. No other object stores if this member still owns it.

Each assignment of a partition has one object, which its cursor holds; a partition that comes back gets a new one. The
claim, the stream and the revocation of that assignment hold the same object, and check it each time before they read,
write, commit or replay, after every `await`: the state may have changed meanwhile.

The engine alone changes the state, once, and changes it before anything else happens to the partition: before its
cursor is dropped, before `on_lost` is called, and before the coordinator gets the request (a heartbeat, JoinGroup)
after which another member may own it. Any thread may read the state.

**Why a transaction reads the member first.** Brokers compare only the member's generation when a transaction commits
offsets (KIP-447); they do not compare owners of partitions. A transaction that holds records of partition P commits so:

    1. member = current_member()             the generation that the coordinator knows now, say 7
    2. if P is not owned: abort
    3. commit the offsets as `member`

P can go at any point between these steps. The member loses P, or revokes it late, by this order on the engine:

    a. P's ownership ends here
    b. the member asks for its next generation (it joins again, or acknowledges the revocation)
    c. the coordinator begins generation 8, and may give P to another member
    d. the response arrives: from now on `current_member()` returns generation 8

- Step 1 after d: step 2 follows a, so the check finds that P is gone, and the transaction aborts.
- Step 1 before d: the commit names generation 7. Before c the coordinator accepts it, and P has no other owner; the
  next owner's OffsetFetch waits for this transaction (UNSTABLE_OFFSET_COMMIT), and begins behind its records. After c
  the coordinator refuses generation 7 for P, and the transaction aborts. (From Kafka 4.3 on it refuses it for P alone,
  so the commit has to name P: see `transaction_identity.py`.)

The other order is wrong: P is owned at the check, a to d happen, and the commit names generation 8, which the
coordinator accepts, although P is another member's.

A lost session begins with c: the coordinator removes the member, and gives P away before the member learns of it. The
same holds, as generation 7 ended at c.
"""

from __future__ import annotations

import enum


class OwnershipState(enum.Enum):
    """The states of one assignment of a partition. Each state but the first one is final."""

    OWNED = "owned"  # also while a revocation waits for records in hand
    RELEASED = "released"  # given up without records in hand
    REVOKED_LATE = "revoked late"  # given up with records in hand: the next owner processes them again
    LOST = "lost"  # another member owns the partition already, or its topic was deleted


class PartitionOwnership:
    """One assignment of one partition. The engine changes it; any thread may read it."""

    __slots__ = ("_state", "is_lost", "is_owned")

    def __init__(self) -> None:
        self._state = OwnershipState.OWNED
        # Attributes and no properties: streams ask several times for each record.
        self.is_owned = True
        """True while this consumer may read, write results for, and commit the partition."""
        self.is_lost = False
        """True if another member processes the records in hand: nothing may be written, replayed or committed."""

    @property
    def state(self) -> OwnershipState:
        """The state of this assignment."""
        return self._state

    def release(self) -> None:
        """End the ownership without records in hand."""
        self._end(OwnershipState.RELEASED)

    def revoke_late(self) -> None:
        """End the ownership while records are in hand."""
        self._end(OwnershipState.REVOKED_LATE)

    def lose(self) -> None:
        """End the ownership: another member owns the partition already."""
        self._end(OwnershipState.LOST)

    def _end(self, state: OwnershipState) -> None:
        # The first end counts: a partition that was lost while it was revoked stays lost.
        if self._state is OwnershipState.OWNED:
            self._state = state
            self.is_lost = state is not OwnershipState.RELEASED
            self.is_owned = False

    def __repr__(self) -> str:
        return f"<PartitionOwnership: {self._state.value}>"
