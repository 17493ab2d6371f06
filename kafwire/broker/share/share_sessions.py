"""Share sessions: the partitions that a member reads from a broker, so that its requests need not repeat them.

A member has one session at a broker. It lives as long as the connection that opened it, and has no time limit. See
KIP-932.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

OPENS, CLOSES = 0, -1  # epochs
LAST_EPOCH = (1 << 31) - 1

Member = tuple[str, str]  # a group and a member's id
Place = tuple[uuid.UUID, int]  # a topic's id and a partition's number


@dataclass(slots=True)
class Cached:
    """A partition of a session. `is_known`: True if its topic existed when it was added."""

    is_known: bool
    has_news: bool = False  # True if the next response names it in any case

    def tells(self, *, has_records: bool, has_error: bool) -> bool:
        """Return True if a response names it. After an error, the next response names it too."""
        included = has_records or has_error or self.has_news
        self.has_news = has_error
        return included


@dataclass(slots=True, eq=False)
class ShareSession:
    """The session of one member at one broker. `connection`: the number of the connection that opened it."""

    member: Member
    connection: int
    partitions: dict[Place, Cached] = field(default_factory=dict)
    epoch: int = 1

    def update(self, add: Iterable[tuple[Place, bool]], forget: Iterable[Place]) -> None:
        """Add the partitions that a request names, and remove those that it forgets."""
        for place, is_known in add:
            self.partitions.setdefault(place, Cached(is_known, has_news=True))
        for place in forget:
            self.partitions.pop(place, None)

    def move_back(self, place: Place) -> None:
        """Move a partition to the end after its records were delivered: others come first next time."""
        self.partitions[place] = self.partitions.pop(place)


class ShareSessions:
    """The sessions of one broker, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.of: dict[Member, ShareSession] = {}
        self._opened: dict[int, ShareSession] = {}  # by connection: the last session that it opened

    def begin(self, member: Member, connection: int, partitions: Iterable[tuple[Place, bool]]) -> ShareSession:
        """Open a session, in place of the member's present one.

        Raises:
            Refusal: there are too many sessions.
        """
        self.of.pop(member, None)
        if len(self.of) >= self._most:
            raise Refusal(ErrorCode.SHARE_SESSION_LIMIT_REACHED, None)
        session = ShareSession(member, connection, {place: Cached(is_known) for place, is_known in partitions})
        self.of[member] = self._opened[connection] = session
        return session

    def find(self, member: Member, epoch: int) -> ShareSession:
        """Return the session of a request with this epoch, and advance its epoch, unless the request closes it.

        Raises:
            Refusal: there is no session, or it has another epoch.
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
        """Close a member's session. Return it, or None."""
        return self.of.pop(member, None)

    def opened_by(self, connection: int) -> ShareSession | None:
        """Return and forget the session that an ended connection opened last, or None."""
        return self._opened.pop(connection, None)

    def has_members(self, group_id: str) -> bool:
        """True if a member of a group has a session."""
        return any(group == group_id for group, _ in self.of)


def next_epoch(epoch: int) -> int:
    """Return the epoch after this one: 1 after the last."""
    return epoch % LAST_EPOCH + 1
