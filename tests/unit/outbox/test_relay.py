"""The steps of a relay, without brokers: what it does of each row, wherever it dies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import ceil, log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionTimeoutError,
    broker_error,
)
from kafwire.outbox import Step
from kafwire.outbox.progress import Progress
from tests.support.outbox.fakes import LETTERS, STATE, FakeShop, KilledError, Sent

INVALID = broker_error(ErrorCode.INVALID_RECORD, "a key is missing")
OF_LEFTOVERS = [Step.LEFTOVERS_REMOVED, Step.LEFTOVERS_GONE]
GOOD = [("orders", "k", str(number)) for number in range(4)]
BAD = ("orders", "k", "bad")


@pytest.fixture
def shop(tmp_path: Path) -> FakeShop:
    return FakeShop(tmp_path / "shop.db")


def refuses(error: KafkaError, *values: str) -> Callable[[Sent], KafkaError | None]:
    """A broker that refuses records of these values, wherever they are but in the topic of dead letters."""
    bad = {value.encode() for value in values}
    return lambda sent: error if sent.value in bad and sent.topic != LETTERS else None


def takes(error: KafkaError, *topics: str) -> Callable[[Sent], None]:
    """A producer that takes no record for these topics."""

    def take(sent: Sent) -> None:
        if sent.topic in topics:
            raise error

    return take


def letters(shop: FakeShop) -> list[tuple[Any, ...]]:
    return shop.rows(f"SELECT id, topic, aggregate_key, payload, reason FROM {LETTERS} ORDER BY id")


def relay_all(shop: FakeShop, **options: Any) -> None:
    with shop.relay(**options) as relay:
        while relay.relay():
            pass


# --- rows that Kafka takes -------------------------------------------------------------------------------------------


def test_rows_become_records_by_the_steps_in_their_order(shop: FakeShop) -> None:
    steps: list[Step] = []
    shop.write(*GOOD)
    with shop.relay(steps.append) as relay:
        assert (relay.relay(), relay.relay()) == (4, 0)
        assert (relay.rows, relay.transactions, relay.has_more) == (4, 1, False)
    assert steps == [step for step in Step if step not in OF_LEFTOVERS]
    assert shop.kafka.values("orders") == [b"0", b"1", b"2", b"3"]
    assert shop.left() == []


def test_a_full_batch_may_leave_more(shop: FakeShop) -> None:
    shop.write(*GOOD)
    with shop.relay(limit=3) as relay:
        assert [(relay.relay(), relay.has_more) for _ in range(3)] == [(3, True), (1, False), (0, False)]


def test_the_progress_has_the_rows_of_each_transaction(shop: FakeShop) -> None:
    shop.write(*GOOD)
    relay_all(shop, limit=3)
    found = [Progress.decode(value or b"") for value in shop.kafka.values(STATE)]
    assert [(one.number, list(one.rows)) for one in found] == [(1, [1, 2, 3]), (2, [4])]
    shop.write(*GOOD)
    relay_all(shop)
    assert Progress.decode(shop.kafka.values(STATE)[-1] or b"").number == 3, "the next relay counts on"


def test_topics_are_looked_up(shop: FakeShop) -> None:
    shop.write(("order", "k", "a"), ("bill", "k", "b"))
    with shop.relay(topics={"order": "orders"}) as relay:
        assert relay.relay() == 1
        with pytest.raises(ConfigError, match="row 2 of the outbox is for 'bill'"):
            relay.relay()
    assert shop.kafka.values("orders") == [b"a"]


def test_a_relay_that_was_fenced_sends_and_removes_nothing(shop: FakeShop) -> None:
    shop.write(*GOOD)
    with shop.relay(limit=1) as older, shop.relay(limit=1) as newer:
        assert older.relay() == 1
        assert newer.relay() == 1
        with pytest.raises(ProducerFencedError):
            older.relay()
    assert shop.kafka.values("orders") == [b"0", b"1"]
    assert shop.left() == [3, 4]


@pytest.mark.parametrize("outcome", ["lost", "late"])
def test_a_commit_without_a_response_is_asked_for_again(shop: FakeShop, outcome: str) -> None:
    shop.write(*GOOD)
    shop.kafka.commits = [outcome]
    with shop.relay() as relay:
        with pytest.raises(TransactionTimeoutError):
            relay.relay()
        assert shop.left() == [1, 2, 3, 4]
        assert relay.relay() == 0
        assert (relay.rows, relay.leftovers, relay.transactions) == (4, 4, 1)
    assert shop.kafka.values("orders") == [b"0", b"1", b"2", b"3"]
    assert shop.left() == []


def test_a_transaction_that_passes_next_time_is_made_smaller(shop: FakeShop) -> None:
    passing = broker_error(ErrorCode.TRANSACTION_ABORTABLE, "")
    shop.write(*GOOD)
    shop.kafka.refuses = refuses(passing, "0")
    with shop.relay(limit=4) as relay:
        for size in (2, 1, 1):
            with pytest.raises(TransactionAbortableError):
                relay.relay()
            assert relay.batch_rows == size
        shop.kafka.refuses = lambda _: None
        assert [relay.relay() for _ in range(3)] == [1, 2, 1]
        assert relay.aborted == 3


def test_progress_is_read_again_after_the_coordinator_gave_the_relay_up(shop: FakeShop) -> None:
    """Other relays may have come and gone since."""
    steps: list[Step] = []
    shop.write(*GOOD)
    with shop.relay(steps.append) as relay:
        shop.kafka.refuses = refuses(broker_error(ErrorCode.INVALID_PRODUCER_ID_MAPPING, ""), "0")
        with pytest.raises(TransactionAbortableError):
            relay.relay()
        shop.kafka.refuses = lambda _: None
        relay.relay()
    assert [steps.count(step) for step in (Step.TAKEN_OVER, Step.PROGRESS_READ)] == [2, 2]


def test_rows_with_other_contents_than_those_that_were_relayed(
    shop: FakeShop, caplog: pytest.LogCaptureFixture
) -> None:
    def die(step: Step) -> None:
        if step is Step.COMMITTED:
            raise KilledError

    shop.write(*GOOD[:2])
    with pytest.raises(KilledError), shop.relay(die) as relay:
        relay.relay()
    shop.run("UPDATE outbox SET payload = 'other' WHERE id = 2")
    with caplog.at_level(logging.WARNING, "kafwire"), shop.relay() as relay:
        assert relay.relay() == 1
        assert relay.leftovers == 1
    assert "rows [2] changed since rows" in caplog.text
    assert shop.kafka.values("orders") == [b"0", b"1", b"other"]


# --- rows that Kafka refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 5, 7, 8])
@pytest.mark.parametrize("by", ["broker", "producer", "row"])
def test_rows_before_a_refused_one_are_relayed_and_it_is_named(shop: FakeShop, position: int, by: str) -> None:
    for number in range(9):
        bad = ("bills" if by == "producer" else "orders", "k", f"bad {number}")
        if number != position:
            shop.write(("orders", "k", f"{number}"))
        else:
            shop.write(bad, headers="{broken" if by == "row" else None)
    if by == "broker":
        shop.kafka.refuses = refuses(INVALID, f"bad {position}")
    shop.kafka.takes = takes(broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""), "bills")
    expected = {"broker": TransactionAbortableError, "producer": BrokerError, "row": ConfigError}[by]
    topic = "bills" if by == "producer" else "orders"
    with shop.relay() as relay:
        for _ in range(2):
            with pytest.raises(expected) as caught:
                while relay.relay():
                    pass
            assert caught.value.__notes__ == [f"this was row {position + 1} of the outbox, for topic {topic!r}"]
            assert shop.kafka.values("orders") == [b"%d" % number for number in range(position)]
        assert relay.batch_rows == 500, "a refusal says nothing of time"
        assert relay.rows == position
    assert shop.left() == list(range(position + 1, 10))


def test_one_row_of_500_is_found_by_few_transactions(shop: FakeShop) -> None:
    shop.write(*(("orders", "k", str(number)) for number in range(500)))
    shop.kafka.refuses = refuses(INVALID, "499")
    with shop.relay() as relay, pytest.raises(TransactionAbortableError):
        while relay.relay():
            pass
    assert shop.left() == [500]
    assert shop.kafka.aborts <= ceil(log2(500)) + 1


def test_a_row_that_was_mended_is_relayed(shop: FakeShop) -> None:
    shop.write(*GOOD[:1], BAD, *GOOD[1:])
    shop.kafka.refuses = refuses(INVALID, "bad")
    with shop.relay() as relay:
        with pytest.raises(TransactionAbortableError):
            while relay.relay():
                pass
        shop.run("UPDATE outbox SET payload = 'mended' WHERE id = 2")
        assert relay.relay() == 4
    assert shop.kafka.values("orders") == [b"0", b"mended", b"1", b"2", b"3"]


def test_a_row_whose_topic_was_mended_is_relayed(shop: FakeShop) -> None:
    shop.write(*GOOD)
    shop.kafka.takes = takes(broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""), "orders")
    with shop.relay() as relay:
        with pytest.raises(BrokerError):
            relay.relay()
        shop.kafka.takes = lambda _: None
        assert relay.relay() == 4


def test_a_part_of_a_batch_leaves_more(shop: FakeShop) -> None:
    shop.write(*GOOD, BAD)
    shop.kafka.refuses = refuses(INVALID, "bad")
    with shop.relay(table=LETTERS) as relay:
        found = [(relay.relay(), relay.has_more) for _ in range(5)]
    assert found == [(2, True), (1, True), (1, True), (1, False), (0, False)]


def test_a_refused_row_goes_to_a_table(shop: FakeShop, caplog: pytest.LogCaptureFixture) -> None:
    shop.write(*GOOD[:1], BAD, *GOOD[1:])
    shop.kafka.refuses = refuses(INVALID, "bad")
    with caplog.at_level(logging.WARNING, "kafwire"), shop.relay(table=LETTERS) as relay:
        while relay.relay():
            pass
        assert (relay.rows, relay.dead_letters) == (4, 1)
    assert letters(shop) == [(2, "orders", "k", "bad", f"{INVALID}")]
    assert f"row 2, for topic 'orders', goes to table {LETTERS}: {INVALID}" in caplog.text
    assert shop.kafka.values("orders") == [b"0", b"1", b"2", b"3"]
    assert shop.left() == []


def test_a_refused_row_goes_to_a_topic(shop: FakeShop) -> None:
    shop.write(*GOOD[:1], BAD, *GOOD[1:])
    shop.kafka.refuses = refuses(INVALID, "bad")
    relay_all(shop, topic=LETTERS)
    (letter,) = [sent for sent in shop.kafka.log if sent.topic == LETTERS]
    assert (letter.key, letter.value) == (b"k", b"bad")
    assert dict(letter.headers)["kafwire.outbox.id"] == b"2"
    assert shop.kafka.values("orders") == [b"0", b"1", b"2", b"3"]
    assert shop.left() == []


def test_a_letter_goes_to_its_topic_whatever_topics_are_looked_up(shop: FakeShop) -> None:
    shop.write(("order", "k", "bad"), ("bill", "k", "b"))
    shop.kafka.refuses = refuses(INVALID, "bad")
    relay_all(shop, topic=LETTERS, topics={"order": "orders"})
    found = [dict(sent.headers)["kafwire.origin.topic"] for sent in shop.kafka.log if sent.topic == LETTERS]
    assert found == [b"orders", b"bill"]


@pytest.mark.parametrize("options", [{"table": LETTERS}, {"topic": LETTERS}])
def test_a_missing_acl_stops_the_relay_whatever_it_does_with_refused_rows(shop: FakeShop, options: Any) -> None:
    """The broker would refuse all rows of the topic."""
    shop.write(*GOOD)
    shop.kafka.takes = takes(broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "", topic="orders"), "orders")
    with shop.relay(**options) as relay, pytest.raises(BrokerError) as caught:
        relay.relay()
    assert "row 1" in caught.value.__notes__[0]
    assert letters(shop) == shop.kafka.log == []
    assert shop.left() == [1, 2, 3, 4]


@pytest.mark.parametrize("by", ["broker", "producer"])
def test_a_progress_that_is_refused_blames_no_row(shop: FakeShop, by: str) -> None:
    large = RecordTooLargeError("the progress")
    shop.write(*GOOD)
    if by == "broker":
        shop.kafka.refuses = lambda sent: large if sent.topic == STATE else None
    else:
        shop.kafka.takes = takes(large, STATE)
    with shop.relay(table=LETTERS) as relay, pytest.raises(KafkaError) as caught:
        relay.relay()
    assert not hasattr(caught.value, "__notes__")
    assert letters(shop) == []
    assert shop.left() == [1, 2, 3, 4]


@pytest.mark.parametrize("by", ["broker", "producer"])
def test_a_dead_letter_that_is_refused_stops_the_relay_and_loses_nothing(shop: FakeShop, by: str) -> None:
    shop.write(*GOOD[:1], BAD)
    large = RecordTooLargeError("the value")
    if by == "broker":
        shop.kafka.refuses = lambda sent: large if sent.value == b"bad" else None
    else:
        shop.kafka.refuses = refuses(INVALID, "bad")
        shop.kafka.takes = takes(large, LETTERS)
    with shop.relay(topic=LETTERS) as relay, pytest.raises(KafkaError) as caught:
        while relay.relay():
            pass
    (note,) = [note for note in caught.value.__notes__ if "was refused, and is meant" in note]
    assert note.startswith("row 2 of the outbox was refused, and is meant for topic 'letters': ")
    assert shop.left() == [2]
    assert shop.kafka.values(LETTERS) == []


def test_a_letter_without_a_response_to_its_commit_goes_to_the_table_once(shop: FakeShop) -> None:
    shop.write(BAD)
    shop.kafka.refuses = refuses(INVALID, "bad")
    shop.kafka.commits = ["lost"]
    with shop.relay(table=LETTERS) as relay:
        with pytest.raises(TransactionTimeoutError):
            relay.relay()
        assert (relay.relay(), relay.dead_letters, relay.leftovers) == (0, 1, 1)
    assert [row[0] for row in letters(shop)] == [1]
    assert shop.left() == []


# --- wherever it dies ------------------------------------------------------------------------------------------------


def judged(shop: FakeShop, good: list[str], bad: set[str], options: dict[str, Any]) -> None:
    """Each good row is in the topic once, in order, and each bad one where the options say."""
    assert [(value or b"").decode() for value in shop.kafka.values("orders")] == good
    in_table = [row[3] for row in letters(shop)]
    in_topic = [(value or b"").decode() for value in shop.kafka.values(LETTERS)]
    assert (in_table if "table" in options else in_topic) == sorted(bad, key=int)
    assert (in_topic if "table" in options else in_table) == []
    assert shop.left() == []


@pytest.mark.parametrize("keep_s", [None, 3600])
@pytest.mark.parametrize("where", ["table", "topic"])
@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("bad", [None, "0", "2", "3"])
def test_a_relay_dies_at_a_step_and_the_next_one_goes_on(
    shop: FakeShop, step: Step, bad: str | None, where: str, keep_s: int | None
) -> None:
    """The relay is killed when it first comes to the step, then at the second time, and so on."""
    options = {where: LETTERS, "keep_s": keep_s, "limit": 3}
    if bad is not None:
        shop.kafka.refuses = refuses(INVALID, bad)
    shop.write(*GOOD)
    died = 0
    for left in range(1, 20):
        seen = 0

        def die(taken: Step) -> None:
            nonlocal seen
            seen += taken is step
            if taken is step and seen == left:  # noqa: B023 - called before the next one
                raise KilledError
            if step in OF_LEFTOVERS and taken is Step.COMMITTED:
                raise KilledError

        try:
            with shop.relay(die, **options) as relay:
                while relay.relay():
                    pass
        except KilledError:
            died += 1
        else:
            break
    relay_all(shop, **options)
    assert died
    judged(shop, [row[2] for row in GOOD if row[2] != bad], {bad} if bad else set(), options)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_relays_die_anywhere_among_several_refused_rows(tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    shop = FakeShop(folder / "shop.db")
    count = data.draw(st.integers(1, 12))
    bad = {str(number) for number in data.draw(st.sets(st.integers(0, count - 1), max_size=4))}
    shop.write(*(("orders", str(number % 2), str(number)) for number in range(count)))
    shop.kafka.refuses = refuses(INVALID, *bad)
    where = data.draw(st.sampled_from(["table", "topic"]))
    options = {where: LETTERS, "limit": data.draw(st.integers(1, 8))}
    for _ in range(data.draw(st.integers(0, 5))):
        due = data.draw(st.integers(1, 30))
        taken = 0

        def die(_: Step) -> None:
            nonlocal taken
            taken += 1
            if taken == due:  # noqa: B023 - called before the next one
                raise KilledError

        try:
            relay_all(shop, on_step=die, **options)
        except KilledError:
            continue
    relay_all(shop, **options)
    judged(shop, [str(number) for number in range(count) if str(number) not in bad], bad, options)


def test_a_relay_without_the_table_moves_the_rows_of_another_one(shop: FakeShop) -> None:
    """The progress names the table."""

    def die(step: Step) -> None:
        if step is Step.COMMITTED:
            raise KilledError

    shop.write(BAD)
    shop.kafka.refuses = refuses(INVALID, "bad")
    with pytest.raises(KilledError), shop.relay(die, table=LETTERS) as relay:
        relay.relay()
    assert letters(shop) == []
    with shop.relay() as relay:
        assert relay.relay() == 0
    assert [row[3] for row in letters(shop)] == ["bad"]
    assert shop.left() == []


def test_a_zombie_does_not_move_a_row_that_was_relayed_meanwhile(shop: FakeShop) -> None:
    """The zombie's row was refused, and the next relay's was not."""
    shop.write(BAD)
    shop.kafka.refuses = refuses(INVALID, "bad")

    def on_step(step: Step) -> None:
        if step is Step.RECORDED and shop.kafka.aborts == 1 and newer.rows == 0:
            shop.kafka.refuses = lambda _: None
            newer.relay()

    with shop.relay() as newer, shop.relay(on_step, table=LETTERS) as zombie, pytest.raises(ProducerFencedError):
        zombie.relay()
    assert shop.kafka.values("orders") == [b"bad"]
    assert letters(shop) == []
    assert shop.left() == []
