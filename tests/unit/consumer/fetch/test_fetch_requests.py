"""`_fetch.encode_fetch`: byte for byte what the declared message writes, in every version."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire import protocol
from kafwire.consumer.fetch._fetch import encode_fetch
from kafwire.errors import ProtocolError
from kafwire.protocol import FetchRequest
from tests.support import seeds

VERSIONS = range(FetchRequest.min_version, FetchRequest.max_version + 1)
Entry = tuple[Any, ...]

INT8, INT32, INT64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 32, 64))
IDS = st.sampled_from([bytes(16), bytes(range(16)), b"0123456789abcdef"])
NAMES = st.sampled_from(["", "t", "flights", "é" * 64, "x" * 249])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# A few topics, so that runs of one are frequent; and the same name with another id, as a recreated topic has it.
ADD = st.lists(st.tuples(NAMES, IDS, INT32, INT64, INT32, INT32, INT32), max_size=12)
FORGET = st.lists(st.tuples(NAMES, IDS, INT32), max_size=12)
COMMON = st.fixed_dictionaries(
    {
        "max_wait_ms": INT32,
        "min_bytes": INT32,
        "max_bytes": INT32,
        "isolation_level": INT8,
        "session_id": INT32,
        "session_epoch": INT32,
        "rack_id": TEXT,
    }
)


def grouped(entries: Iterable[Entry], version: int) -> list[tuple[dict[str, Any], list[Entry]]]:
    """Consecutive entries of one topic, and how that version names it."""
    identity: Callable[[Entry], Any] = (
        (lambda entry: entry[1]) if version >= FetchRequest.BY_TOPIC_ID else (lambda entry: entry[0])
    )
    return [
        ({"topic_id": uuid.UUID(bytes=topic)} if version >= FetchRequest.BY_TOPIC_ID else {"topic": topic}, list(group))
        for topic, group in itertools.groupby(entries, identity)
    ]


def declared(
    version: int,
    correlation_id: int,
    client_id: str | None,
    add: Sequence[Entry],
    forget: Sequence[Entry],
    **common: Any,
) -> bytes:
    message = FetchRequest(
        **common,
        topics=[
            FetchRequest.FetchTopic(
                **name,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=max_bytes,
                        current_leader_epoch=epoch,
                        last_fetched_epoch=fetched if version >= 12 else -1,
                    )
                    for _, _, partition, offset, max_bytes, epoch, fetched in entries
                ],
            )
            for name, entries in grouped(add, version)
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(**name, partitions=[partition for _, _, partition in entries])
            for name, entries in grouped(forget, version)
        ],
    )
    return protocol.encode_request(message, version, correlation_id, client_id)


@given(st.sampled_from(VERSIONS), INT32, st.none() | TEXT, ADD, FORGET, COMMON)
def test_the_bytes_are_those_of_the_declared_message(
    version: int,
    correlation_id: int,
    client_id: str | None,
    add: list[Entry],
    forget: list[Entry],
    common: dict[str, Any],
) -> None:
    if version < 7:
        forget = []
    expected = declared(version, correlation_id, client_id, add, forget, **common)
    assert encode_fetch(version, correlation_id, client_id, add=add, forget=forget, **common) == expected


@pytest.mark.parametrize("version", seeds.sampled(VERSIONS, 6, 11, 12, VERSIONS[-1]))
def test_very_many_partitions(version: int) -> None:
    """Counts above 127 and 16,383, whose varints take two and three bytes, and a request that outgrows its buffer."""
    for topics, partitions in ((1, 128), (200, 1), (1, 20_000), (17_000, 1)):
        add = [
            (f"topic-{t}", t.to_bytes(16, "big"), p, t * p, 1 << 20, 5, 4)
            for t in range(topics)
            for p in range(partitions)
        ]
        forget = [entry[:3] for entry in add] if version >= 7 else []
        common: dict[str, Any] = {
            "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 23, "isolation_level": 1, "session_id": 7,
            "session_epoch": 8, "rack_id": "rack",
        }  # fmt: skip
        expected = declared(version, 1, "client", add, forget, **common)
        assert encode_fetch(version, 1, "client", add=add, forget=forget, **common) == expected


def encode(version: int, **fields: Any) -> bytes:
    return encode_fetch(version, 1, "client", max_wait_ms=1, min_bytes=1, max_bytes=1, **fields)


def test_nothing_can_be_forgotten_before_sessions() -> None:
    for version in (4, 5, 6):
        assert encode(version)
        with pytest.raises(ProtocolError, match=f"version {version} has no fetch sessions"):
            encode(version, forget=[("t", bytes(16), 0)])


@pytest.mark.parametrize("version", [VERSIONS[0] - 1, VERSIONS[-1] + 1, -1])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"versions {VERSIONS[0]} to {VERSIONS[-1]}, not {version}"):
        encode(version)


def test_text_that_is_too_long_is_refused() -> None:
    entry = (bytes(16), 0, 0, 0, 0, 0)
    for version in (4, 12):
        assert encode(version, add=[("x" * 32_767, *entry)])
        with pytest.raises(ProtocolError, match="a topic's name of 32768 bytes"):
            encode(version, add=[("é" * 16_384, *entry)])
    with pytest.raises(ProtocolError, match="a rack of 32768 bytes"):
        encode(11, rack_id="x" * 32_768)
    with pytest.raises(ProtocolError, match="a client id of 32768 bytes"):
        encode_fetch(12, 1, "x" * 32_768, max_wait_ms=1, min_bytes=1, max_bytes=1)


@pytest.mark.parametrize("topic_id", [b"", bytes(15), bytes(17), None, uuid.UUID(int=5)])
def test_an_id_has_sixteen_bytes(topic_id: Any) -> None:
    entry = ("t", topic_id, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="16 bytes are needed"):
        encode(13, add=[entry])
    assert encode(12, add=[entry])


@pytest.mark.parametrize("entry", [(), ("t", bytes(16), 0, 0, 0, 0), ["t", bytes(16), 0, 0, 0, 0, 0], None])
def test_entries_are_tuples_of_their_size(entry: Any) -> None:
    for version in (4, 18):
        with pytest.raises(ValueError, match="is no tuple of 7"):
            encode(version, add=[entry])
    with pytest.raises(ValueError, match="is no tuple of 3"):
        encode(18, forget=[entry])


def test_numbers_that_do_not_fit_are_refused() -> None:
    for place, value in ((2, 1 << 31), (3, 1 << 63), (4, -(1 << 31) - 1), (5, 1 << 40), (6, 1 << 31)):
        entry: list[Any] = ["t", bytes(16), 0, 0, 0, 0, 0]
        entry[place] = value
        with pytest.raises(OverflowError):
            encode(18, add=[tuple(entry)])


def test_a_topic_differs_from_another_by_its_name_or_id_in_the_version() -> None:
    entries = [("a", bytes(16), 0, 0, 0, 0, 0), ("a", b"\1" * 16, 1, 0, 0, 0, 0), ("b", b"\1" * 16, 2, 0, 0, 0, 0)]
    for version in (4, 12, 13, 18):
        message = FetchRequest.decode(encode(version, add=entries)[17 if version >= 12 else 16 :], version)
        assert [len(topic.partitions) for topic in message.topics] == ([2, 1] if version < 13 else [1, 2])
