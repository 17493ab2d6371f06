"""Decision records: encoded ones decode to themselves, in parts below the size limit of a record."""

from __future__ import annotations

import pytest

from kafwire.errors import ConfigError, KafkaError
from kafwire.spark.exactly_once.decisions import (
    PART_BYTES,
    Decision,
    Prepared,
    check_sink_name,
    coordinator_id,
    decode,
    encode,
    encode_done,
    prefix_of,
    removal,
    task_id,
)
from kafwire.types import TransactionHandle


def prepared(number: int, **partitions: tuple[int, ...]) -> Prepared:
    name = task_id("flights", "run-7", number, 0, number % 3, 12)
    return Prepared(TransactionHandle(name, 4000 + number, number % 5), 10 * number, partitions)


DECISION = Decision("q", 12, (prepared(1, t=(0, 1, 2, 7)), prepared(2), prepared(3, t=(5,), other=(0, 2, 4))))


def test_a_decision_comes_back() -> None:
    assert decode("flights", encode("flights", DECISION)) == {"q": DECISION}


def test_a_large_decision_has_several_records_each_below_the_limit() -> None:
    many = Decision("q", 3, tuple(prepared(number, topic=(number, number + 1)) for number in range(20_000)))
    records = encode("flights", many)
    assert len(records) > 1
    assert all(len(key) + len(value or b"") < PART_BYTES for key, value in records)
    assert decode("flights", records) == {"q": many}


def test_a_done_decision_replaces_all_parts() -> None:
    small = encode("flights", DECISION, part_bytes=10)
    assert len(small) == 3
    log = encode("flights", DECISION) + encode_done("flights", DECISION)
    assert decode("flights", log) == {"q": Decision("q", 12, is_done=True)}
    assert decode("flights", log + removal("flights", "q")) == {}


def test_parts_of_an_earlier_batch_do_not_count() -> None:
    earlier = encode("flights", Decision("q", 11, DECISION.prepared), part_bytes=10)
    assert decode("flights", earlier + encode("flights", DECISION)) == {"q": DECISION}
    with pytest.raises(KafkaError, match="lacks part 1 of batch 12 of query q"):
        decode("flights", earlier + encode("flights", DECISION, part_bytes=10)[:1])


def test_other_sinks_and_records_are_left_alone() -> None:
    other = [(b"flights-2/q/0", b"\x01"), (b"else", b"x")]
    assert decode("flights", other + encode("flights", DECISION)) == {"q": DECISION}


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"", "version none"), (b"\x02abc", "version 02"), (b"\x01abc", "cannot be read")],
)
def test_unreadable_records_are_an_error(value: bytes, said: str) -> None:
    with pytest.raises(KafkaError, match=said):
        decode("flights", [(b"flights/q/0", value)])


def test_no_prefix_of_a_sink_starts_the_ids_of_another() -> None:
    assert not coordinator_id("flights-2").startswith(prefix_of("flights"))
    assert (
        task_id("flights", "r", 1, 0, 0, 4)
        == task_id("flights", "r", 1, 0, 0, 6)
        != task_id("flights", "r", 1, 0, 0, 5)
    )


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a/b", "x" * 121])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="option sink="):
        check_sink_name(name)
