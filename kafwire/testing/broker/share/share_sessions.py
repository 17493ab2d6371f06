"""Share sessions: which partitions a member reads from a broker, so that its requests need not name them again.

There is one session for each member at a broker. It lives as long as the connection that opened it, and has no time
limit. See KIP-932.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafwire.errors import ErrorCode
from kafwire.testing.broker.topics.config_store import Refusal

OPENS, CLOSES = 0, -1  # epochs
LAST_EPOCH = (1 << 31) - 1

Member = tuple[str, str]  # a group and a member's id
Place = tuple[uuid.UUID, int]  # a topic's id and a partition's number


@dataclass(slots=True)
class Cached:
    """A partition of a session. `is_known`: whether its topic was there when it was added."""

    is_known: bool
    has_news: bool = False  # whether the next answer names it, whatever there is to say

    def tells(self, *, has_records: bool, has_error: bool) -> bool:
        """Whether an answer names it. After an error it is named once more."""
        told = has_records or has_error or self.has_news
        self.has_news = has_error
        return told


@dataclass(slots=True, eq=False)
class ShareSession:
    """One member's at one broker. `connection`: the number of the one that opened it."""

    member: Member
    connection: int
    partitions: dict[Place, Cached] = field(default_factory=dict)
    epoch: int = 1

    def update(self, add: Iterable[tuple[Place, bool]], forget: Iterable[Place]) -> None:
        """A request names more partitions, and those that are read no more."""
        for place, is_known in add:
            self.partitions.setdefault(place, Cached(is_known, has_news=True))
        for place in forget:
            self.partitions.pop(place, None)

    def move_back(self, place: Place) -> None:
        """Records of a partition were given: others come first the next time."""
        self.partitions[place] = self.partitions.pop(place)


class ShareSessions:
    """Those of one broker. `most`: how many there may be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.of: dict[Member, ShareSession] = {}
        self._opened: dict[int, ShareSession] = {}  # by connection: the last one that it has opened

    def begin(self, member: Member, connection: int, partitions: Iterable[tuple[Place, bool]]) -> ShareSession:
        """A new session in the place of the one that the member has.

        Raises:
            Refusal: there are too many.
        """
        self.of.pop(member, None)
        if len(self.of) >= self._most:
            raise Refusal(ErrorCode.SHARE_SESSION_LIMIT_REACHED, None)
        session = ShareSession(member, connection, {place: Cached(is_known) for place, is_known in partitions})
        self.of[member] = self._opened[connection] = session
        return session

    def find(self, member: Member, epoch: int) -> ShareSession:
        """The session that a request with this epoch is of. It is in the next epoch from now on, unless it is closed.

        Raises:
            Refusal: there is none, or it is in another epoch.
        """
        session = self.of.get(member)
        if session is None:
            raise Refusal(ErrorCode.SHARE_SESSION_NOT_FOUND, None)
        if epoch != CLOSES:
            if session.epoch != epoch:
                raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH, None)
            session.epoch = next_epoch(epoch)
        return session

    def close(self, member: Member) -> ShareSession | None:
        """A member has no session any more. Returns the one that it had."""
        return self.of.pop(member, None)

    def opened_by(self, connection: int) -> ShareSession | None:
        """The session that a connection has opened last; it is asked once, when the connection has ended."""
        return self._opened.pop(connection, None)

    def has_members(self, group_id: str) -> bool:
        """Whether somebody of a group has a session."""
        return any(group == group_id for group, _ in self.of)


def next_epoch(epoch: int) -> int:
    """The epoch behind one: after the last comes 1."""
    return epoch % LAST_EPOCH + 1
