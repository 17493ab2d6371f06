"""`scanner.plan` on the fetch engine: exact ranges from brokers that fail, move, throttle and compact, in a budget."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.faults import Faults
from kafwire.errors import BrokerError, ErrorCode, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError
from kafwire.protocol import FetchRequest
from kafwire.records import encode_batch
from kafwire.scanner.ranges import Bounds, plan_ranges
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.simulated.consumer import Rows, fill
from tests.support.simulated.scan import Scanning
from tests.support.simulated.world import World


def sliced(rows: Rows, start: int, end: int) -> Rows:
    return {where: [row for row in all_rows if start <= row[0] < end] for where, all_rows in rows.items()}


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_requests_have_the_values_of_options(level: str) -> None:
    with World(brokers=1) as world:
        fill(world, "a", partitions=2)
        options: dict[str, Any] = {"fetch_max_bytes": 54_321, "fetch_max_wait_ms": 123, "isolation_level": level}
        Scanning(world, ["a"], **options).all()
        first = world.made("Fetch")[0].message
        assert (first.max_wait_ms, first.min_bytes, first.max_bytes) == (123, 1, 54_321)
        assert (first.session_id, first.session_epoch, first.forgotten_topics_data, first.rack_id) == (0, -1, [], "")
        assert first.isolation_level == int(level == "read_committed")
        asked = [(p.fetch_offset, p.partition_max_bytes, p.current_leader_epoch) for p in first.topics[0].partitions]
        assert asked == [(0, 54_321, -1)] * 2


@pytest.mark.parametrize("topic_ids", [True, False])
@pytest.mark.parametrize("brokers", [1, 3])
def test_everything_is_read_once_and_in_order(brokers: int, *, topic_ids: bool) -> None:
    with World(brokers=brokers, topic_ids=topic_ids) as world:
        rows = {**fill(world, "a", partitions=5), **fill(world, "b", partitions=2, batches=1)}
        assert Scanning(world, ["a", "b"]).all() == rows
        last = FetchRequest.max_version if topic_ids else FetchRequest.BY_TOPIC_ID - 1
        assert {call.version for call in world.made("Fetch")} == {last}


@pytest.mark.parametrize("version", range(FetchRequest.min_version, FetchRequest.max_version + 1))
def test_every_version_of_fetch_is_understood(version: int) -> None:
    with World() as world:
        world.nodes[1].versions["Fetch"] = (4, version)
        rows = fill(world, "t", partitions=2)
        assert Scanning(world, ["t"]).all() == rows


def test_no_fetch_session_is_opened() -> None:
    with World() as world:
        fill(world, "t")
        Scanning(world, ["t"]).all()
        for call in world.made("Fetch"):
            assert (call.message.session_id, call.message.session_epoch) == (0, -1)


@pytest.mark.parametrize(("start", "end"), [(0, 12), (1, 11), (4, 5), (2, 3), (7, 7), (3, 9)])
def test_a_range_ends_exactly_inside_batches_too(start: int, end: int) -> None:
    with World() as world:
        rows = fill(world, "t")
        read = Scanning(world, ["t"], start={("t", 0): start}, end={("t", 0): end})  # type: ignore[dict-item]
        assert read.all() == sliced(rows, start, end)


def test_records_that_arrive_meanwhile_are_not_read() -> None:
    with World() as world:
        rows = fill(world, "t")
        read = Scanning(world, ["t"])
        world.topics["t"].partitions[0].append_values([b"late"] * 50)
        assert read.all() == rows


def test_an_empty_topic_ends_at_once() -> None:
    with World() as world:
        fill(world, "t", partitions=3, batches=0)
        assert Scanning(world, ["t"]).all() == {("t", 0): [], ("t", 1): [], ("t", 2): []}
        assert not world.made("Fetch")


def test_compaction_holes_count_as_progress() -> None:
    """Holes inside a batch, between batches, and a batch that lost all its records."""
    with World() as world:
        log = world.create_topic("t").partitions[0]
        with_hole: list[dict[str, object]] = [{"value": b"0", "offset": 0}, {"value": b"7", "offset": 7}]
        log.append(encode_batch(with_hole), next_offset=20)
        log.append(encode_batch([b"20"]))
        log.append(encode_batch([b"21", b"22"]), next_offset=100)
        log.append_values([b"100"])
        assert [offset for offset, _ in Scanning(world, ["t"]).all()["t", 0]] == [0, 7, 20, 21, 22, 100]


def test_a_tail_that_does_not_exist_any_more_ends_the_read() -> None:
    """The end offset was seen, but compaction took the last batches: the broker will never send up to it."""
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=4)
        for log in world.topics["t"].partitions[:3]:
            log.log.end_offset = 50
        assert Scanning(world, ["t"]).all() == rows


def test_a_tail_of_control_batches_ends_the_read() -> None:
    with World() as world:
        rows = fill(world, "t")
        log = world.topics["t"].partitions[0]
        marker = (b"\0\0\0\1", b"\0\0\0\0\0\0")
        log.append(encode_batch([marker], control=True, transactional=True, producer_id=1, producer_epoch=0))
        assert Scanning(world, ["t"]).all() == rows


def test_aborted_transactions_are_left_out_when_asked_for() -> None:
    with World() as world:
        log = world.create_topic("t").partitions[0]
        producer = {"transactional": True, "producer_id": 9, "producer_epoch": 0}
        log.append(encode_batch([b"aborted"], base_sequence=0, **producer))  # type: ignore[arg-type]
        log.append(encode_batch([(b"\0\0\0\0", b"\0" * 6)], control=True, **producer))  # type: ignore[arg-type]
        log.append_values([b"kept"])
        log.abort(9, 0)
        committed = Scanning(world, ["t"], isolation_level="read_committed").all()
        assert committed == {("t", 0): [(2, b"kept")]}
        assert world.made("Fetch")[-1].message.isolation_level == 1
        everything = Scanning(world, ["t"]).all()
        assert [value for _, value in everything["t", 0]] == [b"aborted", b"kept"]


def test_a_read_that_is_cut_anywhere_leaves_out_the_same_transactions() -> None:
    """Its second part may begin within a transaction, or between its end and another's."""
    with World() as world:
        log = world.create_topic("t").partitions[0]
        sequences = {7: 0, 9: 0}

        def write(producer: int, *values: bytes, end: int | None = None) -> None:
            records: Any = values if end is None else [(b"\0\0\0" + bytes([end]), b"\0" * 6)]
            log.append(
                encode_batch(
                    records,
                    base_sequence=sequences[producer] if end is None else -1,
                    control=end is not None,
                    transactional=True,
                    producer_id=producer,
                    producer_epoch=0,
                )
            )
            sequences[producer] += len(values)

        write(7, b"no", b"no", b"no")  # 0: aborted at 8
        write(9, b"yes 3", b"yes 4")  # committed at 7
        write(7, b"no", b"no")
        write(9, end=1)
        write(7, end=0)
        write(7, b"yes 9", b"yes 10")  # committed at 14
        write(9, b"no", b"no", b"no")  # 11: aborted at 15
        write(7, end=1)
        write(9, end=0)
        log.append_values([b"yes 16"])
        log.abort(7, 0)
        log.abort(9, 11)
        expected = [(offset, b"yes %d" % offset) for offset in (3, 4, 9, 10, 16)]
        where = TopicPartition("t", 0)
        for cut in range(18):
            found = []
            for start, end in ((0, cut), (cut, 17)):
                if start <= end:
                    read = Scanning(
                        world, ["t"], start={where: start}, end={where: end}, isolation_level="read_committed"
                    )
                    found += read.all()["t", 0]
            assert found == expected


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    with World() as world:
        rows = fill(world, "t")
        world.topics["t"].partitions[0].stable_at = 6
        assert Scanning(world, ["t"], isolation_level="read_committed").all() == sliced(rows, 0, 6)


