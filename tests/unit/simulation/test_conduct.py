"""The judge of clients' requests: each rule is broken once, and a permitted request beside it is no violation."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from kafwire.testing.simulation.conduct.conduct import Conduct
from kafwire.testing.simulation.conduct.lookups import IN_VAIN

CLIENT, LINE = "client", "connection"
OLDER = 11  # of Produce: partitions are added to transactions before


class Client:
    """One client of broker 1, and its violations."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calm_since_s = 0.0
        self.conduct = Conduct(lambda: self.now_s, lambda: self.calm_since_s, delivery_s=8.0)
        self.sent = 0
        self.topic = "t"

    def send(self, message: Any, version: int | None = None) -> int:
        kind = type(message)
        version = kind.max_version if version is None else version
        self.sent += 1
        head = protocol.encode_request_header(kind, version, self.sent, CLIENT)
        self.conduct.sent(LINE, CLIENT, 1, head + bytes(message.encode(version)))
        return self.sent

    def produce(
        self, first: int, *values: bytes, epoch: int = 0, transactional: bool = False, version: int = OLDER + 1
    ) -> int:
        batch = encode_batch(
            list(values) or [b"%d" % first],
            producer_id=7,
            producer_epoch=epoch,
            base_sequence=first,
            transactional=transactional,
        )
        part = protocol.ProduceRequest.PartitionProduceData(index=0, records=batch)
        topic = protocol.ProduceRequest.TopicProduceData(name=self.topic, partition_data=[part])
        return self.send(protocol.ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic]), version)

    def produced(self, number: int, error: ErrorCode = ErrorCode.NONE, leader: int = -1) -> None:
        kind = protocol.ProduceResponse
        reported = kind.LeaderIdAndEpoch(leader_id=leader, leader_epoch=1)
        part = kind.PartitionProduceResponse(index=0, error_code=error, base_offset=0, current_leader=reported)
        topic = kind.TopicProduceResponse(name=self.topic, partition_responses=[part])
        self.conduct.on_response(LINE, number, kind(responses=[topic]))

    def taken(self, count: int) -> None:
        """Send `count` batches, each acknowledged before the next."""
        for first in range(count):
            self.produced(self.produce(first))

    @property
    def wrong(self) -> list[str]:
        return self.conduct.violations


@pytest.fixture
def client() -> Client:
    return Client()


def test_numbers_go_on_without_a_gap(client: Client) -> None:
    client.taken(3)
    client.produced(client.produce(0, epoch=1))
    assert not client.wrong
    client.produce(5)
    assert "batch 5 is sent where 3 is due" in client.wrong[0]


def test_the_first_batch_goes_alone(client: Client) -> None:
    client.produce(0)
    client.produce(1)
    assert "before the first one was acknowledged" in client.wrong[0]


def test_five_batches_are_in_flight_at_most(client: Client) -> None:
    client.taken(1)
    for first in range(1, 6):
        client.produce(first)
    assert not client.wrong
    client.produce(6)
    assert "the fifth batch before it" in client.wrong[0]


def test_the_window_counts_from_the_oldest_batch_that_is_open(client: Client) -> None:
    """Its followers were taken: a broker that remembers five would forget it with one more."""
    client.taken(1)
    sent = [client.produce(first) for first in range(1, 6)]
    client.produced(sent[0], ErrorCode.NOT_ENOUGH_REPLICAS)
    for number in sent[1:]:
        client.produced(number)
    client.produce(1)
    assert not client.wrong
    client.produce(6)
    assert "the fifth batch before it" in client.wrong[0]


def test_a_batch_does_not_overtake_one_that_waits(client: Client) -> None:
    client.taken(1)
    refused, follower = client.produce(1), client.produce(2)
    client.produced(refused, ErrorCode.NOT_ENOUGH_REPLICAS)
    client.produced(follower, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    client.produce(2)
    assert "batch 2 overtakes" in client.wrong[0]
    client.wrong.clear()
    client.produce(1)
    assert not client.wrong


def test_a_batch_is_not_in_flight_twice(client: Client) -> None:
    client.produce(0)
    client.produce(0)
    assert "in flight already" in client.wrong[0]


def test_the_number_of_a_batch_that_may_be_stored_is_its_own(client: Client) -> None:
    client.taken(1)
    client.produced(client.produce(1, b"a"), ErrorCode.NOT_ENOUGH_REPLICAS)  # not stored
    client.produce(1, b"b")
    assert not client.wrong
    client.conduct.closed(LINE)
    client.produce(1, b"c")
    assert "may be in the log" in client.wrong[0]


def test_a_transaction_does_not_end_before_its_batches(client: Client) -> None:
    end = protocol.EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=0, committed=True)
    client.produced(client.produce(0, transactional=True))
    client.send(end)
    assert not client.wrong
    client.produce(1, transactional=True)
    client.send(end)
    assert "are in flight" in client.wrong[0]


