"""The judge of readers of the simulated world, and its readers, which do what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.cluster.group_offsets import GroupOffsets, OffsetToCommit
from kafwire.records import encode_batch
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.testing.simulation.roaming import WEIGHTS, Roamer
from kafwire.testing.simulation.run import run
from kafwire.testing.simulation.schedule import Event, Load, Schedule
from kafwire.testing.simulation.traces import Trace, content_of
from kafwire.types import TopicPartition

OPTIONS = {"compression_type": "none", "fetch_strategy": "hybrid"}
VALUES = [b"%d" % number for number in range(10)]
CONTENT = list(range(10)), VALUES


class Given(list[SimpleNamespace]):
    """A batch as a reader gets it."""

    next_offset = 0


def batch_of(offset: int, *values: bytes) -> Given:
    batch = Given(SimpleNamespace(offset=each, value=value) for each, value in enumerate(values, offset))
    batch.next_offset = offset + len(values)
    return batch


def trace(*, is_durable: bool = True, start: int | None = 0) -> Trace:
    return Trace("reader", TopicPartition("flights", 0), start, "began", committed_only=False, is_durable=is_durable)


def test_a_reader_of_all_records_is_right() -> None:
    read = trace(start=2)
    assert read.add(batch_of(2, b"2", b"3", b"4")) == ""
    assert read.add(batch_of(5, b"5")) == ""
    assert read.next == 6
    assert read.judge(CONTENT) == ""


def test_records_that_were_passed_over_are_found() -> None:
    read = trace()
    read.add(batch_of(0, b"0"))
    read.add(batch_of(3, b"3"))
    assert "passed over 1 and 1 more up to 2" in read.judge(CONTENT)


def test_records_that_were_passed_over_at_the_end_are_found() -> None:
    read = trace()
    read.add(batch_of(0, b"0"))
    assert read.reach(2) == ""
    assert "passed over 1" in read.judge(CONTENT)


def test_records_that_are_not_there_are_found() -> None:
    read = trace(start=9)
    read.add(batch_of(9, b"9", b"10"))
    assert "got absent records at 10" in read.judge(CONTENT)


def test_other_records_are_found() -> None:
    read = trace()
    read.add(batch_of(0, b"0", b"another"))
    assert "got other records at 1" in read.judge(CONTENT)


def test_a_reader_that_goes_back_where_nothing_is_lost_is_wrong() -> None:
    read = trace()
    read.add(batch_of(0, b"0", b"1", b"2"))
    assert "got offset 1 after 2" in read.add(batch_of(1, b"1"))
    assert "is at 1 after offset 2" in read.reach(1)


def test_a_reader_that_goes_back_to_where_the_log_was_cut_is_right() -> None:
    read = trace(is_durable=False)
    read.add(batch_of(0, b"0", b"1", b"lost", b"lost too"))
    assert "got other records at 2" in read.judge(CONTENT)
    assert read.add(batch_of(2, b"2")) == ""
    assert read.next == 3
    assert read.judge(CONTENT) == ""


def test_after_a_reset_the_first_record_says_where_reading_goes_on() -> None:
    read = trace(start=None)
    assert read.reach(4) == ""
    read.add(batch_of(7, b"7"))
    assert read.start == 7
    assert read.judge(CONTENT) == ""


def test_the_content_of_a_log_has_the_visible_records() -> None:
    with ClusterWorld() as world:
        topic = world.state.topics.create("flights", 1, 1)
        (partition,) = topic.partitions
        for producer_id, commit in ((1, True), (2, False), (3, None)):
            partition.append(
                encode_batch([b"of %d" % producer_id], producer_id=producer_id, producer_epoch=0, transactional=True)
            )
            if commit is not None:
                partition.write_marker(producer_id, 0, 0, commit=commit)
        partition.append_values([b"plain"])
        assert content_of(partition, committed_only=True) == ([0, 5], [b"of 1", b"plain"])
        assert content_of(partition, committed_only=False) == ([0, 2, 4, 5], [b"of 1", b"of 2", b"of 3", b"plain"])


def test_the_roaming_reader_does_all_that_it_can_do() -> None:
    outcome = run(Schedule(3, Load(seconds=150, records_per_s=20, options=OPTIONS), ()))
    assert outcome.violations == []
    assert {kind for kind in WEIGHTS if outcome.counts[f"roamer {kind}"]} == set(WEIGHTS)


def test_a_commit_of_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = GroupOffsets.commit

    async def too_much(its: GroupOffsets, offsets: Mapping[Any, OffsetToCommit], **options: Any) -> None:
        await commit(
            its, {where: given._replace(offset=given.offset + 1) for where, given in offsets.items()}, **options
        )

    monkeypatch.setattr(GroupOffsets, "commit", too_much)
    outcome = run(Schedule(3, Load(seconds=60, records_per_s=20, options=OPTIONS), ()))
    assert any("has committed" in violation for violation in outcome.violations)


def test_a_topic_that_is_recreated_and_cut_is_read_to_its_end() -> None:
    kinds = ("delete_records", "recreate_topic", "add_partitions", "delete_records", "recreate_topic", "add_partitions")
    events = tuple(Event(8.0 + 6 * number, kind, node=1, amount=0.6) for number, kind in enumerate(kinds))
    outcome = run(Schedule(3, Load(seconds=60, records_per_s=20, options=OPTIONS), events))
    assert outcome.violations == []
    assert outcome.counts["side reader error UNKNOWN_TOPIC_ID"] == 2
    assert outcome.counts["side read"] > 40


def test_a_reader_sent_to_the_end_has_nothing_to_read_while_one_transaction_is_open() -> None:
    load = Load(
        seconds=20, records_per_s=20, bursts_per_s=2, partitions=2, transactional=True, is_slow=True, linger_ms=0,
        options={**OPTIONS, "batch_size": 500, "delivery_timeout_ms": 8_000},
    )  # fmt: skip
    outcome = run(Schedule(79, load, ()))
    assert outcome.violations == []


@pytest.mark.parametrize("at", [1, -1])
def test_a_reader_that_misses_stored_records_is_found(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Where it is not known where it is, the log went on after it could have found that out."""
    monkeypatch.setattr(Roamer, "places", lambda _: {("roamer", TopicPartition("main", 0)): at})
    outcome = run(Schedule(3, Load(seconds=60, records_per_s=20, options=OPTIONS), ()))
    assert f"roamer stays at {at} of" in outcome.violations[0]