def test_a_new_leader_whose_last_stable_offset_lags_ends_no_read() -> None:
    """Its high watermark is past the end, but it may not return records that it does not know to be committed."""
    with World(brokers=2) as world:
        rows = fill(world, "t", replicas=2)
        read = Scanning(world, ["t"], isolation_level="read_committed", fetch_max_bytes=1)

        def fail_over(call: Call) -> None:
            if len(world.made("Fetch")) == 2:
                world.fail_over("t", 0, 2, stable=6, for_s=2.0)

        world.on("Fetch", fail_over)
        assert read.all() == rows


@pytest.mark.parametrize("stable", [0, 3, 9])
def test_an_end_that_is_named_is_waited_for_until_it_is_stable(stable: int) -> None:
    """A transaction whose commit has returned has such offsets: its markers are written after that."""

    async def decide(read: Scanning) -> None:
        read.fetcher.start()
        await asyncio.sleep(30)
        assert not read.fetcher.stopped
        world.topics["t"].partitions[0].stable_at = None
        world.log("t").notify(-1)
        await read.until_stopped()

    with World() as world:
        rows = fill(world, "t")
        world.topics["t"].partitions[0].stable_at = stable
        end: Any = {("t", 0): 12}
        read = Scanning(world, ["t"], end=end, isolation_level="read_committed")
        world.run(decide(read))
        while read.take():
            pass
        assert read.rows == rows
        assert len(world.made("Fetch")) < 70  # they are parked at the broker


