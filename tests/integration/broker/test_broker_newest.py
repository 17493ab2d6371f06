"""The additions of Kafka 4.4.0: the embedded broker and a real one give the same responses, error messages included."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.deadlines import until

NODE = 1
BUSY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
# APIs of Kafka 4.4.0 that the embedded broker does not list, and why.
NOT_SERVED = {
    "brokers among themselves": {
        "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
        "ReadShareGroupStateSummary",
    },
}  # fmt: skip


class Broker:
    """A broker that is asked without a client's rules, and a name that no other test uses."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = kafwire.Client(bootstrap)
        self.name = f"newest-{uuid.uuid4().hex[:8]}"

    def ask(self, message: Any, version: int) -> Any:
        return self.client.call(message, broker=NODE, version=version)

    def settled(self, message: Any, version: int, codes: Callable[[Any], list[int]]) -> Any:
        """The first response that says nothing of a coordinator that loads or a transaction that ends."""
        found: Any = None

        def is_settled() -> bool:
            nonlocal found
            found = self.ask(message, version)
            return not BUSY & {*codes(found)}

        until(is_settled)
        return found

    def begin(self, transactional_id: str) -> Any:
        """InitProducerId, after the coordinator was asked for: Kafka creates its topic then."""
        found = protocol.FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        self.settled(found, 6, lambda its: [each.error_code for each in its.coordinators])
        request = protocol.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        return self.settled(request, 5, lambda its: [its.error_code])

    def listed(self, pattern: str) -> tuple[int, list[str]]:
        """The error code of ListTransactions, and the transactional ids."""
        request = protocol.ListTransactionsRequest(transactional_id_pattern=pattern)
        response = self.settled(request, 2, lambda its: [its.error_code])
        return response.error_code, sorted(each.transactional_id for each in response.transaction_states)


@pytest.fixture(scope="module")
def brokers(cluster: KafkaCluster) -> Iterator[tuple[Broker, Broker]]:
    """The real broker, and the embedded one."""
    with EmbeddedKafka(configs={"auto.create.topics.enable": False}) as embedded:
        both = Broker(cluster.bootstrap), Broker(embedded.bootstrap)
        for each in both:
            each.client.create_topic(each.name)
        yield both
        for each in both:
            each.client.close()


def compared(brokers: tuple[Broker, Broker], ask: Callable[[Broker], Any]) -> Any:
    real, ours = (ask(each) for each in brokers)
    assert ours == real
    return real


def test_the_apis_that_are_not_served(brokers: tuple[Broker, Broker]) -> None:
    classes = {kind.api_key: kind.name for kind in protocol.MESSAGES.values() if issubclass(kind, protocol.Request)}

    def listed(broker: Broker) -> dict[str, tuple[int, int]]:
        request = protocol.ApiVersionsRequest(client_software_name="x", client_software_version="1")
        return {
            classes[each.api_key].removesuffix("Request"): (each.min_version, each.max_version)
            for each in broker.ask(request, 4).api_keys
        }

    real, ours = (listed(each) for each in brokers)
    assert real.keys() - ours.keys() == set().union(*NOT_SERVED.values())
    assert {name: real.get(name) for name in ours} == ours


def test_the_broker_that_a_connection_means(brokers: tuple[Broker, Broker]) -> None:
    """KIP-1242."""

    def codes(broker: Broker) -> list[int]:
        own = broker.client.metadata([]).cluster_id
        asked = protocol.ApiVersionsRequest
        return [
            broker.ask(
                asked(client_software_name="x", client_software_version="1", cluster_id=cluster_id, node_id=node), 5
            ).error_code
            for cluster_id in (own, "another", "", None)
            for node in (NODE, 2, -1, -2)
        ]

    wrong, invalid = ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.INVALID_REQUEST
    assert compared(brokers, codes) == [
        *(0, wrong, invalid, wrong),
        *(wrong, wrong, invalid, wrong) * 2,
        *(invalid, invalid, 0, invalid),
    ]


def test_controllers_that_are_unregistered(brokers: tuple[Broker, Broker]) -> None:
    def refusals(broker: Broker) -> list[tuple[int, str | None]]:
        requests = [protocol.UnregisterControllerRequest(controller_id=each) for each in (77, -1, NODE)]
        return [(its.error_code, its.error_message) for its in (broker.ask(each, 0) for each in requests)]

    unknown, itself = ErrorCode.CONTROLLER_ID_NOT_REGISTERED, ErrorCode.INVALID_REQUEST
    assert [code for code, _ in compared(brokers, refusals)] == [unknown, unknown, itself]


