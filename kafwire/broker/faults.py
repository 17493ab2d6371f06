"""Fault scripts: the next faults of a cluster, and the requests that meet them.

    faults = state.part(Faults)
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2, topic="flights")

Faults are tried in the order in which they were added. A request meets any number of delays, and then at most one other
fault. Other requests are served, and do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kafwire import protocol
from kafwire.broker import dispatch, response_levels
from kafwire.broker.error_responses import (
    ErrorPlace,
    can_respond_with,
    fetched_places,
    inject,
    named,
    overwrite,
)
from kafwire.broker.request import HANG_UP, LATER, Request, Response
from kafwire.broker.request_places import places_of
from kafwire.broker.response_levels import PARTITION, TOPIC
from kafwire.errors import ErrorCode
from kafwire.similar_names import similar

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

# One or several of Kafka's names of APIs.
Apis = str | Collection[str]


class Whose(TypedDict, total=False):
    """The requests that a fault is for. A missing field matches all.

    Requests that name a topic, or a partition of that number; requests to a broker; requests of a client.
    """

    topic: str
    partition: int
    node: int
    client_id: str


_MET = "delays"  # the note with the delays that a request has met


class Action(Enum):
    """The effect of a fault."""

    FAIL = "fails with"
    DROP_RESPONSE = "response dropped"
    HANG_UP = "connection closed"
    DELAY = "delayed"
    HOLD = "held"


@dataclass(slots=True, eq=False)
class Fault:
    """One line of a script. `times_left`: None for a fault without end. `times`: the requests that have met it."""

    action: Action
    apis: tuple[str, ...]
    times_left: int | None = None
    topic: str | None = None
    partition: int | None = None
    node: int | None = None
    client_id: str | None = None
    error: ErrorPlace | None = None
    is_executed: bool = False  # the request, before its error response
    delay_ms: float = 0.0
    times: int = 0
    held: list[Request] = field(default_factory=list)

    def __str__(self) -> str:
        if self.error is not None:
            when = " when it is done" if self.is_executed else ""
            return f"{self.action.value} {ErrorCode(self.error.code).name}{when}"
        return (
            f"{self.action.value} by {self.delay_ms / 1000:g} s" if self.action is Action.DELAY else self.action.value
        )


class Faults:
    """The fault script of a cluster; `state.part(Faults)`.

    All faults take the fields of `Whose`.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.script: list[Fault] = []
        self.watchers: list[Callable[[Fault], None]] = []  # called when a request meets a fault
        state.interceptors.append(self._intercept)

    # --- the script

    def fail_next(
        self,
        api: Apis,
        error: ErrorCode | str | int,
        *,
        times: int | None = 1,
        message: str | None = None,
        executed: bool = False,
        **whose: Unpack[Whose],
    ) -> Fault:
        """Fail the next requests with an error, without executing them.

        With `topic` or `partition`, the broker executes the rest of these requests.

        Args:
            api: one or several of Kafka's names, such as `Produce`.
            error: one of Kafka's names, such as `NOT_ENOUGH_REPLICAS`, or its number.
            times: the number of requests; None: all, until `clear`.
            message: the error message, in responses that have a field for it.
            executed: execute the requests first, as a broker that waits in vain for its followers.
            whose: see `Whose`.

        Raises:
            ValueError: there is no such API or error, or the API has no place for it.
        """
        code = error_of(error)
        place = ErrorPlace(code, message, whose.get("topic"), whose.get("partition"))
        fault = self._make(Action.FAIL, api, times, whose)
        for each in fault.apis:
            kind: Any = protocol.MESSAGES[each + "Request"]
            versions = range(kind.min_version, kind.max_version + 1)
            if all(response_levels.depth(each, version, code, kind=place.kind) is None for version in versions):
                of = f" of a {place.kind}" if place.kind else ""
                raise ValueError(f"the response of {each} has no field for the error{of}")
        fault.error, fault.is_executed = place, executed
        return self._add(fault)

    def drop_response(
        self,
        api: Apis,
        *,
        times: int | None = 1,
        **whose: Unpack[Whose],
    ) -> Fault:
        """Execute the next requests, and close the connection instead of a response."""
        return self._add(self._make(Action.DROP_RESPONSE, api, times, whose))

    def hang_up(
        self,
        api: Apis,
        *,
        times: int | None = 1,
        **whose: Unpack[Whose],
    ) -> Fault:
        """Close the connection on the next requests, without executing them."""
        return self._add(self._make(Action.HANG_UP, api, times, whose))

    def delay(
        self,
        api: Apis,
        seconds: float,
        *,
        times: int | None = None,
        **whose: Unpack[Whose],
    ) -> Fault:
        """Execute requests, and delay their responses; later requests of the connection wait too."""
        fault = self._make(Action.DELAY, api, times, whose)
        fault.delay_ms = seconds * 1000.0
        return self._add(fault)

    def hold(
        self,
        api: Apis,
        **whose: Unpack[Whose],
    ) -> Fault:
        """Hold requests until `release`; later requests of their connections wait too."""
        return self._add(self._make(Action.HOLD, api, None, whose))

    def release(self, fault: Fault) -> None:
        """End a fault, and serve its held requests in the order in which they came."""
        if fault in self.script:
            self.script.remove(fault)
        held, fault.held = fault.held, []
        for request in held:
            if request.connection.is_open:
                dispatch.handle(self._state, request)

    def clear(self) -> None:
        """End all faults. Leaders, coordinators and brokers stay as they are."""
        for fault in list(self.script):
            self.release(fault)

    # --- the cluster

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another broker the leader of a partition; -1: no broker leads it."""
        self._check_node(node, allows_none=True)
        self._state.move_leader(topic, partition, node)

    def move_coordinator(self, group: str, node: int) -> None:
        """Make another broker the coordinator of a group or a transactional id; -1: no broker coordinates it."""
        self._check_node(node, allows_none=True)
        self._state.move_coordinator(group, node)

    def stop_node(self, node: int, *, clean: bool = True) -> None:
        """Stop a broker; other replicas lead its partitions."""
        self._check_node(node)
        if self._state.nodes[node].is_up:
            self._state.stop(node, clean=clean)

    def start_node(self, node: int) -> None:
        """Start a broker again."""
        self._check_node(node)
        if not self._state.nodes[node].is_up:
            self._state.start(node)

    # --- requests

    def _intercept(self, request: Request) -> Response | None:
        """See `Interceptor`."""
        for fault in list(self.script):
            if not self._meets(fault, request):
                continue
            self._note(fault, request)
            if fault.times_left is not None:
                fault.times_left -= 1
                if not fault.times_left:
                    self.script.remove(fault)
            if fault.action is Action.DELAY:
                request.delay_ms += fault.delay_ms
                request.notes.setdefault(_MET, []).append(fault)
            elif fault.action is Action.HOLD:
                fault.held.append(request)
                return LATER
            elif fault.action is Action.HANG_UP:
                return HANG_UP
            elif fault.action is Action.DROP_RESPONSE:
                request.edits.append(lambda response: HANG_UP)  # noqa: ARG005 - whatever it is
                return None
            elif fault.error is not None and fault.is_executed:
                overwrite(self._state, request, fault.error)
                return None
            elif fault.error is not None:
                return inject(self._state, request, fault.error)
        return None

    def _note(self, fault: Fault, request: Request) -> None:
        fault.times += 1
        if request.seen is not None:
            request.seen.fault = ", ".join(filter(None, [request.seen.fault, str(fault)]))
        for watcher in list(self.watchers):
            watcher(fault)

    def _meets(self, fault: Fault, request: Request) -> bool:
        if (
            request.name not in fault.apis
            or (fault.node is not None and fault.node != request.node)
            or (fault.client_id is not None and fault.client_id != request.client_id)
            or fault in request.notes.get(_MET, ())  # a held request is handled again
        ):
            return False
        if fault.error is not None:
            return can_respond_with(self._state, request, fault.error)
        if fault.topic is None and fault.partition is None:
            return True
        if request.name == "Fetch":
            places = fetched_places(self._state, request)
        else:
            places = places_of(request.name, request.version, request.message, named(self._state))
        whose = ErrorPlace(0, None, fault.topic, fault.partition)
        return any(whose.concerns(*place) for place in places)

    def _add(self, fault: Fault) -> Fault:
        self.script.append(fault)
        return fault

    def _make(self, action: Action, api: Apis, times: int | None, whose: Whose) -> Fault:
        names = apis_of(api)
        if times is not None and times < 1:
            raise ValueError(f"times={times}: it must be 1 or more, or None")
        if whose.get("node") is not None:
            self._check_node(whose["node"])
        for name in names:
            for kind in (TOPIC, PARTITION):
                if whose.get(kind) is not None and not response_levels.has_kind(name, kind):
                    raise ValueError(f"{name} requests name no {kind}: leave {kind}= out")
        return Fault(action, names, times, **whose)

    def _check_node(self, node: int, *, allows_none: bool = False) -> None:
        if node not in self._state.nodes and not (allows_none and node == -1):
            raise ValueError(f"there is no broker {node}; there are {', '.join(map(str, self._state.nodes))}")


def apis_of(api: Apis) -> tuple[str, ...]:
    """Return the names of served APIs. Raises `ValueError` for others."""
    names = (api,) if isinstance(api, str) else tuple(api)
    served = {each.name for each in dispatch.served().values()}
    for name in names:
        if name not in served:
            if name + "Request" in protocol.MESSAGES:
                raise ValueError(f"this broker does not serve {name}")
            raise ValueError(_unknown("API", name, served))
    return names


def error_of(error: ErrorCode | str | int) -> ErrorCode:
    """Return the error of a name or a number. Raises `ValueError` for others."""
    if isinstance(error, str):
        if error not in ErrorCode.__members__:
            raise ValueError(_unknown("error", error, ErrorCode.__members__))
        return ErrorCode[error]
    return ErrorCode(error)


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    by_small = {each.lower(): each for each in known}
    near = similar(name.lower().removesuffix("request"), by_small, 3)
    hint = f"; did you mean {' or '.join(by_small[each] for each in near)}?" if near else ""
    return f"Kafka has no {kind} {name!r}{hint}"