def test_a_transaction_that_stays_open_is_an_error_in_time() -> None:
    with World() as world:
        rows = fill(world, "t")
        world.topics["t"].partitions[0].stable_at = 6
        end: Any = {("t", 0): 9}
        read = Scanning(world, ["t"], end=end, isolation_level="read_committed", default_api_timeout_ms=10_000)
        began = world.engine.now_ms()
        text = "t-0 gave no records from offset 6 on for 10 s: its last stable offset is 6, and the read ends at 9; a"
        with pytest.raises(KafkaTimeoutError, match=text):
            read.all()
        assert read.rows == sliced(rows, 0, 6)
        assert 10_000 < world.engine.now_ms() - began < 12_000


@pytest.mark.parametrize("fetch_max_bytes", [1, 90, 150, 1000])
def test_partial_batches_at_the_end_of_a_response_are_requested_again(fetch_max_bytes: int) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3, batches=5)
        assert Scanning(world, ["t"], fetch_max_bytes=fetch_max_bytes).all() == rows


def test_a_partition_with_the_beginning_of_a_batch_is_requested_before_one_with_a_batch() -> None:
    def cut(call: Call) -> Any:
        response = world.fetch_now(call)
        for part in response.responses[0].partitions[1:]:
            part.records = part.records[:30]
        return response

    with World() as world:
        rows = fill(world, "t", partitions=3, batches=5)
        world.on("Fetch", cut)
        assert Scanning(world, ["t"], fetch_max_bytes=1000).all() == rows
        first = [call.message.topics[0].partitions[0].partition for call in world.made("Fetch")]
        assert first[:3] == [0, 1, 2]


def test_a_response_without_one_whole_batch_is_an_error() -> None:
    def cut(call: Call) -> Any:
        response = world.fetch_now(call)
        for part in response.responses[0].partitions:
            part.records = part.records[:30]
        return response

    with World() as world:
        fill(world, "t")
        world.on("Fetch", cut)
        with pytest.raises(ProtocolError, match="no whole batch"):
            Scanning(world, ["t"]).all()


def test_batches_that_end_before_the_requested_offset_are_an_error() -> None:
    with World() as world:
        fill(world, "t")
        log = world.topics["t"].partitions[0]
        read = Scanning(world, ["t"], start={("t", 0): 6}, end={("t", 0): 12})  # type: ignore[dict-item]
        for stored in log.batches:
            stored.header.next_offset += 6  # the batches sent for offset 6 have the offsets 0 to 5
        with pytest.raises(
            ProtocolError, match="t-0, after offset 6, from broker 1 .*batches that end before the requested offset"
        ):
            log.batches = log.batches[:2]
            read.all()


def test_a_base_offset_that_jumps_ahead_does_not_end_the_read_early() -> None:
    """No checksum covers it, and the records in between would be missing without a word."""
    with World() as world:
        rows = fill(world, "t")
        log = world.log("t")
        log.replace(1, (1 << 40).to_bytes(8, "big") + log.batches[1].data[8:])
        read = Scanning(world, ["t"], fetch_max_bytes=1)
        with pytest.raises(
            ProtocolError, match="t-0, after offset 3, .* above the high watermark that does not follow"
        ):
            read.all()
        assert read.rows == sliced(rows, 0, 3)


