"""`kafwire consume --group` as processes on the embedded broker: members that come and go, slow and broken readers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from kafwire.testing import EmbeddedKafka
from tests.support.complaints import complaints
from tests.support.deadlines import ended, until

# Commits happen when partitions go, or at the end, however slow the machine is.
RARELY = ["-X", "auto.commit.interval.ms=600000"]
COMMAND = [sys.executable, "-m", "kafwire", "consume", "-G", "g", "-f", r"%p:%o\n", *RARELY]
CONFIGS = {
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}
PARTITIONS = 4
PROTOCOLS = [["-X", "group.protocol=consumer"], ["-X", "group.protocol=classic", "-X", "heartbeat.interval.ms=100"]]


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    """A broker with a topic `t`."""
    with EmbeddedKafka(configs=CONFIGS) as running:
        running.create_topic("t", PARTITIONS)
        yield running


def fill(kafka: EmbeddedKafka, count: int) -> Counter[bytes]:
    """Append `count` records to each partition; return the lines of all records of the topic."""
    for partition in range(PARTITIONS):
        kafka.append("t", [b"x"] * count, partition=partition)
    return Counter(f"{record.partition}:{record.offset}".encode() for record in kafka.records("t"))


def start(kafka: EmbeddedKafka, *arguments: str) -> subprocess.Popen[bytes]:
    """A member."""
    command = [*COMMAND, "-b", kafka.bootstrap, *(arguments or ["t"])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def take(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    """The next lines that it writes."""
    found: list[bytes] = []

    def read() -> None:
        assert process.stdout is not None
        found.extend(process.stdout.readline().strip() for _ in range(count))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    ended(thread)
    return found


def end(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> list[bytes]:
    """Send it the signal; returns the lines that it had written and no reader had read."""
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, complaints(errors)) == (128 + number, b"")
    return out.splitlines()


def committed(kafka: EmbeddedKafka) -> dict[int, int]:
    return {partition: offset for (_, partition), offset in kafka.committed("g").items()}


@pytest.mark.parametrize("options", PROTOCOLS, ids=["consumer", "classic"])
def test_members_share_a_topic_and_commit_printed_records(kafka: EmbeddedKafka, options: list[str]) -> None:
    lines = fill(kafka, 20)
    first = start(kafka, "t", *options)
    try:
        seen = take(first, PARTITIONS * 20)
        second = start(kafka, "t", *options)
        try:
            # Half of the partitions are given up, and what was printed of them is committed before.
            until(lambda: len(committed(kafka)) >= PARTITIONS // 2, "partitions are committed")
            lines = fill(kafka, 5)
            seen += take(second, 1)
            seen += end(first, signal.SIGTERM)
            lines = fill(kafka, 1)
            seen += take(second, lines.total() - len(seen))
            seen += end(second)
        finally:
            second.kill()
    finally:
        first.kill()
    assert Counter(seen) == lines
    assert committed(kafka) == dict.fromkeys(range(PARTITIONS), 26)


def test_records_that_a_slow_reader_did_not_take_are_not_committed(kafka: EmbeddedKafka) -> None:
    """The pipe is full in the middle of a batch, which is in hand; the rest of the group's work goes elsewhere."""
    lines = fill(kafka, 20_000)
    slow = start(kafka, "t", "-X", "group.protocol=consumer")
    try:
        taken = take(slow, 1)
        assert committed(kafka) == {}
        out = subprocess.run(
            [*COMMAND, "-b", kafka.bootstrap, "t", "-c", "20000", "-X", "group.protocol=consumer"],
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        ).stdout
        rest = taken + take(slow, 3 * 20_000 - 1)
        assert Counter(out.splitlines()) + Counter(rest) == lines
        assert end(slow) == []
    finally:
        slow.kill()
    assert committed(kafka) == dict.fromkeys(range(PARTITIONS), 20_000)


def test_a_reader_that_goes_away_leaves_the_rest_to_the_next(kafka: EmbeddedKafka) -> None:
    lines = fill(kafka, 20_000)
    first = start(kafka)
    try:
        assert first.stdout is not None
        assert first.stderr is not None
        take(first, 1)
        first.stdout.close()
        assert first.wait(30) == 141
        assert first.stderr.read() == b""
        first.stderr.close()
    finally:
        first.kill()
    done = committed(kafka)
    assert sum(done.values()) < lines.total()
    next_one = start(kafka, "t", "-e")
    out, errors = next_one.communicate(timeout=60)
    assert (next_one.returncode, complaints(errors)) == (0, b"")
    expected = Counter(b"%d:%d" % (p, o) for p in range(PARTITIONS) for o in range(done.get(p, 0), 20_000))
    assert Counter(out.splitlines()) == expected


def test_topics_by_pattern_up_to_the_end(kafka: EmbeddedKafka) -> None:
    lines = fill(kafka, 10)
    kafka.create_topic("other", 1)
    kafka.append("other", [b"no"])
    process = start(kafka, "--pattern", "t.*", "-e")
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, complaints(errors)) == (0, b"")
    assert Counter(out.splitlines()) == lines
    assert committed(kafka) == dict.fromkeys(range(PARTITIONS), 10)
