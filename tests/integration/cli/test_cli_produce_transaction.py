"""`kafwire produce -X transactional.id=...`: all records in one transaction."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from kafwire.cli import main
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until
from tests.support.ported_programs import COMPACTED

OPTIONS = ["-t", "orders", "-X", "transactional.id=shop"]
ABORTED = "kafwire produce: the transaction is aborted, and its records are not delivered"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders", **COMPACTED)
        yield running


@pytest.fixture
def run(kafka: EmbeddedKafka) -> Callable[[bytes], Result]:
    def produce(data: bytes) -> Result:
        command = ["produce", "-b", kafka.bootstrap, *OPTIONS, "-K", ":"]
        return CliRunner().invoke(main, command, data, prog_name="kafwire")

    return produce


def values(kafka: EmbeddedKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("orders", committed=True)]


def test_records_are_committed_at_the_end(kafka: EmbeddedKafka, run: Callable[[bytes], Result]) -> None:
    for data in (b"7:book\n8:pen\n", b"9:lamp\n"):
        result = run(data)
        assert (result.exit_code, result.output) == (0, "")
    until(lambda: values(kafka) == [b"book", b"pen", b"lamp"])  # readers see the end of a transaction a moment later
    assert len(kafka.requests("EndTxn")) == 2


def test_no_record_is_delivered_where_one_is_refused(kafka: EmbeddedKafka, run: Callable[[bytes], Result]) -> None:
    result = run(b"7:book\nwithout a key\n")
    assert result.exit_code == 1
    assert "INVALID_RECORD" in result.stderr
    assert result.stderr.splitlines()[-2:] == [ABORTED, "kafwire produce: 0 record(s) delivered, 2 not"]
    assert values(kafka) == []


def test_a_commit_that_fails_is_reported(kafka: EmbeddedKafka, run: Callable[[bytes], Result]) -> None:
    kafka.fail_next("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    result = run(b"7:book\n")
    assert result.exit_code == 1
    assert "kafwire produce: committing the transaction failed: " in result.stderr
    assert result.stderr.splitlines()[-1] == "kafwire produce: 0 record(s) delivered, 1 not"
    assert values(kafka) == []


def test_an_abort_that_fails_is_reported(kafka: EmbeddedKafka, run: Callable[[bytes], Result]) -> None:
    kafka.fail_next("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    result = run(b"7:book\nwithout a key\n")
    assert result.exit_code == 1
    assert "kafwire produce: aborting the transaction failed: " in result.stderr
    assert ABORTED not in result.stderr
    assert result.stderr.splitlines()[-1] == "kafwire produce: 0 record(s) delivered, 2 not"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_aborts(kafka: EmbeddedKafka, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "kafwire", "produce", "-b", kafka.bootstrap, *OPTIONS, "-k", "7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("book\n")
        process.stdin.flush()
        until(lambda: len(kafka.records("orders")) == 1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.splitlines()) == (
        code,
        [ABORTED, "kafwire produce: 0 record(s) delivered, 1 not"],
    )
    assert values(kafka) == []


LATE_INTERRUPT = """
from kafwire.cli import main
from kafwire.sync.producer import Producer
commit = Producer.commit_transaction
def interrupted(*arguments):
    Producer.commit_transaction = commit
    commit(*arguments)
    raise KeyboardInterrupt
Producer.commit_transaction = interrupted
main()
"""


def test_an_interrupt_right_after_the_commit_denies_nothing(kafka: EmbeddedKafka) -> None:
    command = [sys.executable, "-c", LATE_INTERRUPT, "produce", "-b", kafka.bootstrap, *OPTIONS, "-k", "7"]
    ran = subprocess.run(command, input="book\n", capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stderr, ran.returncode) == ("kafwire produce: 1 record(s) delivered, 0 not\n", 130)
    assert values(kafka) == [b"book"]


def test_an_interrupted_commit_is_completed(kafka: EmbeddedKafka) -> None:
    command = [sys.executable, "-m", "kafwire", "produce", "-b", kafka.bootstrap, *OPTIONS, "-k", "7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        with kafka.hold("EndTxn") as held:
            process.stdin.write("book\n")
            process.stdin.close()
            kafka.wait_for_fault(held)
            process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read().splitlines() == ["kafwire produce: 1 record(s) delivered, 0 not"]
        assert process.wait(30) == 130
    until(lambda: values(kafka) == [b"book"])