def test_a_damaged_batch_is_an_error_after_the_records_before_it() -> None:
    with World() as world:
        rows = fill(world, "t")
        log = world.log("t")
        log.replace(2, log.batches[2].data[:-1] + b"?")
        read = Scanning(world, ["t"])
        with pytest.raises(ProtocolError, match="t-0, batch at offset 6, from broker 1 at .*CRC"):
            read.all()
        assert read.rows == sliced(rows, 0, 6)


@pytest.mark.parametrize("response", [b"", b"\0", b"\0" * 3 + b"\xff" * 40])
def test_a_response_that_cannot_be_read_is_an_error(response: bytes) -> None:
    with World() as world:
        fill(world, "t")
        world.on("Fetch", lambda _: response)
        with pytest.raises(ProtocolError, match="FetchResponse"):
            Scanning(world, ["t"]).all()


def test_deleted_records_are_an_error_that_says_so() -> None:
    with World() as world:
        fill(world, "t")
        read = Scanning(world, ["t"])
        log = world.topics["t"].partitions[0]
        log.batches, log.log.start_offset = log.batches[2:], 6
        with pytest.raises(BrokerError, match="t-0 has no offset 0 any more: the records were deleted") as caught:
            read.all()
        assert caught.value.code == 1


def test_a_topic_recreated_while_it_is_read_is_an_error_that_says_so() -> None:
    with World() as world:
        fill(world, "t")
        read = Scanning(world, ["t"])
        world.topics["t"].topic_id = uuid.uuid4()
        with pytest.raises(
            BrokerError, match="'t' was deleted and recreated while t-0 was read, up to offset 0"
        ) as caught:
            read.all()
        assert caught.value.code == 100


def test_a_plan_does_not_trust_cached_metadata_of_a_topic() -> None:
    with World() as world:
        fill(world, "t")
        first = Scanning(world, ["t"])
        world.topics["t"].topic_id = uuid.uuid4()
        bounds = Bounds(["t"], None, "earliest", "latest")
        found = world.run(plan_ranges(first.cluster, bounds, isolation_level=0))
        assert [info.topic_id for _, info in found] == [world.topics["t"].topic_id]


def test_a_warm_plan_asks_the_leaders_once_and_does_not_wait_for_the_metadata() -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=3)
        warm = Scanning(world, ["t"], default_api_timeout_ms=5_000)
        before, asked = len(world.calls), world.loop.create_future()

        def see(_: Call) -> None:
            if not asked.done():
                asked.set_result(None)

        async def late(_: Call) -> None:
            await asked

        world.on("ListOffsets", see)
        world.on("Metadata", late)
        found = world.run(plan_ranges(warm.cluster, Bounds(["t"], None, "earliest", "latest"), isolation_level=0))
        assert {("t", its.partition): (its.start, its.end) for its, _ in found} == {
            where: (0, len(its)) for where, its in rows.items()
        }
        assert sorted(call.name for call in world.calls[before:]) == ["ListOffsets"] * 6 + ["Metadata"]


@pytest.mark.parametrize("early", ["other offsets", "an error", "no response"])
def test_offsets_of_a_topic_that_changed_meanwhile_are_asked_for_again(early: str) -> None:
    with World() as world:
        fill(world, "t")
        warm = Scanning(world, ["t"])
        world.topics["t"].topic_id = uuid.uuid4()
        before = len(world.made("ListOffsets"))

        def respond(_: Call) -> Any:
            if len(world.made("ListOffsets")) > before + 2:
                return None
            if early == "no response":
                return NEVER
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if early == "an error" else 0
            response = protocol.ListOffsetsResponse
            part = response.ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=77, leader_epoch=0)
            return response(topics=[response.ListOffsetsTopicResponse(name="t", partitions=[part])])

        world.on("ListOffsets", respond)
        bounds = Bounds(["t"], None, "earliest", "latest")
        ((found, info),) = world.run(plan_ranges(warm.cluster, bounds, isolation_level=0))
        assert (found.start, found.end) == (0, 12)
        assert info.topic_id == world.topics["t"].topic_id


