"""A member of a classic group, as its coordinator keeps it, and what it is told when it joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafwire.errors import ProtocolError
from kafwire.protocol.consumer_protocol import ConsumerProtocolSubscription
from kafwire.protocol.framing import decode_versioned

if TYPE_CHECKING:
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.timers import Timer

Protocols = Sequence[tuple[str, bytes]]


@dataclass(slots=True, eq=False)
class Joined:
    """What a member that has joined is told, or an error code."""

    error_code: int
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    # Of the leader only: each member's id, its instance id and what it said of itself for the protocol.
    members: list[tuple[str, str | None, bytes]] = field(default_factory=list)


OnJoin = Callable[[Joined], None]
OnSync = Callable[[int, bytes], None]


@dataclass(slots=True, eq=False)
class Member:
    """A member. `on_join`, `on_sync`: how it is answered when it waits for the others.

    `is_new`: it has never been in a generation. It does not know its id then, so it cannot send heartbeats.
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
        """What it said of itself for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def supports(self, protocol: str) -> bool:
        """Whether it has a protocol."""
        return any(name == protocol for name, _ in self.protocols)

    def stop_timer(self) -> None:
        """Its session does not end any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def answer_join(self, joined: Joined) -> None:
        """Tell it, if it waits."""
        if self.on_join is not None:
            on_join, self.on_join = self.on_join, None
            on_join(joined)

    def answer_sync(self, error_code: int, assignment: bytes = b"") -> bool:
        """Tell it, if it waits. Returns whether it did."""
        if self.on_sync is None:
            return False
        on_sync, self.on_sync = self.on_sync, None
        on_sync(error_code, assignment)
        return True

    def stored(self, protocol: str | None) -> Member:
        """What the group's record in __consumer_offsets has of it: of its protocols the chosen one."""
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
    """The member that a JoinGroup request describes."""
    message = request.message
    rebalance_ms = message.rebalance_timeout_ms if request.version >= 1 else message.session_timeout_ms
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
    """The topics that consumers have subscribed to; None: what one of them said of itself cannot be read."""
    topics: set[str] = set()
    for member in members:
        try:
            _, subscription = decode_versioned(ConsumerProtocolSubscription, member.metadata(protocol))
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
