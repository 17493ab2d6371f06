"""Topics, options, replicas and records as administrators change them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.state import ClusterState
from kafwire.broker.topics.config_def import BOOLEAN, DOUBLE, INT, LIST, ConfigDef
from kafwire.broker.topics.reassignments import Reassignments
from kafwire.errors import ErrorCode
from kafwire.records import decode_batches, encode_batch
from tests.support.broker.driver import BrokerDriver

NO_ID = uuid.UUID(int=0)


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver(ClusterState((1, 2, 3)))


def create(driver: BrokerDriver, name: str = "t", *, validate_only: bool = False, **fields: Any) -> Any:
    request = protocol.CreateTopicsRequest
    configs = [request.CreatableTopicConfig(name=n, value=v) for n, v in fields.pop("configs", {}).items()]
    topic = request.CreatableTopic(
        name=name, **({"num_partitions": 1, "replication_factor": 1} | fields), configs=configs
    )
    (result,) = driver.ask(request(topics=[topic], validate_only=validate_only)).topics
    return result


def alter(driver: BrokerDriver, kind: int, name: str, *changes: Any, node: int = 1) -> Any:
    request = protocol.IncrementalAlterConfigsRequest
    configs = [request.AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = driver.ask(request(resources=[resource]), node=node).responses
    return result.error_code


def described(driver: BrokerDriver, kind: int, name: str) -> dict[str, tuple[str, int]]:
    request = protocol.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = driver.ask(request(resources=[resource])).results
    assert not result.error_code
    return {each.name: (each.value, each.config_source) for each in result.configs}


def test_a_topic_is_made_as_it_is_described(driver: Any) -> None:
    assert not create(driver, num_partitions=2, replication_factor=3, configs={"retention.ms": " 7 "}).error_code
    topic = driver.state.topics.by_name["t"]
    assert [len(partition.replicas) for partition in topic.partitions] == [3, 3]
    assert described(driver, 2, "t")["retention.ms"] == ("7", 1)
    assert described(driver, 2, "t")["retention.bytes"] == ("-1", 5)


def test_validation_makes_nothing(driver: Any) -> None:
    assert not create(driver, validate_only=True).error_code
    assert not driver.state.topics.by_name


def test_names_that_collide_in_metrics_are_refused(driver: Any) -> None:
    assert not create(driver, "a.b").error_code
    assert create(driver, "a_b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not create(driver, "ab").error_code


def test_options_of_topics_brokers_and_the_cluster_hold_in_this_order(driver: Any) -> None:
    create(driver)
    state, topic = driver.state, driver.state.topics.by_name["t"]
    steps = [
        ((4, "", ("log.retention.ms", 0, "3")), "3", 3),
        ((4, "1", ("log.retention.ms", 0, "2")), "2", 2),
        ((2, "t", ("retention.ms", 0, "1")), "1", 1),
    ]
    for change, value, source in steps:
        assert not alter(driver, *change)
        assert described(driver, 2, "t")["retention.ms"] == (value, source)
        assert state.topic_config(topic, "retention.ms") == value
    for change, value, source in reversed(steps):
        assert described(driver, 2, "t")["retention.ms"] == (value, source)
        assert not alter(driver, change[0], change[1], (change[2][0], 1, None))
    assert state.topic_config(topic, "retention.ms") == "604800000"


def test_lists_grow_and_shrink(driver: Any) -> None:
    create(driver)
    topic = driver.state.topics.by_name["t"]
    assert not alter(driver, 2, "t", ("cleanup.policy", 2, "compact"))
    assert topic.configs["cleanup.policy"] == "delete,compact"
    assert not alter(driver, 2, "t", ("cleanup.policy", 3, "delete"))
    assert topic.configs["cleanup.policy"] == "compact"
    assert alter(driver, 2, "t", ("retention.ms", 2, "1")) == ErrorCode.INVALID_CONFIG


def test_alter_configs_resets_options_that_it_does_not_name(driver: Any) -> None:
    create(driver, configs={"retention.ms": "7", "segment.ms": "9"})
    request = protocol.AlterConfigsRequest
    configs = [request.AlterableConfig(name="segment.ms", value="8")]
    resource = request.AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
    assert not driver.ask(request(resources=[resource])).responses[0].error_code
    assert driver.state.topics.by_name["t"].configs == {"segment.ms": "8"}


@pytest.mark.parametrize(
    ("config", "value", "text"),
    [
        (ConfigDef("a", INT, "1", "", least=0), "x", "Invalid value x for configuration a: Not a number of type INT"),
        (ConfigDef("a", INT, "1", ""), str(1 << 31), "Not a number of type INT"),
        (ConfigDef("a", INT, "1", "", least=1), "0", "Invalid value 0 for configuration a: Value must be at least 1"),
        (
            ConfigDef("a", INT, "1", "", least=1, most=9, special=-1),
            "0",
            "Value must be between 1 and 9 or equal to -1",
        ),
        (ConfigDef("a", DOUBLE, "1", "", most=1), "1.5", "Value must be no more than 1"),
        (ConfigDef("a", BOOLEAN, "true", ""), "yes", "Expected value to be either true or false"),
        (ConfigDef("a", LIST, "x", "", choices=("x", "y")), "x,z", "Invalid value z for configuration a"),
    ],
)
def test_wrong_values(config: Any, value: Any, text: Any) -> None:
    assert text in (config.problem(value) or "")
    assert config.problem(config.default) is None


def test_partitions_are_added_and_topics_deleted_by_id(driver: Any) -> None:
    create(driver)
    grow = protocol.CreatePartitionsRequest
    topic = grow.CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert not driver.ask(grow(topics=[topic], timeout_ms=1000)).results[0].error_code
    made = driver.state.topics.by_name["t"]
    assert len(made.partitions) == 3
    delete = protocol.DeleteTopicsRequest
    states = [delete.DeleteTopicState(name=None, topic_id=made.topic_id)]
    assert driver.ask(delete(topics=states)).responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    (result,) = driver.ask(delete(topics=states, timeout_ms=1000)).responses
    assert (result.name, result.error_code) == ("t", 0)
    (result,) = driver.ask(delete(topics=states, timeout_ms=1000)).responses
    assert (result.name, result.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_name_and_the_id_of_the_same_topic_delete_nothing(driver: Any) -> None:
    create(driver)
    kept = driver.state.topics.by_name["t"]
    delete = protocol.DeleteTopicsRequest
    states = [
        delete.DeleteTopicState(name=None, topic_id=kept.topic_id),
        delete.DeleteTopicState(name="t", topic_id=NO_ID),
    ]
    (result,) = driver.ask(delete(topics=states, timeout_ms=1000)).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert driver.state.topics.find("t") is kept


def move(driver: BrokerDriver, replicas: list[int] | None) -> int:
    request = protocol.AlterPartitionReassignmentsRequest
    part = request.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = request.ReassignableTopic(name="t", partitions=[part])
    return int(driver.ask(request(topics=[topic])).responses[0].partitions[0].error_code)


def test_replicas_move_and_another_leads(driver: Any) -> None:
    create(driver, assignments=[], num_partitions=1)
    partition = driver.state.topics.by_name["t"].partitions[0]
    partition.append_values([b"a", b"b"])
    old = partition.replicas[0]
    target = [node for node in (1, 2, 3) if node != old]
    assert not move(driver, target)
    assert set(partition.replicas) == {1, 2, 3}
    driver.pass_ms(0)
    assert (partition.replicas, partition.isr, partition.leader) == (target, target, target[0])
    assert partition.log.end_offset == 2
    assert not driver.state.part(Reassignments).ongoing


def test_a_move_to_a_broker_that_is_down_waits_and_can_be_called_off(driver: Any) -> None:
    create(driver)
    partition = driver.state.topics.by_name["t"].partitions[0]
    old = partition.replicas[0]
    down = 3 if old != 3 else 2
    driver.state.stop(down)
    assert not move(driver, [down])
    driver.pass_ms(0)
    listed = driver.ask(protocol.ListPartitionReassignmentsRequest()).topics[0].partitions[0]
    assert (listed.replicas, listed.adding_replicas, listed.removing_replicas) == ([down, old], [down], [old])
    assert not move(driver, None)
    assert move(driver, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert partition.replicas == [old]
    assert not move(driver, [down])
    driver.state.start(down)
    driver.pass_ms(0)
    assert (partition.replicas, partition.leader) == ([down], down)


def test_the_preferred_leader_is_elected(driver: Any) -> None:
    create(driver, num_partitions=1, replication_factor=3)
    partition = driver.state.topics.by_name["t"].partitions[0]
    preferred, other = partition.replicas[:2]
    request = protocol.ElectLeadersRequest
    ask = request(election_type=0, topic_partitions=[request.TopicPartitions(topic="t", partitions=[0])])
    assert driver.ask(ask).replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
    partition.lead(other)
    assert not driver.ask(ask).replica_election_results[0].partition_result[0].error_code
    assert partition.leader == preferred


def test_records_are_deleted_up_to_the_high_watermark(driver: Any) -> None:
    create(driver)
    partition = driver.state.topics.by_name["t"].partitions[0]
    partition.append_values([b"a", b"b", b"c"])
    request = protocol.DeleteRecordsRequest

    def delete(offset: int) -> tuple[int, int]:
        part = request.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = request.DeleteRecordsTopic(name="t", partitions=[part])
        found = driver.ask(request(topics=[topic]), node=partition.leader).topics[0].partitions[0]
        return found.error_code, found.low_watermark

    assert delete(2) == (0, 2)
    assert delete(1) == (0, 2)
    assert delete(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(-1) == (0, 3)
    partition.topic.configs["cleanup.policy"] = "compact"
    assert delete(3) == (ErrorCode.POLICY_VIOLATION, -1)


def test_pages_of_partitions(driver: Any) -> None:
    for name in ("b", "a"):
        create(driver, name, num_partitions=3)
    request = protocol.DescribeTopicPartitionsRequest
    seen, cursor = [], None
    while True:
        response = driver.ask(request(response_partition_limit=2, cursor=cursor))
        seen.append([(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics])
        if response.next_cursor is None:
            break
        cursor = request.Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )
    assert seen == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1, 2])]]


def test_batches_are_stored_with_the_codec_of_the_topic(driver: Any) -> None:
    create(driver, configs={"compression.type": "zstd"})
    partition = driver.state.topics.by_name["t"].partitions[0]
    request = protocol.ProduceRequest
    records = encode_batch(
        [{"key": b"k", "value": b"v" * 500, "timestamp_ms": driver.state.wall_ms}], compression="lz4"
    )
    data = request.TopicProduceData(name="t", partition_data=[request.PartitionProduceData(index=0, records=records)])
    response = driver.ask(request(acks=1, topic_data=[data]), 9, node=partition.leader)
    assert not response.responses[0].partition_responses[0].error_code
    (batch,) = decode_batches(bytes(partition.log.read(0, partition.log.size)))
    assert (batch.compression, batch[0].key, batch[0].value) == ("zstd", b"k", b"v" * 500)


# --- the controller


def test_only_the_controller_is_registered(driver: BrokerDriver) -> None:
    def code(controller_id: int) -> int:
        return int(driver.ask(protocol.UnregisterControllerRequest(controller_id=controller_id)).error_code)

    assert [code(each) for each in (1, 2, 77, -1)] == [
        ErrorCode.INVALID_REQUEST,
        *[ErrorCode.CONTROLLER_ID_NOT_REGISTERED] * 3,
    ]


def test_another_broker_becomes_the_controller(driver: BrokerDriver) -> None:
    driver.state.stop(1)
    assert driver.ask(protocol.DescribeClusterRequest(), node=2).controller_id == 2
    assert driver.ask(protocol.MetadataRequest(topics=[]), node=2).controller_id == 2
    request = protocol.UnregisterControllerRequest(controller_id=2)
    assert driver.ask(request, node=2).error_code == ErrorCode.INVALID_REQUEST