@pytest.mark.parametrize("code", [2, 29])
def test_errors_that_no_retry_mends_end_the_read(code: int) -> None:
    with World() as world:
        fill(world, "t")
        world.state.part(Faults).fail_next("Fetch", code, times=None, partition=0)
        with pytest.raises(BrokerError, match="fetching t-0 at offset 0 from broker 1") as caught:
            Scanning(world, ["t"]).all()
        assert caught.value.code == code


def test_a_denied_fetch_ends_the_read() -> None:
    with World() as world:
        fill(world, "t")
        world.on("Fetch", lambda _: protocol.FetchResponse(error_code=29))
        with pytest.raises(BrokerError, match=r"fetching from broker 1 at 10\.0\.0\.1:9092"):
            Scanning(world, ["t"]).all()


def refusing(world: World, code: int, *, whole: bool) -> Callable[[Call], Any]:
    """Responses with an error: of the whole request, or of partition 0."""

    def refuse(call: Call) -> Any:
        if whole:
            return protocol.FetchResponse(error_code=code)
        response = world.fetch_now(call)
        for part in (part for topic in response.responses for part in topic.partitions if part.partition_index == 0):
            part.error_code, part.records, part.high_watermark, part.last_stable_offset = code, b"", -1, -1
        return response

    return refuse


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("code", [-1, 7, 42, 32_000])
def test_unknown_errors_are_retried(code: int, caplog: pytest.LogCaptureFixture, *, whole: bool) -> None:
    if code == 42 and not whole:
        return  # known, and not to be mended: of a partition that ends the read
    with World() as world:
        rows = fill(world, "t", partitions=3)
        refuse = refusing(world, code, whole=whole)
        world.on("Fetch", lambda call: refuse(call) if world.engine.now_ms() < 1_000_000 + 20_000 else None)
        assert Scanning(world, ["t"]).all() == rows
        assert 15 <= len(world.made("Fetch")) <= 80  # with backoff, of a second at last
    reported = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(reported) == 1, reported
    assert f"({code})" in reported[0]
    assert ("fetching from broker 1" if whole else "fetching t-0 from broker 1") in reported[0]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("code", [-1, 32_000])
def test_unknown_errors_that_stay_are_raised_in_time(code: int, *, whole: bool) -> None:
    """The other partitions go on meanwhile; that is no progress of this one."""
    with World() as world:
        fill(world, "t", partitions=2, batches=200)
        world.on("Fetch", refusing(world, code, whole=whole))
        read = Scanning(world, ["t"], default_api_timeout_ms=10_000, fetch_max_bytes=100)
        began = world.engine.now_ms()
        text = rf"t-0 could not be read further than offset 0 for 10 s: .*\({code}\)"
        with pytest.raises(KafkaTimeoutError, match=text):
            read.all()
        assert 10_000 < world.engine.now_ms() - began < 12_000
        assert len(read.rows["t", 1]) == (0 if whole else 600)


def test_a_partition_that_moved_is_read_from_its_new_leader() -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=6, batches=8)
        read = Scanning(world, ["t"], fetch_max_bytes=200)

        def move(call: Call) -> None:
            if len(world.made("Fetch")) == 4:
                for partition in range(6):
                    world.move_leader("t", partition, call.node % 3 + 1)

        world.on("Fetch", move)
        assert read.all() == rows


def test_a_connection_that_breaks_is_opened_again() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=4, batches=8)
        read = Scanning(world, ["t"], fetch_max_bytes=200)
        world.on("Fetch", lambda _: HANGUP if len(world.made("Fetch")) in (2, 3, 7) else None)
        assert read.all() == rows


def test_a_broker_that_restarts_does_not_end_the_read() -> None:
    async def restart(read: Scanning) -> None:
        read.fetcher.start()
        await asyncio.sleep(0.004)
        read.world.kill(1)
        await asyncio.sleep(20)
        read.world.nodes[1].down = False
        await read.until_stopped()

    with World() as world:
        rows = fill(world, "t", batches=50)
        read = Scanning(world, ["t"], fetch_max_bytes=200)
        world.run(restart(read))
        while read.take():
            pass
        assert read.rows == rows


