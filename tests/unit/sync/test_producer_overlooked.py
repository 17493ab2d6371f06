"""Records that failed, and whose deliveries the program did not look at: the log has them, and no others."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import ErrorCode
from tests.support.simulated.flavours import Flavour
from tests.support.simulated.producer import errors

REFUSED = errors(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.fixture
def flavour(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> Flavour:
    caplog.set_level("WARNING", "kafwire")
    flavour.world.create_topic("t", partitions=1)
    flavour.world.on("Produce", REFUSED)
    return flavour


def overlooked(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [message for message in caplog.messages if "did not look at their deliveries" in message]


def sent(flavour: Flavour, producer: Any, count: int = 1) -> list[Any]:
    """Handles of records that the broker has refused."""
    found = [flavour.get(producer.send("t", b"v")) for _ in range(count)]
    flavour.get(producer.flush())
    return found


def test_a_dropped_handle_of_a_failed_record_is_logged(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    producer = flavour.producer()
    handles = sent(flavour, producer, 3)
    assert overlooked(caplog) == []
    del handles
    (line,) = overlooked(caplog)
    assert line.startswith("kafwire: 3 record(s) were not delivered")
    assert "the last one to t-0: TOPIC_AUTHORIZATION_FAILED" in line
    assert line.endswith("Call result(), exception() or add_done_callback()")


@pytest.mark.parametrize("look", ["result", "exception", "callback", "one of them"])
def test_an_outcome_that_the_program_has_is_not_logged(
    flavour: Flavour, look: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = flavour.producer()
    first, second = sent(flavour, producer, 2)
    if look == "result":
        for handle in (first, second):
            with pytest.raises(kafwire.AuthorizationError):
                flavour.outcome(handle)
    elif look == "exception":
        assert [type(handle.exception()) for handle in (first, second)] == [kafwire.AuthorizationError] * 2
    elif look == "callback":
        found: list[Any] = []

        async def add(handle: Any) -> None:
            handle.add_done_callback(lambda each: found.append(each.exception()))

        flavour.world.run(add(first))
        flavour.world.pass_time(1)
        assert [type(error) for error in found] == [kafwire.AuthorizationError]
        found.clear()
    else:
        assert second.exception() is not None  # records of a batch have one outcome
    del first, second
    assert overlooked(caplog) == []


def test_rows_that_failed_are_logged(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    producer = flavour.producer()
    flavour.get(producer.send_batch("t", pa.table({"value": [b"a", b"b"]})))
    flavour.get(producer.flush())
    (line,) = overlooked(caplog)
    assert line.startswith("kafwire: 2 record(s) were not delivered")
    handle = flavour.get(producer.send_batch("t", pa.table({"value": [b"a", b"b"]})))
    flavour.get(producer.flush())
    flavour.world.pass_time(60)
    assert handle.exception() is not None
    del handle
    assert len(overlooked(caplog)) == 1


def test_a_line_each_ten_seconds_counts_all_of_them(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    producer = flavour.producer()
    for _ in range(5):
        sent(flavour, producer)
    assert len(overlooked(caplog)) == 1
    flavour.world.pass_time(20)
    sent(flavour, producer)
    assert [line.split()[1] for line in overlooked(caplog)] == ["1", "5"]


def test_close_reports_the_rest(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    producer = flavour.producer()
    for _ in range(5):
        sent(flavour, producer)
    assert [line.split()[1] for line in overlooked(caplog)] == ["1"]
    flavour.get(producer.close())
    assert [line.split()[1] for line in overlooked(caplog)] == ["1", "4"]


def test_delivered_purged_and_given_up_records_are_not_logged(
    flavour: Flavour, caplog: pytest.LogCaptureFixture
) -> None:
    producer = flavour.producer(linger_ms=50_000)
    flavour.get(producer.send("t", b"v"))
    assert flavour.get(producer.purge()) == 1
    flavour.world.off("Produce")
    sent(flavour, producer)
    flavour.world.break_connections(1)
    flavour.get(producer.send("t", b"v"))
    with contextlib.suppress(kafwire.KafkaTimeoutError):  # it names the record
        flavour.get(producer.close(0))
    del producer
    assert overlooked(caplog) == []


def test_a_transaction_raises_the_errors_of_its_records(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    producer = flavour.producer(transactional_id="billing")
    flavour.get(producer.begin_transaction())
    flavour.get(producer.send("t", b"v"))
    with pytest.raises(kafwire.KafkaError):
        flavour.get(producer.commit_transaction())
    flavour.get(producer.abort_transaction())
    assert overlooked(caplog) == []
