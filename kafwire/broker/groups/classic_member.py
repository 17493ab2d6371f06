"""A member of a classic group in its coordinator, and the result of its join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafwire.errors import ProtocolError
from kafwire.protocol import JoinGroupRequest
from kafwire.protocol.consumer_protocol import ConsumerProtocolSubscription
from kafwire.protocol.framing import decode_versioned

if TYPE_CHECKING:
    from kafwire.broker.request import Request
    from kafwire.broker.timers import Timer

Protocols = Sequence[tuple[str, bytes]]


@dataclass(slots=True, eq=False)
class Joined:
    """The result of a join, or an error code."""

    error_code: int
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    # For the leader only: each member's id, its instance id and its metadata for the protocol.
    members: list[tuple[str, str | None, bytes]] = field(default_factory=list)


OnJoin = Callable[[Joined], None]
OnSync = Callable[[int, bytes], None]


@dataclass(slots=True, eq=False)
class Member:
    """A member. `on_join`, `on_sync`: called with the response when the member waits for others.

    `is_new`: it has never been in a generation. Then it does not know its id, so it cannot send heartbeats.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    on_join: OnJoin | None = None
    on_sync: OnSync | None = None
    timer: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def supports(self, protocol: str) -> bool:
        """True if the member has a protocol."""
        return any(name == protocol for name, _ in self.protocols)

    def stop_timer(self) -> None:
        """Stop the session's timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def respond_to_join(self, joined: Joined) -> None:
        """Send the response to a waiting JoinGroup, if there is one."""
        if self.on_join is not None:
            on_join, self.on_join = self.on_join, None
            on_join(joined)

    def respond_to_sync(self, error_code: int, assignment: bytes = b"") -> bool:
        """Send the response to a waiting SyncGroup. Return True if there was one."""
        if self.on_sync is None:
            return False
        on_sync, self.on_sync = self.on_sync, None
        on_sync(error_code, assignment)
        return True

    def stored(self, protocol: str | None) -> Member:
        """Return the member for the group's record in `__consumer_offsets`, which has only the chosen protocol."""
        return Member(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocol_type,
            [] if protocol is None else [(protocol, self.metadata(protocol))],
            self.assignment,
        )


def member_of(request: Request) -> Member:
    """Return the member that a JoinGroup request describes."""
    message = request.message
    rebalance_ms = (
        message.rebalance_timeout_ms
        if request.version >= JoinGroupRequest.REBALANCE_TIMEOUT
        else message.session_timeout_ms
    )
    return Member(
        message.member_id,
        message.group_instance_id,
        request.client_id or "",
        f"/{request.connection.peer}",
        message.session_timeout_ms,
        rebalance_ms,
        message.protocol_type,
        [(protocol.name, bytes(protocol.metadata)) for protocol in message.protocols],
    )


def subscribed_topics(members: Iterable[Member], protocol: str | None) -> frozenset[str] | None:
    """Return the topics of consumers' subscriptions; None if one of them cannot be decoded."""
    topics: set[str] = set()
    for member in members:
        try:
            _, subscription = decode_versioned(ConsumerProtocolSubscription, member.metadata(protocol))
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