def test_a_broker_that_responds_to_no_fetch_is_given_up_in_time() -> None:
    with World() as world:
        fill(world, "t")
        world.on("Fetch", lambda _: NEVER)
        read = Scanning(world, ["t"], request_timeout_ms=1_000, default_api_timeout_ms=10_000)
        with pytest.raises(
            KafkaTimeoutError, match="t-0 could not be read further than offset 0 for 10 s: no response"
        ):
            read.all()
        assert world.engine.now_ms() < 1_000_000 + 15_000


def test_a_cluster_that_is_gone_is_given_up_in_time() -> None:
    with World() as world:
        fill(world, "t")
        read = Scanning(world, ["t"], default_api_timeout_ms=10_000)
        world.kill(1)
        with pytest.raises((KafkaTimeoutError, KafkaConnectionError)):
            read.all()
        assert world.engine.now_ms() < 1_000_000 + 25_000


def test_looking_for_leaders_waits_longer_each_time() -> None:
    with World() as world:
        fill(world, "t")
        read = Scanning(world, ["t"], retry_backoff_ms=100, retry_backoff_max_ms=800, default_api_timeout_ms=6_000)
        world.topics["t"].partitions[0].error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(KafkaTimeoutError, match="NOT_LEADER"):
            read.all()
        times = [call.at_ms for call in world.made("Metadata")]
        assert len(times) > 5
        for (early, late), nominal in zip(itertools.pairwise(times), [100, 200, 400, 800, 800], strict=False):
            assert 0.8 * nominal <= late - early <= 1.2 * nominal + 20
        assert len(world.made("Fetch")) <= len(times), "each is asked after one look"


def test_an_old_failure_does_not_count_once_a_response_was_good() -> None:
    """Two short failures with minutes between, of a partition that is never served as another one always has data."""

    def slow(call: Call) -> Any:
        log = world.topics["t"].partitions[0]
        log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER if len(world.made("Fetch")) in (1, 40) else 0
        response = world.fetch_now(call)
        response.throttle_time_ms = 1_000
        return response

    with World() as world:
        rows = fill(world, "t", partitions=2, batches=50)
        world.log("t").batches = []
        rows["t", 0] = []
        world.on("Fetch", slow)
        assert Scanning(world, ["t"], fetch_max_bytes=1, default_api_timeout_ms=5_000).all() == rows


def test_a_throttled_broker_fetcher_sends_nothing_until_it_may() -> None:
    def throttle(call: Call) -> Any:
        response = world.fetch_now(call)
        response.throttle_time_ms = 3_000
        return response

    with World() as world:
        rows = fill(world, "t")
        world.on("Fetch", throttle)
        assert Scanning(world, ["t"], fetch_max_bytes=100).all() == rows
        times = [call.at_ms for call in world.made("Fetch")]
        assert len(times) == 4
        assert all(late - early >= 3_000 for early, late in itertools.pairwise(times))


def test_a_response_emptied_by_a_quota_ends_nothing() -> None:
    """A broker that throttles may respond without any partition: no partition's end was passed."""
    with World() as world:
        rows = fill(world, "t")
        emptied = protocol.FetchResponse(throttle_time_ms=100)
        world.on("Fetch", lambda _: emptied if len(world.made("Fetch")) < 4 else None)
        assert Scanning(world, ["t"]).all() == rows


def test_stopping_drops_responses_that_are_still_to_come() -> None:
    async def stop_soon(read: Scanning) -> None:
        read.fetcher.start()
        await asyncio.sleep(0.0035)
        assert read.fetcher.budget.reserved, "a request must be on its way"
        queued = read.queue.queued_bytes()
        read.fetcher.stop()
        await asyncio.sleep(5)
        assert read.queue.queued_bytes() == queued

    with World() as world:
        fill(world, "t", batches=50)
        read = Scanning(world, ["t"], fetch_max_bytes=100)
        world.run(stop_soon(read))
        assert len(world.made("Fetch")) <= 2


# ---- the budget


