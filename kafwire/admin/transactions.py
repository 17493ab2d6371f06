"""Producers and transactions: list and describe them, abort a hanging one, fence producers. See KIP-664, KIP-98."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import chosen_of, names_of, partition_of, partitions_of, text_of, timeout_ms_of
from kafwire.admin.asking import error_of, one_by_one
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.admin.routes import Coordinators, GivenBrokers, Route
from kafwire.cluster.coordinator import TRANSACTION
from kafwire.cluster.offset_requests import by_topic
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaError, ProtocolError, broker_error
from kafwire.integers import natural
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work
from kafwire.types import TopicPartition

__all__ = [
    "TRANSACTION_STATES",
    "FencedProducer",
    "ProducerState",
    "TransactionCalls",
    "TransactionDescription",
    "TransactionListing",
    "sorted_listings",
]

TRANSACTION_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "PrepareEpochFence"),
)
# Partitions of one DescribeProducers request: a response may have thousands of producers for each.
PARTITIONS_AT_ONCE = 500
# A marker of a new producer's transaction: any coordinator has this epoch or a later one.
FIRST_COORDINATOR_EPOCH = 0
_SPECIAL = "\\.+*?()|[]{}^$"


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as a partition's replica remembers it: one that is idempotent or transactional.

    Args:
        producer_id: the producer's id.
        producer_epoch: its epoch.
        last_sequence: the sequence number of its last record; -1: unknown.
        last_timestamp_ms: the timestamp of its last record or marker, in milliseconds since the epoch; -1: unknown.
        coordinator_epoch: the coordinator's epoch in the last marker; None if no marker was written.
        start_offset: the first offset of its open transaction in this partition; None if none is open.

    Example:
        >>> from kafwire.admin import ProducerState
        >>> ProducerState(1000, 0, 41, 1374883200000, None, 17).start_offset
        17
    """

    __module__ = "kafwire.admin"
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    start_offset: int | None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list.

    Args:
        transactional_id: the id.
        producer_id: the id of its producer.
        state: "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort" or
            "PrepareEpochFence".
        coordinator: the broker that coordinates it.

    Example:
        >>> from kafwire.admin import TransactionListing
        >>> TransactionListing("billing", 1000, "Ongoing", 1).state
        'Ongoing'
    """

    __module__ = "kafwire.admin"
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id.

    Args:
        transactional_id: the id.
        coordinator: the broker that coordinates it.
        state: as in `TransactionListing`.
        producer_id: the id of its producer.
        producer_epoch: the producer's epoch.
        timeout_ms: the coordinator aborts a transaction that is open for longer.
        started_ms: the start of the last transaction, in milliseconds since the epoch; None if there was none.
        partitions: the partitions of an open transaction; of one that ends, those that have no marker yet.

    Example:
        >>> from kafwire.admin import TransactionDescription
        >>> TransactionDescription("billing", 1, "Empty", 1000, 0, 60000, None, ()).timeout_ms
        60000
    """

    __module__ = "kafwire.admin"
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id and the epoch of a transactional id after `Admin.fence_producers`; older epochs are fenced.

    Args:
        producer_id: the producer's id.
        producer_epoch: its new epoch.

    Example:
        >>> from kafwire.admin import FencedProducer
        >>> FencedProducer(1000, 1).producer_epoch
        1
    """

    __module__ = "kafwire.admin"
    producer_id: int
    producer_epoch: int


class TransactionCalls(AdminRequests):
    """The calls about producers and transactions."""

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None, timeout: float | None
    ) -> Work[Outcomes[TopicPartition, list[ProducerState]]]:
        """Describe the producers of partitions."""
        return self._producers(partitions_of("partitions", partitions), broker_of(broker), timeout_ms_of(timeout))

    def list_transactions(
        self,
        *,
        states: Iterable[str] | None,
        producer_ids: Iterable[int] | None,
        longer_than_ms: int | None,
        pattern: str | None,
        prefix: str | None,
        timeout: float | None,
    ) -> Work[Outcomes[int, list[TransactionListing]]]:
        """List transactional ids of all coordinators, by broker."""
        if pattern is not None and prefix is not None:
            raise ConfigError("pattern and prefix exclude each other: a pattern may begin with the prefix")
        request = protocol.ListTransactionsRequest(
            state_filters=chosen_of("states", states, TRANSACTION_STATES),
            producer_id_filters=_numbers("producer_ids", producer_ids),
            transactional_id_pattern=None if pattern is None else text_of("pattern", pattern),
        )
        if longer_than_ms is not None:
            request.duration_filter = whole_number("longer_than_ms", longer_than_ms)
        return self._listings(request, text_of("prefix", prefix) if prefix is not None else "", timeout_ms_of(timeout))

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None
    ) -> Work[Outcomes[str, TransactionDescription]]:
        """Describe transactional ids."""
        names = names_of("transactional_ids", transactional_ids, 'describe_transactions(["billing-1"])')
        return self._descriptions(names, timeout_ms_of(timeout))

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None,
        timeout: float | None,
    ) -> Work[Outcomes[TopicPartition, None]]:
        """Write an abort marker to a partition."""
        where = partition_of(partition)
        request: Any = protocol.WriteTxnMarkersRequest
        marker = request.WritableTxnMarker(
            producer_id=whole_number("producer_id", producer_id),
            producer_epoch=whole_number("producer_epoch", producer_epoch, 0x7FFF),
            transaction_result=False,
            topics=[request.WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
            coordinator_epoch=FIRST_COORDINATOR_EPOCH
            if coordinator_epoch is None
            else whole_number("coordinator_epoch", coordinator_epoch, 0x7FFF_FFFF),
        )
        what = f"aborting the transaction of producer {marker.producer_id} in {where.topic}-{where.partition}"

        async def send(broker: int, _: list[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            response = await route.call(broker, request(markers=[marker]))
            return {
                TopicPartition(topic.name, part.partition_index): error_of(
                    part, what, "WriteTxnMarkers", topic=topic.name
                )
                for each in response.markers
                for topic in each.topics
                for part in topic.partitions
            }

        route: Route[TopicPartition] = self._leaders(_itself)
        return self._work([where], route, send, what, timeout_ms_of(timeout))

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None
    ) -> Work[Outcomes[str, FencedProducer]]:
        """Raise the epochs of transactional ids."""
        names = names_of("transactional_ids", transactional_ids, 'fence_producers(["billing-1"])')
        return self._fence(names, "fencing the producers", timeout_ms_of(timeout))

    def force_terminate_transaction(
        self, transactional_id: str, *, timeout: float | None
    ) -> Work[Outcomes[str, FencedProducer]]:
        """Abort the open transaction of a transactional id."""
        name = text_of("transactional_id", transactional_id)
        return self._fence([name], "terminating the transaction", timeout_ms_of(timeout))

    # --- requests

    def _producers(
        self, partitions: Iterable[TopicPartition], broker: int | None, timeout_ms: float | None
    ) -> Work[Outcomes[TopicPartition, list[ProducerState]]]:
        request: Any = protocol.DescribeProducersRequest

        async def send(
            node: int, asked: list[TopicPartition]
        ) -> Mapping[TopicPartition, list[ProducerState] | KafkaError]:
            found: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
            for first in range(0, len(asked), PARTITIONS_AT_ONCE):
                some = by_topic(asked[first : first + PARTITIONS_AT_ONCE])
                topics = [request.TopicRequest(name=name, partition_indexes=numbers) for name, numbers in some.items()]
                response = await route.call(node, request(topics=topics))
                for topic in response.topics:
                    for part in topic.partitions:
                        where = TopicPartition(topic.name, part.partition_index)
                        what = f"describing the producers of {where.topic}-{where.partition}"
                        error = error_of(part, what, "DescribeProducers", topic=where.topic)
                        found[where] = error or [_producer(each) for each in part.active_producers]
            return found

        route: Route[TopicPartition]
        if broker is None:
            route = self._leaders(_itself)
        else:  # a new topic reaches its replicas one after the other
            route = self._given(lambda _: broker, also=[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        return self._work(partitions, route, send, "describing producers", timeout_ms)

    def _listings(
        self, request: Any, prefix: str, timeout_ms: float | None
    ) -> Work[Outcomes[int, list[TransactionListing]]]:
        async def send(_: int, brokers: list[int]) -> Mapping[int, list[TransactionListing] | KafkaError]:
            (broker,) = brokers
            version = await route.version_of(broker, type(request))
            message, problem = _in_version(request, prefix, version, broker)
            if problem is not None:
                return {broker: problem}
            response = await route.call(broker, message, version)
            what = f"listing the transactions of broker {broker}"
            if response.error_code:
                return {broker: broker_error(response.error_code, what, api="ListTransactions")}
            if unknown := response.unknown_state_filters:
                return {broker: ProtocolError(f"{what}: it does not know the states {', '.join(unknown)}")}
            return {
                broker: [
                    TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, broker)
                    for each in response.transaction_states
                    if each.transactional_id.startswith(prefix)
                ]
            }

        route: GivenBrokers[int] = self._given(_itself, also=[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
        return self._everywhere(route, send, "listing transactions", timeout_ms)

    def _descriptions(
        self, names: Sequence[str], timeout_ms: float | None
    ) -> Work[Outcomes[str, TransactionDescription]]:
        async def send(broker: int, asked: list[str]) -> Mapping[str, TransactionDescription | KafkaError]:
            response = await route.call(broker, protocol.DescribeTransactionsRequest(transactional_ids=asked))
            return {
                each.transactional_id: error_of(
                    each,
                    f"describing the transaction of {each.transactional_id!r}",
                    "DescribeTransactions",
                    transactional_id=each.transactional_id,
                )
                or _description(each, broker)
                for each in response.transaction_states
            }

        route: Coordinators[str] = self._coordinators(TRANSACTION)
        return self._work(names, route, send, "describing transactions", timeout_ms)

    def _fence(self, names: Sequence[str], what: str, timeout_ms: float | None) -> Work[Outcomes[str, FencedProducer]]:
        async def send(broker: int, name: str) -> FencedProducer | KafkaError:
            message = protocol.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=BROKER_TIMEOUT_MS)
            response = await route.call(broker, message)
            error = error_of(response, f"{what} of {name!r}", "InitProducerId", transactional_id=name)
            return error or FencedProducer(response.producer_id, response.producer_epoch)

        # The first response is CONCURRENT_TRANSACTIONS if it aborts an open transaction.
        route: Coordinators[str] = self._coordinators(TRANSACTION, also=[ErrorCode.CONCURRENT_TRANSACTIONS])
        return self._work(names, route, one_by_one(send), what, timeout_ms)


def sorted_listings(found: Mapping[int, list[TransactionListing]]) -> list[TransactionListing]:
    """Return the listings of all brokers, by transactional id."""
    return sorted((each for listed in found.values() for each in listed), key=lambda each: each.transactional_id)


def pattern_of(prefix: str) -> str:
    """Return the RE2 pattern of all names with a prefix."""
    return "".join(f"\\{each}" if each in _SPECIAL else each for each in prefix) + ".*"


def _in_version(request: Any, prefix: str, version: int, broker: int) -> tuple[Any, ProtocolError | None]:
    """Return the message for a broker, and an error if it would ignore a filter.

    The broker filters by prefix from Kafka 4.1 on; before, kafwire alone does.
    """
    pattern = request.transactional_id_pattern
    if prefix and version >= request.PATTERN:
        pattern = pattern_of(prefix)
    message = type(request)(
        state_filters=request.state_filters,
        producer_id_filters=request.producer_id_filters,
        duration_filter=request.duration_filter,
        transactional_id_pattern=pattern,
    )
    lacks = ""
    if message.transactional_id_pattern is not None and version < request.PATTERN:
        lacks = "filter by pattern: Kafka 4.1 or newer can"
    elif message.duration_filter >= 0 and version < request.DURATION:
        lacks = "filter by longer_than_ms: Kafka 3.8 or newer can"
    return message, ProtocolError(f"broker {broker} cannot {lacks}", api="ListTransactions") if lacks else None


def _itself(key: Any) -> Any:
    return key


def _producer(state: Any) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )


def _description(state: Any, broker: int) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        broker,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        tuple(sorted(TopicPartition(each.topic, number) for each in state.topics for number in each.partitions)),
    )


def broker_of(broker: Any) -> int | None:
    return None if broker is None else whole_number("broker", broker, 0x7FFF_FFFF)


def whole_number(what: str, value: Any, highest: int | None = None) -> int:
    number = natural(value)
    if number is None or (highest is not None and number > highest):
        limit = "" if highest is None else f" to {highest}"
        raise ConfigError(f"{what}={value!r}: it must be a whole number from 0{limit}")
    return number


def _numbers(what: str, values: Any) -> list[int]:
    if values is None:
        return []
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of numbers")
    return [whole_number(what, value) for value in values]
