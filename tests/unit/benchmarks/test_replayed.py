"""Where contenders find a broker that speaks TLS, or that replays. No process is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure import Bench
from benchmarks.replayed import Replayed, tls_options
from benchmarks.rounds import ContenderError
from benchmarks.row import Contender, Row, Topic
from benchmarks.rows import ROWS
from benchmarks.topics import Topics

TOPIC = Topic(100, "none", 16_000)


def bench() -> Bench:
    return Bench("plain:1", Topics("localhost:1", Path("/floor")), Path("/floor"), Path("/b"), 1.0, {}, {}, {}, {}, {})


def row(*, replayed: bool) -> Row:
    return Row("tls-test", "tls", "M records/s", TOPIC, [], replayed=replayed)


def test_programs_get_options_in_their_own_words() -> None:
    assert tls_options("floor", Path("/ca")) == {"ca": "/ca"}
    assert tls_options("rdkafka", Path("/ca"))["conf.ssl.ca.location"] == "/ca"
    assert tls_options("kafwire_consumer", Path("/ca"))["conf.security_protocol"] == "SSL"


def test_the_server_that_replays_is_started_once_for_a_topic() -> None:
    asked: list[Topic] = []

    def open_replay(topic: Topic) -> Replayed:
        asked.append(topic)
        return Replayed("replay:1", "replay:2")

    own = bench()
    own.open_replay, own.ca_pem, own.secured = open_replay, Path("/ca"), "kafka:2"
    plain, tls = Contender("a", "floor", "consume"), Contender("b", "floor", "consume", tls=True)
    assert own._where(row(replayed=True), plain) == {"bootstrap": "replay:1"}
    assert own._where(row(replayed=True), tls) == {"bootstrap": "replay:2", "ca": "/ca"}
    assert own._where(row(replayed=False), plain) == {}
    assert own._where(row(replayed=False), tls) == {"bootstrap": "kafka:2", "ca": "/ca"}
    assert asked == [TOPIC]


def test_a_broker_without_tls_is_an_error_with_the_remedy() -> None:
    with pytest.raises(ContenderError, match="run without --bootstrap"):
        bench()._where(row(replayed=False), Contender("b", "floor", "consume", tls=True))


def test_rows_of_tls_compare_with_the_same_bytes_plain() -> None:
    for one in (row for row in ROWS if row.kind == "tls"):
        assert {contender.tls for contender in one.contenders} == {False, True}