@seeds.several(20)
def test_requests_stay_within_the_budget_whatever_responses_and_reader_do(seed: int) -> None:
    chance = random.Random(seed)
    with World(brokers=chance.randint(1, 4), seed=seed) as world:
        rows = fill(
            world,
            "t",
            partitions=chance.randint(1, 9),
            batches=chance.randint(1, 12),
            records=chance.randint(1, 4),
            size=chance.randint(1, 60),
        )
        limit = chance.choice([900, 1200, 2000])  # room for any batch, and for the fields around it in a response
        memory = chance.choice([limit, 2 * limit - 1, 3 * limit, 5 * limit])
        read = Scanning(world, ["t"], fetch_max_bytes=limit, fetch_memory=memory)

        def check(_: Call) -> None:
            assert read.queue.queued_bytes() + read.fetcher.budget.reserved <= memory

        def random_limit(call: Call) -> Any:
            call.message.max_bytes = chance.randint(1, call.message.max_bytes - 500)
            return world.serve(call)

        world.on("Fetch", random_limit)
        world.on("Fetch", check)
        world.run(read.beside(chance.choice([0.0001, 0.001, 0.05])))
        assert not read.take()
        assert read.rows == rows
        assert read.fetcher.budget.reserved == 0


def test_one_batch_larger_than_the_budget_is_read_all_the_same() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3, size=5_000)
        read = Scanning(world, ["t"], fetch_max_bytes=100, fetch_memory=50)
        world.run(read.beside(0.01))
        assert not read.take()
        assert read.rows == rows


def test_a_broker_fetcher_that_waits_for_room_wakes_after_a_response_that_used_none() -> None:
    """Only one request fits; the first broker fetcher's response is empty, so no reader will ever give bytes back for
    it."""
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2, batches=1)
        world.log("t").batches = []
        rows["t", 0] = []
        assert Scanning(world, ["t"], fetch_max_bytes=1_000, fetch_memory=1_000).all() == rows


def test_a_broker_fetcher_that_waits_for_room_wakes_after_a_lost_request() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=2)
        world.on("Fetch", lambda call: HANGUP if call.node == 1 else None)
        read = Scanning(world, ["t"], fetch_max_bytes=1_000, fetch_memory=1_000, default_api_timeout_ms=5_000)
        with pytest.raises(KafkaError, match="t-0 could not be read"):
            world.run(read.beside(0.001))
            read.take()
        assert [value for _, value in read.rows["t", 1]], "partition 1 must not wait for partition 0"


def test_room_for_one_request_is_shared_by_all_brokers_in_turn() -> None:
    with World(brokers=3) as world:
        fill(world, "t", partitions=3, batches=12)
        read = Scanning(world, ["t"], fetch_max_bytes=150, fetch_memory=150)
        world.run(read.beside(0.001))
        nodes = [call.node for call in world.made("Fetch")]
        assert len(nodes) >= 36
        for first in range(0, 30, 3):
            assert set(nodes[first : first + 3]) == {1, 2, 3}, nodes


@seeds.several(15)
def test_no_partition_with_data_waits_for_more_responses_than_there_are_partitions(seed: int) -> None:
    """Over two topics, with invisible tails that never leave the front of the request."""
    chance = random.Random(seed)
    with World(seed=seed) as world:
        for topic in "ab":
            fill(world, topic, partitions=chance.randint(1, 5), batches=chance.randint(3, 9))
        for topic in "ab":
            for log in world.topics[topic].partitions:
                if chance.random() < 0.3:
                    log.batches = log.batches[: chance.randint(0, 2)]
        read = Scanning(world, ["a", "b"], fetch_max_bytes=chance.choice([1, 200, 400]))
        waiting: dict[int, int] = {}
        positions: dict[int, int] = {}

        def watch(_: Call) -> None:
            for cursor in read.cursors:
                log = read.world.topics[cursor.topic].partitions[cursor.partition]
                has_data = any(stored.next > cursor.position for stored in log.batches)
                last = positions.get(cursor.number)
                positions[cursor.number] = cursor.position
                waits = has_data and last == cursor.position
                waiting[cursor.number] = waiting.get(cursor.number, 0) + 1 if waits else 0
            assert max(waiting.values()) < len(read.cursors), waiting

        world.on("Fetch", watch)
        read.all()