def test_partitions_are_added_before_they_are_written_to(client: Client) -> None:
    add = protocol.AddPartitionsToTxnRequest
    topics = [add.AddPartitionsToTxnTopic(name="t", partitions=[0])]
    request = add(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )
    number = client.send(request, 3)
    kind = protocol.AddPartitionsToTxnResponse
    part = kind.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=ErrorCode.NONE)
    topic = kind.AddPartitionsToTxnTopicResult(name="t", results_by_partition=[part])
    client.conduct.on_response(LINE, number, kind(results_by_topic_v3_and_below=[topic]))
    client.produced(client.produce(0, transactional=True, version=OLDER))
    assert not client.wrong
    client.send(protocol.EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=0, committed=True))
    client.produce(1, transactional=True, version=OLDER)
    assert "was not added to the transaction" in client.wrong[0]


def fetch(epoch: int) -> protocol.FetchRequest:
    kind = protocol.FetchRequest
    part = kind.FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1)
    return kind(max_wait_ms=0, min_bytes=0, topics=[kind.FetchTopic(topic="t", partitions=[part])])


def test_leader_epochs_do_not_go_back(client: Client) -> None:
    for epoch in (3, -1, 4, 4):
        client.send(fetch(epoch), 12)
    assert not client.wrong
    client.send(fetch(3), 12)
    assert "leader epoch 3" in client.wrong[0]


def test_the_epoch_of_a_session_is_right(client: Client) -> None:
    response = protocol.FetchResponse
    lost = response(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    client.conduct.on_response(LINE, client.send(fetch(1), 12), lost)
    assert not client.wrong
    client.conduct.on_response(
        LINE, client.send(fetch(1), 12), response(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    )
    assert "was wrong" in client.wrong[0]


@pytest.mark.parametrize("is_reported", ["never", "by metadata", "by a response"])
def test_a_broker_that_does_not_lead_is_not_asked_on(client: Client, is_reported: str) -> None:
    for _ in range(2 * IN_VAIN):
        client.produced(
            client.produce(0), ErrorCode.NOT_LEADER_OR_FOLLOWER, 1 if is_reported == "by a response" else -1
        )
        if is_reported == "by metadata":
            client.conduct.on_response(LINE, client.send(protocol.MetadataRequest()), protocol.MetadataResponse())
    assert bool(client.wrong) == (is_reported == "never")


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_broker_that_does_not_coordinate_is_not_asked_on(client: Client, *, is_reported: bool) -> None:
    ask = protocol.EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=0, committed=True)
    for _ in range(2 * IN_VAIN):
        response = protocol.EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)
        client.conduct.on_response(LINE, client.send(ask), response)
        if is_reported:
            number = client.send(protocol.FindCoordinatorRequest(coordinator_keys=["x"], key_type=1))
            client.conduct.on_response(LINE, number, protocol.FindCoordinatorResponse())
    assert bool(client.wrong) == (not is_reported)


@pytest.mark.parametrize("is_searched", [False, True])
def test_a_batch_in_doubt_is_asked_for_before_others_go(client: Client, *, is_searched: bool) -> None:
    client.taken(1)
    client.produced(client.produce(1), ErrorCode.REQUEST_TIMED_OUT)
    if is_searched:
        number = client.send(protocol.DescribeProducersRequest())
        client.conduct.on_response(LINE, number, protocol.DescribeProducersResponse())
    client.produce(2)
    assert bool(client.wrong) == (not is_searched)


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
@pytest.mark.parametrize("is_searched", [False, True])
def test_a_batch_that_may_be_in_the_log_may_have_been_found_there(
    client: Client, error: ErrorCode, *, is_searched: bool
) -> None:
    client.taken(1)
    first, second = client.produce(1), client.produce(2)
    for number in (first, second):
        client.produced(number, error)
    if is_searched:
        number = client.send(protocol.DescribeProducersRequest())
        client.conduct.on_response(LINE, number, protocol.DescribeProducersResponse())
    client.produce(2)
    assert bool(client.wrong) == (not is_searched)


def test_a_question_asked_before_a_batch_came_back_does_not_count_for_it(client: Client) -> None:
    client.taken(1)
    number = client.produce(1)
    client.conduct.on_response(
        LINE, client.send(protocol.DescribeProducersRequest()), protocol.DescribeProducersResponse()
    )
    client.produced(number, ErrorCode.REQUEST_TIMED_OUT)
    client.produce(2)
    assert "overtakes" in client.wrong[0]


