"""`_fetch`: the envelope of a Fetch response as declared, in every version; other bytes are a `ProtocolError` only."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafwire.consumer.fetch._fetch import ParsedResponse, parse_response, scan_headers
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.protocol import FetchRequest, FetchResponse
from kafwire.records import encode_batch
from kafwire.testing.strategies import Versioned, messages
from tests.support import seeds
from tests.support.fetch_responses import EPOCH, LEADER, NODE, frame_of, tagged

VERSIONS = range(FetchRequest.min_version, FetchRequest.max_version + 1)
RESPONSES = messages(FetchResponse, records=st.none() | st.binary(max_size=200), unstable=True)


def seen(response: ParsedResponse, data: bytes) -> list[tuple[Any, ...]]:
    return [
        (
            part.topic,
            part.partition,
            part.error_code,
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset,
            part.aborted,
            part.preferred_read_replica,
            (part.diverging_epoch, part.diverging_end_offset),
            (part.leader_id, part.leader_epoch),
            data[part.position : part.position + part.size],
        )
        for part in response.partitions
    ]


def declared(message: FetchResponse, version: int) -> list[tuple[Any, ...]]:
    return [
        (
            topic.topic_id.bytes if version >= FetchRequest.BY_TOPIC_ID else topic.topic,
            part.partition_index,
            part.error_code,
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset if version >= 5 else -1,
            [(entry.producer_id, entry.first_offset) for entry in part.aborted_transactions or []],
            part.preferred_read_replica if version >= 11 else -1,
            (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) if version >= 12 else (-1, -1),
            (part.current_leader.leader_id, part.current_leader.leader_epoch) if version >= 12 else (-1, -1),
            bytes(part.records or b""),
        )
        for topic in message.responses
        for part in topic.partitions
    ]


@given(RESPONSES)
def test_the_reader_reads_the_bytes_of_the_declared_message(case: Versioned[FetchResponse]) -> None:
    message, version = case
    data = frame_of(message, version)
    response = parse_response(Buffer(data), version)
    assert seen(response, data) == declared(message, version)
    assert response.throttle_time_ms == message.throttle_time_ms
    assert response.error_code == (message.error_code if version >= 7 else 0)
    assert response.session_id == (message.session_id if version >= 7 else 0)
    assert response.endpoints == endpoints(message, version)
    assert bytes(response.frame) == data


def endpoints(message: FetchResponse, version: int) -> list[tuple[int, str, int, str | None]]:
    return (
        [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints]
        if version >= FetchRequest.NAMES_LEADERS
        else []
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_shortest_topic_there_can_be_is_read(version: int) -> None:
    message = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="")])
    assert parse_response(Buffer(frame_of(message, version)), version).partitions == []


@settings(max_examples=seeds.examples(20))
@given(RESPONSES)
def test_a_truncated_response_is_an_error_wherever_it_ends(case: Versioned[FetchResponse]) -> None:
    message, version = case
    data = frame_of(message, version)
    for end in range(len(data)):
        with pytest.raises(ProtocolError) as caught:
            parse_response(Buffer(data[:end]), version)
        assert caught.value.api == "FetchResponse"
        assert caught.value.version == version
        assert caught.value.offset is not None
        assert caught.value.offset <= end


@given(RESPONSES, st.binary(min_size=1, max_size=5))
def test_bytes_left_over_are_an_error(case: Versioned[FetchResponse], more: bytes) -> None:
    message, version = case
    with pytest.raises(ProtocolError, match=f"{len(more)} bytes are left over"):
        parse_response(Buffer(frame_of(message, version) + more), version)


@settings(max_examples=seeds.examples(100))
@given(RESPONSES, st.data())
def test_damaged_bytes_are_read_otherwise_or_a_protocol_error(
    case: Versioned[FetchResponse], data: st.DataObject
) -> None:
    message, version = case
    damaged = bytearray(frame_of(message, version))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(damaged) - 1))
        damaged[where] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        response = parse_response(Buffer(damaged), version)
        for part in response.partitions:
            assert part.position + part.size <= len(damaged)


@settings(max_examples=seeds.examples(100))
@given(RESPONSES, st.data())
def test_damaged_bytes_that_the_declared_message_reads_are_read_alike(
    case: Versioned[FetchResponse], data: st.DataObject
) -> None:
    message, version = case
    damaged = bytearray(frame_of(message, version))
    head = 5 if version >= 12 else 4
    assume(len(damaged) > head)
    damaged[data.draw(st.integers(head, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        other = FetchResponse.decode(bytes(damaged[head:]), version)
    except ProtocolError:
        return
    response = parse_response(Buffer(damaged), version)
    assert seen(response, bytes(damaged)) == declared(other, version)
    assert response.endpoints == endpoints(other, version)


@given(st.binary(max_size=300), st.sampled_from(VERSIONS))
def test_any_bytes_are_read_or_a_protocol_error(data: bytes, version: int) -> None:
    with contextlib.suppress(ProtocolError):
        parse_response(Buffer(data), version)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_count_that_cannot_be_is_not_believed(version: int) -> None:
    """Refused before anything is made for it, however many there are said to be."""
    head = struct.pack(">i", 1) + (b"\0" if version >= 12 else b"") + b"\0" * 4
    head += b"\0" * 6 if version >= 7 else b""
    huge = b"\xff\xff\xff\xff\x0f" if version >= 12 else b"\x7f\xff\xff\xff"
    with pytest.raises(ProtocolError, match="truncated or contradictory"):
        parse_response(Buffer(head + huge + b"\0" * 40), version)


# ---- tags


def tagged_frame(
    partition: bytes = b"\0", top: bytes = b"\0", *, before: bytes = b"\0", topic: bytes = b"\0"
) -> Buffer:
    """A response of version 17 with one partition, and tagged sections as given."""
    entry = struct.pack(">ihqqq", 5, 6, 100, 90, 10) + b"\0" + struct.pack(">i", 2) + b"\1" + partition
    body = struct.pack(">ihi", 0, 0, 1) + b"\2" + bytes(16) + b"\2" + entry + topic + top
    return Buffer(struct.pack(">i", 77) + before + body)


def test_tags_are_read_and_unknown_ones_passed_over() -> None:
    unknown = (9, b"anything")
    partition = tagged((0, EPOCH), (1, LEADER), (2, b"snapshots are not for us"), unknown)
    top = tagged((0, b"\3" + NODE + NODE[:-3] + b"\0\0"), unknown)
    response = parse_response(tagged_frame(partition, top, before=tagged(unknown), topic=tagged(unknown)), 17)
    (part,) = response.partitions
    assert (part.diverging_epoch, part.diverging_end_offset, part.leader_id, part.leader_epoch) == (7, 1234, 3, 9)
    assert response.endpoints == [(3, "host", 9092, "r"), (3, "host", 9092, None)]


def test_without_tags_nothing_is_known() -> None:
    response = parse_response(tagged_frame(), 17)
    (part,) = response.partitions
    found = part.diverging_epoch, part.diverging_end_offset, part.leader_id, part.leader_epoch
    assert found == (-1, -1, -1, -1)
    assert part.preferred_read_replica == 2
    assert (part.aborted, response.endpoints) == ([], [])


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(tagged((1, LEADER), (1, LEADER)), id="a tag twice"),
        pytest.param(tagged((1, LEADER), (0, EPOCH)), id="tags that fall"),
        pytest.param(tagged((7, b""), (7, b"")), id="an unknown tag twice"),
        pytest.param(tagged((0, EPOCH + b"\0")), id="an epoch with bytes left over"),
        pytest.param(tagged((0, EPOCH[:-1])), id="an epoch without its own tags"),
        pytest.param(tagged((1, LEADER[:-2])), id="half a leader"),
        pytest.param(tagged((1, LEADER[:-1] + tagged((5, b""), (5, b"")))), id="a leader with a tag twice"),
        pytest.param(b"\1" + b"\xff\xff\xff\xff\7" + b"\0", id="a tag that cannot be"),
        pytest.param(b"\1\1\xff\1", id="a field longer than the frame"),
    ],
)
def test_odd_tags_of_a_partition_are_an_error(section: bytes) -> None:
    with pytest.raises(ProtocolError, match="truncated or contradictory"):
        parse_response(tagged_frame(section), 17)


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(tagged((0, b"\2" + NODE), (0, b"\2" + NODE)), id="a tag twice"),
        pytest.param(tagged((0, b"\3" + NODE)), id="a node too few"),
        pytest.param(tagged((0, b"\1" + NODE)), id="a node too many"),
        pytest.param(tagged((0, b"\0")), id="no list"),
        pytest.param(tagged((0, b"\2" + NODE[:4] + b"\0" + NODE[9:] + bytes(4))), id="no host"),
        pytest.param(tagged((0, b"\2" + NODE[:4] + b"\x7f" + NODE[5:])), id="a host longer than the field"),
    ],
)
def test_odd_tags_of_a_response_are_an_error(section: bytes) -> None:
    with pytest.raises(ProtocolError, match="truncated or contradictory"):
        parse_response(tagged_frame(top=section), 17)


def test_odd_tags_elsewhere_are_an_error() -> None:
    twice = tagged((7, b""), (7, b""))
    for where in ({"before": twice}, {"topic": twice}):
        with pytest.raises(ProtocolError, match="truncated or contradictory"):
            parse_response(tagged_frame(**where), 17)


def test_endpoints_are_of_version_16() -> None:
    """Before it the tag is unknown, and may hold any bytes."""
    data = bytes(tagged_frame(top=tagged((0, b"no nodes"))))
    assert parse_response(Buffer(data), 15).endpoints == []
    with pytest.raises(ProtocolError):
        parse_response(Buffer(data), 16)


# ---- headers


def blob_of(*batches: tuple[int, int]) -> tuple[bytes, list[int]]:
    """Batches of (base offset, records), and where each ends."""
    blob, ends = b"", []
    for base, count in batches:
        blob += encode_batch([b"value"] * count, base_offset=base)
        ends.append(len(blob))
    return blob, ends


def test_the_headers_of_whole_batches_are_read_wherever_the_slice_ends() -> None:
    blob, ends = blob_of((5, 3), (8, 1), (100, 2))
    nexts, epochs = [8, 9, 102], [4, -1, 6]
    for at, epoch in zip([0, *ends], epochs, strict=False):
        blob = blob[: at + 12] + struct.pack(">i", epoch) + blob[at + 16 :]
    for size in range(len(blob) + 1):
        whole = sum(end <= size for end in ends)
        expected = (nexts[whole - 1], ends[whole - 1], 5, epochs[whole - 1]) if whole else (-1, 0, -1, -1)
        assert scan_headers(Buffer(b"junk" + blob), 4, size) == expected


def test_base_offsets_that_do_not_rise_are_an_error() -> None:
    for second in (0, 5, 7):
        blob, ends = blob_of((5, 3), (second, 1))
        with pytest.raises(ProtocolError, match="do not rise") as caught:
            scan_headers(Buffer(blob), 0, len(blob))
        assert caught.value.offset == ends[0]


@pytest.mark.parametrize(
    ("at", "value", "because"), [(16, b"\3", "magic"), (8, b"\0\0\0\5", "length"), (8, b"\xff" * 4, "length")]
)
def test_an_impossible_batch_header_is_an_error(at: int, value: bytes, because: str) -> None:
    blob, ends = blob_of((0, 1), (1, 1))
    damaged = blob[: ends[0] + at] + value + blob[ends[0] + at + len(value) :]
    with pytest.raises(ProtocolError, match=because) as caught:
        scan_headers(Buffer(b"xx" + damaged), 2, len(damaged))
    assert caught.value.offset == 2 + ends[0]


@pytest.mark.parametrize(("position", "size"), [(0, 11), (11, 0), (10, 1), (2**64 - 1, 1), (5, 2**64 - 2)])
def test_a_slice_outside_its_frame_is_refused(position: int, size: int) -> None:
    with pytest.raises(ValueError, match="outside its frame"):
        scan_headers(Buffer(b"0123456789"), position, size)


def test_random_damage_to_headers_is_read_otherwise_or_a_protocol_error() -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)
    blob, _ = blob_of((5, 3), (8, 1), (100, 2))
    for _ in range(3_000):
        damaged = bytearray(blob)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(ProtocolError):
            _, whole, _, _ = scan_headers(Buffer(damaged), 0, len(damaged))
            assert whole <= len(damaged)


def test_a_response_of_very_many_partitions_is_refused_before_it_becomes_objects() -> None:
    """Thirty bytes each, which become two hundred: what the envelope takes has the limit of any other message."""
    entry = struct.pack(">ihqqi", 0, 0, 0, 0, 0) + struct.pack(">i", 0)
    count = 1 + (256 << 20) // 256
    data = struct.pack(">ii", 7, 0) + struct.pack(">i", 1) + b"\0\1t" + struct.pack(">i", count) + entry * count
    with pytest.raises(ProtocolError, match="would take more than 268435456 bytes"):
        parse_response(Buffer(data), 4)
    aborted = struct.pack(">ihqqi", 0, 0, 0, 0, 2_000_000) + bytes(16 * 2_000_000) + struct.pack(">i", 0)
    data = struct.pack(">ii", 7, 0) + struct.pack(">i", 1) + b"\0\1t" + struct.pack(">i", 1) + aborted
    with pytest.raises(ProtocolError, match="would take more than 268435456 bytes"):
        parse_response(Buffer(data), 4)


@pytest.mark.parametrize(
    ("bases", "start", "high_watermark", "sound"),
    [
        ([10, 12], 10, 14, True),
        ([10, 12], 10, 12, True),
        ([10, 12], 10, 11, True),  # written since the broker noted the high watermark
        ([10, 12], 10, 10, True),
        ([10, 12], 10, 9, True),  # of a new leader, it may be lower than what was read already
        ([10, 13], 10, 14, True),  # below the high watermark compaction leaves holes
        ([10, 13], 10, 13, True),
        ([10, 13], 10, 12, False),
        ([11], 10, 10, False),
        ([11], 10, 11, True),
        ([8, 10], 9, 5, True),
        ([10, 1 << 40], 10, 14, False),
        ([1 << 40], 10, -1, True),  # a response that names none
    ],
)
def test_above_the_high_watermark_batches_are_without_holes(
    bases: list[int], start: int, high_watermark: int, sound: bool
) -> None:
    blob = b"".join(encode_batch([b"a", b"b"], base_offset=base) for base in bases)
    if sound:
        assert scan_headers(Buffer(blob), 0, len(blob), start, high_watermark)[0] == bases[-1] + 2
    else:
        with pytest.raises(ProtocolError, match="above the high watermark"):
            scan_headers(Buffer(blob), 0, len(blob), start, high_watermark)