def test_groups_that_are_deleted(brokers: tuple[Broker, Broker]) -> None:
    def results(broker: Broker) -> list[tuple[str, int, str | None]]:
        place = kafwire.TopicPartition(broker.name, 0)
        names = [f"{broker.name}-{kind}" for kind in ("none", "empty", "live")]
        with kafwire.Consumer(broker.bootstrap, assign=[place], group_id=names[1]) as consumer:
            consumer.commit({place: 0})
        request = protocol.DeleteGroupsRequest(groups_names=["", *names])
        with kafwire.Consumer(broker.bootstrap, topics=broker.name, group_id=names[2]) as member:
            until(lambda: bool(member.poll(0.1) or member.assignment))
            response = broker.ask(request, 3)
        return sorted((its.group_id.rpartition("-")[2], its.error_code, its.error_message) for its in response.results)

    assert [(name, code) for name, code, _ in compared(brokers, results)] == [
        ("", ErrorCode.GROUP_ID_NOT_FOUND),
        ("empty", 0),
        ("live", ErrorCode.NON_EMPTY_GROUP),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_heartbeats_of_a_group_that_is_gone(brokers: tuple[Broker, Broker]) -> None:
    def codes(broker: Broker) -> dict[str, list[tuple[int, str | None]]]:
        found = protocol.FindCoordinatorRequest(key_type=0, coordinator_keys=[broker.name])
        broker.settled(found, 6, lambda its: [each.error_code for each in its.coordinators])
        kinds = {"consumer": protocol.ConsumerGroupHeartbeatRequest, "share": protocol.ShareGroupHeartbeatRequest}
        result = {}
        for name, kind in kinds.items():
            group = f"{broker.name}-gone-{name}"
            responses = [
                broker.settled(
                    kind(group_id=group, member_id="member", member_epoch=epoch), 1, lambda its: [its.error_code]
                )
                for epoch in (1, 7, -1)
            ]
            result[name] = [
                (its.error_code, its.error_message and its.error_message.replace(group, "G")) for its in responses
            ]
        classic = protocol.HeartbeatRequest(group_id=f"{broker.name}-gone", generation_id=1, member_id="member")
        result["classic"] = [(broker.settled(classic, 4, lambda its: [its.error_code]).error_code, None)]
        return result

    assert {name: [code for code, _ in each] for name, each in compared(brokers, codes).items()} == {
        "consumer": [ErrorCode.GROUP_ID_NOT_FOUND] * 3,
        "share": [ErrorCode.GROUP_ID_NOT_FOUND] * 3,
        "classic": [ErrorCode.UNKNOWN_MEMBER_ID],
    }


def test_offsets_of_transactions_by_topic_id(brokers: tuple[Broker, Broker]) -> None:
    """KIP-1319."""

    def results(broker: Broker) -> list[tuple[str, list[tuple[int, int]]]]:
        producer = broker.begin(broker.name)
        request = protocol.TxnOffsetCommitRequest(
            transactional_id=broker.name,
            group_id=broker.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        topic_id = broker.client.topic(broker.name).topic_id
        ids = {topic_id: "known", uuid.UUID(int=5): "unknown", uuid.UUID(int=0): "zero"}
        parts = [request.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=3) for index in (0, 7)]
        request.topics = [request.TxnOffsetCommitRequestTopic(topic_id=each, partitions=parts) for each in ids]

        def codes(its: Any) -> list[int]:
            return [part.error_code for topic in its.topics for part in topic.partitions]

        response = broker.settled(request, 6, codes)
        end = protocol.EndTxnRequest(
            transactional_id=broker.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=False,
        )
        assert broker.settled(end, 5, lambda its: [its.error_code]).error_code == 0
        return sorted(
            (ids[topic.topic_id], [(part.partition_index, part.error_code) for part in topic.partitions])
            for topic in response.topics
        )

    unknown_partition, unknown_id = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
    assert compared(brokers, results) == [
        ("known", [(7, unknown_partition), (0, 0)]),
        ("unknown", [(0, unknown_id), (7, unknown_id)]),
        ("zero", [(0, unknown_id), (7, unknown_id)]),
    ]


# Patterns (KIP-994) and the ends of the transactional ids that they match; None: RE2 refuses the pattern.
SUFFIXES = ("a", "aaab", "B", "x.y")
PATTERNS: dict[str, list[str] | None] = {
    "NAME-.*": ["B", "a", "aaab", "x.y"],
    "NAME-a+": ["a"],
    "NAME-a": ["a"],
    "NAME-(?i)[ab]": ["B", "a"],
    "NAME-[^[:alpha:]]*|NAME-x\\.y": ["x.y"],
    "NAME-(a+)+b": ["aaab"],
    "NAME-((a+)+)+$": ["a"],
    "NAME-\\Qx.y\\E": ["x.y"],
    "NAME-a{2,3}b": ["aaab"],
    "NAME-(": None,
    "NAME-(?=a).*": None,
    "NAME-(a)\\1.*": None,
    "NAME-a{1001}": None,
    "NAME-[b-a]": None,
}


def test_transactions_that_are_listed_by_a_pattern(brokers: tuple[Broker, Broker]) -> None:
    for broker in brokers:
        for suffix in SUFFIXES:
            broker.begin(f"{broker.name}-{suffix}")

    def listed(broker: Broker) -> dict[str, tuple[int, list[str]]]:
        found = {pattern: broker.listed(pattern.replace("NAME", broker.name)) for pattern in PATTERNS}
        return {
            pattern: (code, [each.removeprefix(f"{broker.name}-") for each in ids])
            for pattern, (code, ids) in found.items()
        }

    assert compared(brokers, listed) == {
        pattern: (ErrorCode.INVALID_REGULAR_EXPRESSION, []) if wanted is None else (0, wanted)
        for pattern, wanted in PATTERNS.items()
    }


def test_a_pattern_that_takes_long_stops_no_broker(brokers: tuple[Broker, Broker]) -> None:
    for broker in brokers:
        broker.begin(f"{broker.name}-{'a' * 60}!")
        began = time.monotonic()
        assert broker.listed(f"{broker.name}-(a+)+$")[1] in ([], [f"{broker.name}-a"])
        assert time.monotonic() - began < 10, "a matcher that goes back takes 2 ** 60 steps"