def test_where_a_later_epoch_is_known_another_producer_id_follows(client: Client) -> None:
    client.taken(1)
    number, follower = client.produce(1), client.produce(2)
    client.produced(number, ErrorCode.INVALID_PRODUCER_EPOCH)
    client.produced(follower, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert not client.wrong
    client.produce(0, epoch=1)
    assert "needs another id" in client.wrong[0]


@pytest.mark.parametrize(
    ("waits_s", "is_calm", "is_late"), [(0.12, True, False), (0.3, True, True), (0.3, False, False)]
)
def test_a_refused_batch_goes_again_in_time(client: Client, waits_s: float, *, is_calm: bool, is_late: bool) -> None:
    client.taken(1)
    client.produced(client.produce(1), ErrorCode.NOT_ENOUGH_REPLICAS)
    client.now_s += waits_s
    client.calm_since_s = 0.0 if is_calm else client.now_s
    client.produce(1)
    assert bool(client.wrong) == is_late


def test_a_batch_waits_longer_each_time_but_not_without_a_limit(client: Client) -> None:
    client.taken(1)
    for waits_s in (0.1, 0.2, 0.4, 0.8, 1.0, 1.2):
        client.produced(client.produce(1), ErrorCode.NOT_ENOUGH_REPLICAS)
        client.now_s += waits_s
    assert not client.wrong
    client.now_s += 0.4
    client.produce(1)
    assert "1.2 s at most are due" in client.wrong[0]


@pytest.mark.parametrize(("after_s", "is_wrong"), [(7.9, True), (8.0, False)])
def test_a_batch_may_go_when_those_before_it_were_given_up(client: Client, after_s: float, *, is_wrong: bool) -> None:
    """An expired batch has an outcome for its user, and those behind it are not held up."""
    client.taken(1)
    first, second = client.produce(1), client.produce(2)
    client.now_s += after_s
    client.produced(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    client.produced(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    client.produce(2)
    assert bool(client.wrong) == is_wrong


def test_a_batch_that_moved_to_another_topic_keeps_its_backoff(client: Client) -> None:
    client.taken(1)
    for _ in range(3):
        client.produced(client.produce(1), ErrorCode.UNKNOWN_TOPIC_ID)
    client.topic = "recreated"
    client.produced(client.produce(1), ErrorCode.NOT_ENOUGH_REPLICAS)
    client.now_s += 0.8
    client.produce(1)
    assert not client.wrong


def metadata(epoch: int, leader: int = 1) -> protocol.MetadataResponse:
    kind = protocol.MetadataResponse
    part = kind.MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return kind(topics=[kind.MetadataResponseTopic(name="t", partitions=[part])])


@pytest.mark.parametrize(("epoch", "waits_s", "is_late"), [(2, 0.1, False), (2, 1.0, True), (1, 1.0, False)])
def test_metadata_are_asked_for_again_soon_after_news(
    client: Client, epoch: int, waits_s: float, *, is_late: bool
) -> None:
    """Where the last response was no news, the backoff may be a long one."""
    for reported in (1, epoch):
        client.conduct.on_response(LINE, client.send(protocol.MetadataRequest()), metadata(reported))
    client.produced(client.produce(0), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    client.now_s += waits_s
    client.send(protocol.MetadataRequest())
    assert bool(client.wrong) == is_late


@pytest.mark.parametrize("why", ["its response is on its way", "another one leads", "the broker named it"])
def test_a_client_that_knows_more_need_not_ask_for_metadata(client: Client, why: str) -> None:
    leader = 2 if why == "another one leads" else 1
    client.conduct.on_response(LINE, client.send(protocol.MetadataRequest()), metadata(1, leader))
    if why == "its response is on its way":
        client.send(protocol.MetadataRequest())
    number = client.produce(0)
    client.produced(number, ErrorCode.NOT_LEADER_OR_FOLLOWER, 2 if why == "the broker named it" else -1)
    client.now_s += 1.0
    client.send(protocol.MetadataRequest())
    assert not client.wrong


@pytest.mark.parametrize("epoch", [0, 1])
def test_after_a_request_without_response_the_next_transaction_has_another_epoch(client: Client, epoch: int) -> None:
    end = protocol.EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=0, committed=True)
    client.send(end)
    client.conduct.closed(LINE)
    client.conduct.on_response(LINE, client.send(end), protocol.EndTxnResponse())
    assert not client.wrong
    offsets = protocol.TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=7, producer_epoch=epoch, topics=[]
    )
    client.send(offsets)
    assert bool(client.wrong) == (epoch == 0)


def test_a_client_that_starts_over_may_know_an_older_leader_epoch(client: Client) -> None:
    client.send(fetch(3), 12)
    client.conduct.on_response(LINE, client.send(protocol.OffsetFetchRequest()), protocol.OffsetFetchResponse())
    client.send(fetch(2), 12)
    assert not client.wrong
