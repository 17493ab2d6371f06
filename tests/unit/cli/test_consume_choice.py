"""`kafwire consume` on an embedded broker: records by key, internal topics decoded, text on a terminal, times."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire import TopicPartition
from kafwire.cli import main
from kafwire.protocol import encode_versioned
from kafwire.protocol.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafwire.testing import EmbeddedKafka

WHERE = TopicPartition("orders", 0)
OFFSETS = "__consumer_offsets"
GROUP = "größe\x9b"  # with a control character of terminals


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders", partitions=1)
        with kafwire.Producer(running.bootstrap) as producer:
            for number in range(12):
                producer.send("orders", b"%d" % number, key=None if number % 4 == 3 else b"k%d" % (number % 4))
            producer.send("orders", b"last", key="schlüssel".encode())
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["consume", "-b", kafka.bootstrap, *arguments])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--key", "k1"], ["1", "5", "9"]),
        (["--key", "k1", "--key", "k0"], ["0", "1", "4", "5", "8", "9"]),
        (["--key", "k1", "--key", "k0", "-c", "3"], ["0", "1", "4"]),
        (["--key", "k1", "-u"], ["1", "5", "9"]),
        (["--key", "schlüssel"], ["last"]),
        (["--key", "k"], []),
        (["--key", ""], []),
        (["-c", "2"], ["0", "1"]),
    ],
    ids=str,
)
def test_records_are_chosen_by_key(kafka: EmbeddedKafka, options: list[str], expected: list[str]) -> None:
    result = run(kafka, "orders", "-e", *options)
    assert (result.exit_code, result.stderr, result.stdout.split()) == (0, "", expected)


@pytest.mark.parametrize(("options", "committed"), [([], 13), (["-c", "2"], 6)], ids=str)
def test_a_group_commits_records_that_it_passes_over(kafka: EmbeddedKafka, options: list[str], committed: int) -> None:
    result = run(kafka, "orders", "-e", "--key", "k1", "-G", "g", *options)
    assert (result.exit_code, result.stdout.split()) == (0, ["1", "5", "9"][: 2 if options else 3])
    assert kafka.committed("g") == {WHERE: committed}


def test_a_key_filter_prints_json(kafka: EmbeddedKafka) -> None:
    lines = run(kafka, "orders", "-e", "--key", "k2", "-J").stdout.splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [2, 6, 10]


def test_a_closed_reader_ends_a_search_without_a_match(kafka: EmbeddedKafka) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kafwire", "consume", "-b", kafka.bootstrap, "orders", "-e", "--key", "absent"]
    try:
        ran = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


@pytest.fixture
def offsets(kafka: EmbeddedKafka) -> EmbeddedKafka:
    """A broker with records of a coordinator, in a topic of that name."""
    with kafwire.Client(kafka.bootstrap) as client:
        if OFFSETS not in {topic.name for topic in client.metadata().topics}:
            client.create_topic(OFFSETS, partitions=1)
    committed = OffsetCommitValue(offset=7, metadata="", commit_timestamp=1)
    key = (1).to_bytes(2, "big") + OffsetCommitKey(group=GROUP, topic="orders", partition=0).encode(0)
    group = (2).to_bytes(2, "big") + GroupMetadataKey(group=GROUP).encode(0)
    state = GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None)
    values = [encode_versioned(committed, 3), None, encode_versioned(state, 3), b"\0\1"]
    keys = [key, key, group, b"\0\x63key"]
    # The one client id that brokers let write there.
    with kafwire.Producer(kafka.bootstrap, client_id="__admin_client") as producer:
        for value, one in zip(values, keys, strict=True):
            producer.send(OFFSETS, value, key=one, partition=0)
    return kafka


def test_an_internal_topic_is_printed_decoded(offsets: EmbeddedKafka) -> None:
    shown = run(offsets, OFFSETS, "-e", "-p", "0", "-J").stdout
    assert "\x9b" not in shown
    lines = shown.split("\n")[:-1]
    first, tombstone, group, unknown = [json.loads(line) for line in lines][-4:]
    body = {"group": GROUP, "topic": "orders", "partition": 0}
    assert first["key"] == {"message": "OffsetCommitKey", "version": 0, "body": body}
    assert (first["payload"]["version"], first["payload"]["body"]["offset"]) == (3, 7)
    assert (tombstone["key"], tombstone["payload"]) == (first["key"], None)
    assert group["payload"]["body"]["protocolType"] == "consumer"
    assert unknown["key"] == {"type": 99, "base64": "a2V5"}
    assert unknown["payload"] == {"base64": "AAE="}
    assert first["topic"] == OFFSETS
    plain = run(offsets, OFFSETS, "-e", "-p", "0", "-o", "-4", "-f", "%o %K %s\n", "-Z").stdout.splitlines()
    assert plain[0].split(" ", 2)[1:] == ["25", json.dumps(first["payload"], separators=(",", ":"), ensure_ascii=False)]
    assert plain[1].endswith(" NULL")
    alone = run(offsets, OFFSETS, "-e", "-p", "0", "-o", "-4", "-c", "1").stdout
    assert json.loads(alone) == first["payload"]


def test_the_bytes_of_an_internal_topic_are_shown_by_their_form(offsets: EmbeddedKafka) -> None:
    lines = run(offsets, OFFSETS, "-e", "-p", "0", "-o", "-1", "--bytes", "hex", "-K", " ").stdout.splitlines()
    assert lines == ["00636b6579 0001"]


def test_values_are_text_on_a_terminal(kafka: EmbeddedKafka) -> None:
    kafka.append("orders", ["grün\t\x1b[31m\r\n".encode() + b"\xff\x00", "\x9b\r".encode()], partition=0)
    command = [sys.executable, "-m", "kafwire", "consume", "-b", kafka.bootstrap, "orders", "-e", "-o", "-2"]
    reading, writing = pty.openpty()
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        shown = b""
        try:
            while data := os.read(reading, 1 << 16):
                shown += data
        except OSError:  # the other end is closed
            pass
        assert (process.wait(60), process.stderr.read() if process.stderr else b"") == (0, b"")
    os.close(reading)
    text = shown.decode().replace("\r\n", "\n")
    assert text.replace("\r", "") == "grün\t\\x1b[31m\n\\xff\\x00\n\\xc2\\x9b\\x0d\n"
    piped = subprocess.run(command, capture_output=True, check=True)
    assert piped.stdout == "grün\t\x1b[31m\r\n".encode() + b"\xff\x00\n" + "\x9b\r\n".encode()


@pytest.mark.parametrize(
    ("offset", "warned"),
    [("s@1764331200", True), ("e@1764331200", True), ("s@1764331200000", False), ("s@7", False), ("17643312", False)],
)
def test_times_that_look_like_seconds_get_a_warning(kafka: EmbeddedKafka, offset: str, warned: bool) -> None:
    result = run(kafka, "orders", "-e", "-o", offset, "-X", "auto.offset.reset=earliest")
    assert result.exit_code == 0
    said = f"kafwire consume: -o {offset} is 1970-01-21T10:05:31Z: times are in milliseconds, as in kcat. If"
    assert result.stderr.startswith(said) == warned
    assert (f"write -o {offset}000\n" in result.stderr) == warned == bool(result.stderr)


def test_a_form_of_lines_is_refused_in_json(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "orders", "-e", "-J", "--bytes", "text")
    assert (result.exit_code, "--bytes text needs output as lines" in result.stderr) == (2, True)
