"""`Membership`, the interface of the classic, consumer and share group memberships, and the actions that they return.

A membership is a state machine: it gets events and returns actions, to be carried out in order. It has no clock and
sends nothing itself; `membership_driver.py` carries out the actions. Times are in milliseconds.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kafwire.cluster.backoff import delay_ms
from kafwire.consumer.group.member import Partition, Topics
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    KafkaError,
    ProtocolError,
    broker_error,
)
from kafwire.lazy_dataclass import dataclass
from kafwire.types import ConsumerGroupMetadata

NEVER = float("inf")
# Another broker is the coordinator now, or none is yet.
COORDINATOR_MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
# Errors that end a membership: no retry succeeds unless the cluster or the configuration changes.
ENDS = (AuthenticationError, AuthorizationError, ProtocolError)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """The fixed options of a member.

    `assignors` are for the classic protocol, preferred ones first; `assignor` is the broker's. `random` returns a
    number in [0, 1), for the back-off between `retry_ms` and `retry_max_ms`. `new_id` makes member ids, and `name_of`
    returns the name of a topic id, or None.
    """

    group_id: str
    random: Callable[[], float]
    new_id: Callable[[], str]
    name_of: Callable[[uuid.UUID], str | None]
    instance_id: str | None = None
    rack: str | None = None
    assignors: Sequence[str] = ("range", "cooperative-sticky")
    assignor: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_ms: int = 100
    retry_max_ms: int = 1_000

    def backoff_ms(self, failures: int) -> float:
        """Return the back-off after `failures` failures in a row."""
        return delay_ms(failures, self.retry_ms, self.retry_max_ms, self.random())


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the coordinator; `on_response` or `failed` follows.

    `apart`: use a separate connection, because the coordinator parks the request.
    """

    message: Any
    timeout_ms: float
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """Take these partitions: the member owns them from now on."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Give up these partitions in order (handlers, commit); `released` follows within the rebalance timeout."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """Drop these partitions: other members own them already, so their offsets must not be committed."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class LookUp:
    """Look up the partitions and racks of these topics; `found` follows."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookUpIds:
    """Look up the names of these topic ids; `named` follows."""

    topic_ids: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True)
class LeaveCoordinator:
    """Find the coordinator again: the last one does not respond, or does not coordinate the group."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the membership with an error."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Log:
    """Log a text for the user."""

    text: str
    is_warning: bool = False


Action = Send | Assign | Revoke | Lose | LookUp | LookUpIds | LeaveCoordinator | Fail | Log


class State(enum.Enum):
    """The state of a member."""

    OUT = "out"  # not joined yet, or left
    JOINING = "joining"
    STABLE = "stable"
    LEAVING = "leaving"
    FAILED = "failed"


class Membership(Protocol):
    """One member of one group."""

    @property
    def state(self) -> State:
        """The member's state."""

    @property
    def owned(self) -> tuple[Partition, ...]:
        """The partitions that the member may read and commit, including those that it is giving up."""

    @property
    def is_rebalancing(self) -> bool:
        """True until the member has its assignment."""

    @property
    def wake_ms(self) -> float:
        """When `tick` is due."""

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata that commits name."""

    def subscribe(self, topics: Sequence[str], now: float, *, pattern: str | None = None) -> list[Action]:
        """Subscribe to these topics, and join if needed. Brokers match the `pattern` (KIP-848)."""

    def tick(self, now: float) -> list[Action]:
        """Handle the time `wake_ms`."""

    def on_response(self, message: Any, response: Any, now: float) -> list[Action]:
        """Handle the coordinator's response to `message`."""

    def failed(self, message: Any, error: KafkaError, now: float) -> list[Action]:
        """Handle the failure of a request: no response comes."""

    def released(self, now: float) -> list[Action]:
        """Handle the end of a revocation: its partitions are given up."""

    def found(self, topics: Topics, now: float) -> list[Action]:
        """Handle the result of a `LookUp`; topics that do not exist are left out."""

    def named(self, now: float) -> list[Action]:
        """Handle the end of a `LookUpIds`; `name_of` may know more names now."""

    def changed(self, topics: Topics, now: float) -> list[Action]:
        """Handle a change of the metadata: partitions of topics."""

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata, now: float) -> list[Action]:
        """Handle the refusal of a commit of the member `sent_as`: the coordinator does not know it, or its epoch.

        The present member loses its partitions. For an earlier one, the next heartbeat reports the state.
        """

    def leave(self, now: float) -> list[Action]:
        """Leave the group. The caller has given up all owned partitions before."""


def left_behind(code: int, group_id: str) -> Log:
    """Return the warning that the coordinator removed the member, or that the group was deleted."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        text = f"group {group_id!r} was deleted, or became a group of another type ({ErrorCode(code).name})"
        return Log(f"{text}: this member's partitions are lost, and it joins again", is_warning=True)
    return Log(f"group {group_id!r} goes on without this member ({ErrorCode(code).name}): it joins again", True)


def refused(code: int, what: str, group_id: str, advice: str = "") -> BrokerError:
    """Return the error of a request that no retry can fix; `advice` replaces its text."""
    error = broker_error(code, what, api="JoinGroup", group=group_id)
    return error if not advice else BrokerError(error.code, error.name, False, f"{advice} [{what}]")


FATAL_ADVICE: dict[int, str] = {
    ErrorCode.FENCED_INSTANCE_ID: "another member has the same group_instance_id: each needs its own",
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "a member that has not left yet has the same group_instance_id: each needs its own; that of a process that was "
        "killed is free when its session is over"
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "the members of the group have no assignor in common, or they are no consumers: set "
        "partition_assignment_strategy to one that the others have, or take another group_id"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms is not between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's group.max.size allows",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no such group_remote_assignor",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the broker cannot read the pattern of topics, which is one of RE2",
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "the group is not one of this protocol: its members speak the classic one, and the brokers' "
        'group.consumer.migration.policy does not let it change (take group_protocol="classic"), or it is a group of '
        "another kind, as a share group (take another group_id)"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "the cluster does not have this protocol of groups (features group.version and share.version): upgrade it, or "
        'take group_protocol="classic" or "auto" for a consumer'
    ),
}


def why_fatal(code: int, doing: str, group_id: str, said: str | None = None) -> Fail:
    """Return the action that ends a membership with an error code; `said` is the broker's error message."""
    what = f"{doing} group {group_id!r}"
    if said:
        what += f"; the broker says: {said}"
    return Fail(refused(code, what, group_id, FATAL_ADVICE.get(code, "")))