def test_a_broker_fetcher_whose_broker_moved_hands_its_cursors_over() -> None:
    """Broker 1 comes back under another address while its broker fetcher waits for room, and gets one more
    partition."""

    async def scenario(read: Scanning) -> None:
        world = read.world
        read.fetcher.start()
        await asyncio.sleep(1)
        assert read.queue.queued_bytes(), "the budget must be used up"
        assert not read.fetcher.budget.reserved
        world.nodes[1].port = 9999
        await read.cluster.refresh()
        world.move_leader("t", 1, 1)
        async with asyncio.timeout(200):
            while not read.fetcher.stopped:
                if read.queue.queued_bytes():
                    read.take()
                await asyncio.sleep(1)

    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=4, batches=6)
        read = Scanning(world, ["t"], fetch_max_bytes=150, fetch_memory=150)
        world.run(scenario(read))
        while read.take():
            pass
        assert read.rows == rows


def test_an_empty_response_from_a_leader_that_lags_does_not_end_the_read() -> None:
    """Its high watermark lies below the end that another leader returned."""

    async def scenario(read: Scanning) -> None:
        log = read.world.topics["t"].partitions[0]
        batches, end = log.batches, log.end
        log.batches, log.log.end_offset = batches[:2], 6
        read.fetcher.start()
        await asyncio.sleep(10)
        assert not read.fetcher.stopped
        log.batches, log.log.end_offset = batches, end
        await read.until_stopped()

    with World() as world:
        rows = fill(world, "t")
        read = Scanning(world, ["t"])
        world.run(scenario(read))
        while read.take():
            pass
        assert read.rows == rows


@seeds.several(20)
def test_every_record_is_read_once_and_in_order_whatever_happens(seed: int) -> None:
    """Connections that break, brokers that hang, leaders that move and lag, throttling and holes, in a tight budget."""
    chance = random.Random(seed)

    def trouble(call: Call) -> Any:
        event = chance.random() if world.engine.now_ms() < 1_000_000 + 60_000 else 1.0
        if event < 0.10:
            return HANGUP
        if event < 0.12:
            return NEVER
        if event < 0.20:
            partition, leader = chance.randrange(len(world.topics["t"].partitions)), chance.randint(1, 3)
            if chance.random() < 0.5:
                world.move_leader("t", partition, leader)
            else:
                end = world.topics["t"].partitions[partition].end
                world.fail_over("t", partition, leader, stable=chance.randint(0, end), for_s=3 * chance.random())
            return HANGUP if chance.random() < 0.3 else None
        if event < 0.25:
            response = world.fetch_now(call)
            response.throttle_time_ms = chance.choice([10, 500])
            return response
        if event < 0.28:
            return protocol.FetchResponse(throttle_time_ms=100)
        return None

    with World(brokers=3, seed=seed) as world:
        rows: Rows = {}
        for number, log in enumerate(world.create_topic("t", partitions=chance.randint(1, 8)).partitions):
            expected = rows["t", number] = []
            for _ in range(chance.randint(0, 12)):
                values = [chance.randbytes(chance.randint(0, 40)) for _ in range(chance.randint(1, 4))]
                expected += zip(range(log.end, log.end + len(values)), values, strict=True)
                hole = chance.choice([0, 0, 0, 7])
                log.append(encode_batch(values), next_offset=log.end + len(values) + hole)
        limit = chance.choice([1, 150, 400])
        memory = limit * chance.choice([1, 2, 8])
        level = chance.choice(["read_committed", "read_uncommitted"])
        options: dict[str, Any] = {"fetch_max_bytes": limit, "fetch_memory": memory, "isolation_level": level}
        read = Scanning(world, ["t"], request_timeout_ms=2_000, **options)
        world.on("Fetch", trouble)
        world.run(read.beside(chance.choice([0.0001, 0.003, 0.05])))
        assert not read.take()
        assert read.rows == rows
        read.close()
        world.pass_time(1)  # a broker that hangs may owe a response for records that another broker gave
        assert read.fetcher.budget.reserved == 0
