"""Strategies for fault scripts of the embedded broker: errors, lost responses, moves of leaders and coordinators."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from kafwire.errors import ErrorCode

# Errors that a client has to survive by a retry, at once or at another broker. The simplest error is the first.
RETRIABLE: Mapping[str, tuple[ErrorCode, ...]] = MappingProxyType(
    {
        "Produce": (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ),
        "Fetch": (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ),
        "ListOffsets": (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.OFFSET_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        "Metadata": (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "FindCoordinator": (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        "InitProducerId": (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ),
        "OffsetCommit": (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        "OffsetFetch": (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ),
        "JoinGroup": (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ),
        "SyncGroup": (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
        "Heartbeat": (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
        "AddPartitionsToTxn": (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        "AddOffsetsToTxn": (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR),
        "TxnOffsetCommit": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
        "EndTxn": (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR),
    }
)
KINDS = ("fail_next", "hang_up", "drop_response", "delay", "move_leader", "move_coordinator", "stop_node")


@dataclass(frozen=True)
class BrokerEvent:
    """A call of `EmbeddedKafka`, or of `Faults`; its `repr` is that call.

    Args:
        name: the method's name.
        arguments: the positional arguments.
        options: the keyword arguments.

    Example:
        >>> from kafwire.testing.strategies import BrokerEvent
        >>> BrokerEvent("hang_up", ("Produce",), {"times": 2})
        hang_up('Produce', times=2)
    """

    name: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def play(self, kafka: Any) -> Any:
        """Call the method.

        Args:
            kafka: the `EmbeddedKafka` or `Faults`.

        Returns:
            The method's result.
        """
        return getattr(kafka, self.name)(*self.arguments, **self.options)

    def __repr__(self) -> str:
        arguments = [repr(each) for each in self.arguments]
        arguments += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.name}({', '.join(arguments)})"


@st.composite
def broker_events(  # noqa: D417 - Hypothesis gives `draw`
    draw: st.DrawFn,
    /,
    *,
    apis: Collection[str] = ("Produce", "Fetch", "Metadata", "FindCoordinator", "OffsetCommit", "OffsetFetch"),
    nodes: int = 1,
    topics: Mapping[str, int] | None = None,
    groups: Collection[str] = (),
    kinds: Collection[str] = KINDS,
    max_times: int = 3,
    max_delay: float = 0.05,
) -> BrokerEvent:
    """Draw one fault or move of a broker that a client survives.

    No event stops a broker: `fault_scripts` stops brokers, and starts them again.

    Args:
        apis: the APIs whose requests meet faults, among those of `RETRIABLE`.
        nodes: the number of brokers; with one, nothing moves.
        topics: the topics whose leaders may move, with their numbers of partitions.
        groups: groups and transactional ids whose coordinators may move.
        kinds: the kinds, among `KINDS`.
        max_times: the most requests that meet a fault.
        max_delay: the longest delay of a response, in seconds.

    Returns:
        A strategy of `BrokerEvent`.

    Raises:
        ValueError: at the first draw: no such event is possible, or an API is not in `RETRIABLE`.

    Example:
        >>> from hypothesis import find
        >>> from kafwire.testing.strategies import broker_events
        >>> find(broker_events(apis=["Fetch"], kinds=["hang_up"]), lambda event: True)
        hang_up('Fetch', times=1)
    """
    possible = [kind for kind in KINDS if kind in kinds and kind != "stop_node"]
    if nodes < 2 or not topics:
        possible = [kind for kind in possible if kind != "move_leader"]
    if nodes < 2 or not groups:
        possible = [kind for kind in possible if kind != "move_coordinator"]
    if not possible:
        raise ValueError(f"nothing can happen with kinds={sorted(kinds)} and {nodes} brokers")
    kind = draw(st.sampled_from(possible))
    if kind == "move_leader":
        topic = draw(st.sampled_from(sorted(topics or ())))
        partition = draw(st.integers(0, (topics or {})[topic] - 1))
        return BrokerEvent(kind, (topic, partition, draw(st.integers(1, nodes))))
    if kind == "move_coordinator":
        return BrokerEvent(kind, (draw(st.sampled_from(sorted(groups))), draw(st.integers(1, nodes))))
    api = draw(st.sampled_from(list(apis)))
    times = {"times": draw(st.integers(1, max_times))}
    if kind == "fail_next":
        if api not in RETRIABLE:
            raise ValueError(f"no errors are known that a client survives for {api}; apis are {', '.join(RETRIABLE)}")
        return BrokerEvent(kind, (api, draw(st.sampled_from(RETRIABLE[api])).name), times)
    if kind == "delay":
        return BrokerEvent(kind, (api, round(draw(st.floats(0.001, max_delay)), 3)), times)
    return BrokerEvent(kind, (api,), times)


@st.composite
def fault_scripts(  # noqa: D417 - Hypothesis gives `draw`
    draw: st.DrawFn,
    /,
    *,
    max_size: int = 8,
    nodes: int = 1,
    kinds: Collection[str] = KINDS,
    **options: Any,
) -> list[BrokerEvent]:
    """Draw a sequence of `broker_events`, with its arguments, for a test to `play` one by one.

    With several brokers, the script may stop one at a time, and starts it again.

    Args:
        max_size: the most events, without the starts.
        nodes: the number of brokers.
        kinds: the kinds, among `KINDS`.
        options: see `broker_events`.

    Returns:
        A strategy of lists of `BrokerEvent`.

    Example:
        >>> from hypothesis import find
        >>> from kafwire.testing.strategies import fault_scripts
        >>> find(fault_scripts(apis=["Fetch"], kinds=["hang_up"]), lambda script: len(script) == 2)
        [hang_up('Fetch', times=1), hang_up('Fetch', times=1)]
    """
    events = broker_events(nodes=nodes, kinds=kinds, **options)
    may_stop = nodes > 1 and "stop_node" in kinds
    script: list[BrokerEvent] = []
    stopped = 0
    for _ in range(draw(st.integers(0, max_size))):
        if may_stop and draw(st.integers(0, 7)) == 7:
            if stopped:
                script.append(BrokerEvent("start_node", (stopped,)))
            stopped = draw(st.integers(1, nodes))
            script.append(BrokerEvent("stop_node", (stopped,)))
            continue
        event = draw(events)
        if stopped and event.name in ("move_leader", "move_coordinator") and event.arguments[-1] == stopped:
            continue  # a broker that is down leads nothing
        script.append(event)
    if stopped:
        script.append(BrokerEvent("start_node", (stopped,)))
    return script
