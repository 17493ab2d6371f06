"""What a member of a group hears and decides, whichever protocol its group speaks: the interface of both, and actions.

A membership is told what happens and answers with what is to be done, in that order. It knows no clock, sends nothing
itself, and forgets nothing: `membership_driver.py` carries out its actions. Times are in milliseconds.
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
# Somewhere else is the coordinator now, or nowhere yet.
COORDINATOR_MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
# Requests that cannot or must not be sent: no later one will be answered otherwise, unless somebody changes something.
ENDS = (AuthenticationError, AuthorizationError, ProtocolError)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """What a member is told once. `assignors` are those of the classic protocol, best first; `assignor` the broker's.

    `random` is in [0, 1), for the back-off between `retry_ms` and `retry_max_ms`. `new_id` makes ids of members, and
    `name_of` is the name of a topic's id, as far as it is known.
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
        """How long to wait after so many failures in a row."""
        return delay_ms(failures, self.retry_ms, self.retry_max_ms, self.random())


@dataclass(frozen=True, slots=True)
class Send:
    """A request for the coordinator; `answered` or `failed` follows. One that is parked there goes `apart`, on a
    connection of its own.
    """

    message: Any
    timeout_ms: float
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions are the member's from now on."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Revoke:
    """These are to be given up, in order: `released` follows within the rebalance time-out."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """These belong to others already; nothing of them may be committed."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class LookUp:
    """The partitions and racks of these topics are needed; `found` follows."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookUpIds:
    """The names of topics with these ids are needed; `named` follows."""

    topic_ids: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True)
class LeaveCoordinator:
    """The broker that was asked does not coordinate the group, or does not answer: find the one that does."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The membership is over for good."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Log:
    """Something that the user may want to know."""

    text: str
    is_warning: bool = False


Action = Send | Assign | Revoke | Lose | LookUp | LookUpIds | LeaveCoordinator | Fail | Log


class State(enum.Enum):
    """Where a member is."""

    OUT = "out"  # it has not joined, or has left
    JOINING = "joining"
    STABLE = "stable"
    LEAVING = "leaving"
    FAILED = "failed"


class Membership(Protocol):
    """One member of one group."""

    @property
    def state(self) -> State:
        """Where it is."""

    @property
    def owned(self) -> tuple[Partition, ...]:
        """The partitions that it may read and commit, those that it gives up included."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether it does not know yet what it will own."""

    @property
    def wake_ms(self) -> float:
        """When `tick` is due."""

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits for the group."""

    def subscribe(self, topics: Sequence[str], now: float, *, pattern: str | None = None) -> list[Action]:
        """The member wants these topics, and joins if it has not. `pattern` is one that brokers match (KIP-848)."""

    def tick(self, now: float) -> list[Action]:
        """It is `wake_ms`."""

    def answered(self, message: Any, answer: Any, now: float) -> list[Action]:
        """The coordinator answered."""

    def failed(self, message: Any, error: KafkaError, now: float) -> list[Action]:
        """There is no answer."""

    def released(self, now: float) -> list[Action]:
        """What was to be revoked is given up."""

    def found(self, topics: Topics, now: float) -> list[Action]:
        """The topics that were looked up; none of those that do not exist."""

    def named(self, now: float) -> list[Action]:
        """More names of topics may be known by now."""

    def changed(self, topics: Topics, now: float) -> list[Action]:
        """Partitions of topics changed, as the metadata say."""

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata, now: float) -> list[Action]:
        """The coordinator refused a commit of the member `sent_as`: it does not know the member, or its epoch.

        If that is the present member, its partitions are lost. Otherwise a heartbeat says more.
        """

    def leave(self, now: float) -> list[Action]:
        """Leave the group. Everything that was owned is given up already."""


def left_behind(code: int, group_id: str) -> Log:
    """What a member says whose place is gone."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        text = f"group {group_id!r} was deleted, or became a group of another type ({ErrorCode(code).name})"
        return Log(f"{text}: this member's partitions are lost, and it joins again", is_warning=True)
    return Log(f"group {group_id!r} goes on without this member ({ErrorCode(code).name}): it joins again", True)


def refused(code: int, what: str, group_id: str, advice: str = "") -> BrokerError:
    """The error of a member that no retry mends."""
    error = broker_error(code, what, api="JoinGroup", group=group_id)
    return error if not advice else BrokerError(error.code, error.name, False, f"{advice} [{what}]")


FATAL_ADVICE: dict[int, str] = {
    ErrorCode.FENCED_INSTANCE_ID: "another member has the same group_instance_id: each needs its own",
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "a member that has not left yet has the same group_instance_id: each needs its own; that of a process that was "
        "killed is free when its session is over"
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "no assignor is known to all members of the group, or its members are no consumers: set "
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
    """The end of a membership by an error code; `said` are the broker's own words."""
    what = f"{doing} group {group_id!r}"
    if said:
        what += f"; the broker says: {said}"
    return Fail(refused(code, what, group_id, FATAL_ADVICE.get(code, "")))
