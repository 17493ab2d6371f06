"""The frame and correlation core: split and merged frames, every poison, and what each leaves behind."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer, pool_bytes
from kafwire.runtime.frames import RESPONSE, SENT, Frames

LIMIT = 1 << 20
STASH = 64 << 10
THROUGH_STASH = 16 << 10


def response_frame(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def asked(*correlation_ids: int, max_frame: int = LIMIT) -> Frames:
    """Frames that have sent one request per id; its token is the id times ten."""
    frames = Frames(max_frame)
    for correlation_id in correlation_ids:
        frames.queue(correlation_id * 10, correlation_id, [b"request"])
    while frames.take():
        pass
    return frames


def results(frames: Frames) -> list[tuple[int, int, bytes | None]]:
    return [(kind, token, None if frame is None else bytes(frame)) for kind, token, frame in frames.completions()]


def expected(stream: list[tuple[int, bytes]]) -> list[tuple[int, int, bytes]]:
    return [(RESPONSE, number * 10, struct.pack(">i", number) + body) for number, body in stream]


BODIES = [
    (1, b""),
    (2, b"x"),
    (3, b"some bytes"),
    (4, bytes(range(256)) * 3),
    (5, b""),
]


def test_merged_frames_come_out_of_one_piece() -> None:
    frames = asked(*(number for number, _ in BODIES))
    frames.feed(b"".join(response_frame(*each) for each in BODIES))
    assert results(frames) == expected(BODIES)
    assert not frames.inside_frame
    assert frames.outstanding() == []


def test_every_frame_byte_by_byte() -> None:
    frames = asked(*(number for number, _ in BODIES))
    found = []
    for number, body in BODIES:
        data = response_frame(number, body)
        for index in range(len(data)):
            assert results(frames) == []
            frames.feed(data[index : index + 1])
            assert frames.inside_frame == (index + 1 < len(data))
        found += results(frames)
    assert found == expected(BODIES)


def test_every_split_into_three() -> None:
    stream = [(1, b""), (2, b"abc"), (3, b"defghijk")]
    data = b"".join(response_frame(*each) for each in stream)
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            frames = asked(1, 2, 3)
            for piece in (data[:first], data[first:second], data[second:]):
                frames.feed(piece)
            assert results(frames) == expected(stream)


@pytest.mark.parametrize(
    "size",
    [
        THROUGH_STASH - 5,
        THROUGH_STASH - 4,
        THROUGH_STASH - 3,
        THROUGH_STASH,
        STASH - 9,
        STASH - 8,
        STASH - 7,
        STASH,
        STASH + 1,
        3 * STASH,
    ],
)
def test_large_frames_among_small_ones_at_every_limit(size: int) -> None:
    stream = [(1, b"small"), (2, bytes(i * 7 % 251 for i in range(size))), (3, b"after"), (4, b"y" * size), (5, b"")]
    data = b"".join(response_frame(*each) for each in stream)
    edges = [0]
    for number, body in stream:
        edges.append(edges[-1] + len(response_frame(number, body)))
    near = sorted({min(max(edge + step, 0), len(data)) for edge in edges for step in range(-9, 10)})
    for cut in near:
        frames = asked(1, 2, 3, 4, 5)
        frames.feed(data[:cut])
        frames.feed(data[cut:])
        assert results(frames) == expected(stream)
    frames = asked(1, 2, 3, 4, 5)
    for start, stop in pairwise([*near, len(data)]):
        frames.feed(data[start:stop])
    assert results(frames) == expected(stream)


@given(
    bodies=st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 3 * STASH).map(bytes)), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
)
def test_any_split_gives_the_same_responses(bodies: list[bytes], seed: int) -> None:
    dice = random.Random(seed)
    stream = list(enumerate(bodies, 1))
    data = b"".join(response_frame(*each) for each in stream)
    frames = asked(*range(1, len(bodies) + 1))
    at = 0
    found = []
    while at < len(data):
        step = dice.choice([1, 2, 3, 4, 5, 100, 20_000, 70_000, 200_000])
        frames.feed(data[at : at + step])
        at += step
        if dice.random() < 0.5:
            found += results(frames)
    assert found + results(frames) == expected(stream)


def test_written_bytes_are_prefix_and_segments() -> None:
    frames = Frames(LIMIT)
    frames.queue(1, 1, [b"head", b"", Buffer(b"payload")])
    frames.queue(2, 2, [Buffer(b"second")], expect_response=False)
    out = b"\0\0\0\x0bheadpayload\0\0\0\x06second"
    assert frames.pending_bytes == len(out)
    taken = b""
    for left in range(len(out), 0, -1):
        assert frames.pending_bytes == left
        taken += frames.take(1)
    assert taken == out
    assert frames.take() == b""


def test_take_gathers_many_requests_at_once() -> None:
    frames = Frames(LIMIT)
    for number in range(1000):
        frames.queue(number, number, [b"abc", b"de"])
    assert frames.take(1 << 20) == b"\0\0\0\x05abcde" * 1000
    assert frames.outstanding() == list(range(1000))


def test_a_request_without_a_response_is_sent_with_its_last_byte_and_has_no_slot() -> None:
    frames = Frames(LIMIT)
    frames.queue(10, 1, [b"ab"])
    frames.queue(20, 2, [b"cd"], expect_response=False)
    frames.queue(30, 3, [b"ef"], expect_response=False)
    frames.queue(40, 4, [b"gh"])
    assert frames.take(11) == b"\0\0\0\x02ab\0\0\0\x02c"
    assert results(frames) == []
    assert frames.outstanding() == [10, 20, 30, 40]
    frames.take(1)
    assert results(frames) == [(SENT, 20, None)]
    frames.take()
    assert results(frames) == [(SENT, 30, None)]
    assert frames.outstanding() == [10, 40]
    frames.feed(response_frame(1) + response_frame(4))
    assert [token for _, token, _ in frames.completions()] == [10, 40]


def test_requests_without_responses_behind_one_that_has_its_response() -> None:
    frames = asked(1)
    frames.feed(response_frame(1))
    assert len(frames.completions()) == 1
    for token in (2, 3):
        frames.queue(token, token, [b"x"], expect_response=False)
    frames.queue(40, 4, [b"y"])
    frames.take()
    assert results(frames) == [(SENT, 2, None), (SENT, 3, None)]
    assert frames.outstanding() == [40]
    frames.feed(response_frame(4))
    assert [token for _, token, _ in frames.completions()] == [40]
    assert frames.outstanding() == []


def test_requests_without_responses_alone() -> None:
    frames = Frames(LIMIT)
    for token in range(3):
        frames.queue(token, token, [b"x"], expect_response=False)
        frames.take()
    assert results(frames) == [(SENT, 0, None), (SENT, 1, None), (SENT, 2, None)]
    assert frames.outstanding() == []
    with pytest.raises(ProtocolError, match="no request is pending"):
        frames.feed(response_frame(2))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">i", -1), "size prefix -1"),
        (struct.pack(">i", -(2**31)), "size prefix -2147483648"),
        (struct.pack(">i", 0), "size prefix 0"),
        (struct.pack(">i", 3), "size prefix 3"),
        (struct.pack(">i", LIMIT + 1), "size prefix 1048577 exceeds the limit of 1048576"),
        (struct.pack(">i", 2**31 - 1), "size prefix 2147483647 exceeds"),
        (response_frame(2), "correlation id 2, but the oldest pending request has 1"),
        (response_frame(-1), "correlation id -1, but the oldest"),
        (struct.pack(">ii", LIMIT, 3), "correlation id 3, but the oldest"),
    ],
)
def test_bad_bytes_poison_for_good(data: bytes, message: str) -> None:
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        frames = asked(9, 1, 2)
        frames.feed(response_frame(9, b"good"))
        frames.queue(30, 3, [b"not sent"])
        with pytest.raises(ProtocolError, match=message):
            for piece in pieces:
                frames.feed(piece)
        assert frames.poison is not None
        assert message in frames.poison
        assert results(frames) == [(RESPONSE, 90, struct.pack(">i", 9) + b"good")]
        with pytest.raises(ProtocolError, match=message):
            frames.feed(response_frame(1))
        assert results(frames) == []
        assert frames.take() == b""
        assert frames.outstanding() == [10, 20, 30]


def test_a_response_without_a_request() -> None:
    frames = Frames(LIMIT)
    with pytest.raises(ProtocolError, match="correlation id 5, but no request is pending"):
        frames.feed(response_frame(5))


def test_a_response_before_the_request_is_out() -> None:
    frames = Frames(LIMIT)
    frames.queue(1, 5, [b"request"])
    frames.take(10)
    with pytest.raises(ProtocolError, match="5 is that of a request not fully sent"):
        frames.feed(response_frame(5))


def test_a_second_response_to_the_same_request() -> None:
    frames = asked(5)
    with pytest.raises(ProtocolError, match="correlation id 5, but no request is pending"):
        frames.feed(response_frame(5) * 2)
    assert len(frames.completions()) == 1


def test_a_new_limit_counts_from_the_next_frame_on() -> None:
    frames = asked(1, 2, max_frame=20)
    frames.feed(response_frame(1, b"x" * 16))
    frames.max_frame = 8
    assert frames.max_frame == 8
    assert len(frames.completions()) == 1
    with pytest.raises(ProtocolError, match="size prefix 9 exceeds the limit of 8"):
        frames.feed(response_frame(2, b"x" * 5))


def test_a_prefix_allocates_nothing_before_its_response_is_known_to_be_owed() -> None:
    live = pool_bytes()[0]
    frames = asked(1, max_frame=100 << 20)
    with pytest.raises(ProtocolError, match="correlation id 2"):
        frames.feed(struct.pack(">ii", 100 << 20, 2))
    assert pool_bytes()[0] - live <= STASH


def test_a_frame_allocates_no_more_than_the_received_bytes_justify() -> None:
    live = pool_bytes()[0]
    size = 70 << 20
    frames = asked(1, max_frame=size)
    piece = bytes(1 << 20)
    frames.feed(struct.pack(">ii", size, 1))
    received = 8
    while not (done := frames.completions()):
        assert pool_bytes()[0] - live <= max(32 << 20, 4 * received) + STASH
        step = min(len(piece), size + 4 - received)
        frames.feed(piece[:step])
        received += step
    assert len(done[0][2] or b"") == size


def test_buffers_go_back_whatever_was_under_way() -> None:
    live = pool_bytes()[0]
    payload = Buffer(b"z" * 1000)
    for stop in range(0, 3000, 37):
        frames = Frames(LIMIT)
        for number in (1, 2):
            frames.queue(number, number, [b"head", payload], expect_response=number == 1)
        frames.take(stop)
        if stop > 1008:
            frames.feed(response_frame(1, b"y" * 30_000)[: stop * 11])
        del frames
    del payload
    assert pool_bytes()[0] == live


def test_a_request_keeps_its_buffer_until_its_last_byte_is_out() -> None:
    live = pool_bytes()[0]
    frames = Frames(LIMIT)
    frames.queue(1, 1, [Buffer(b"payload" * 100)])
    for _ in range(704):
        assert pool_bytes()[0] > live
        frames.take(1)
    assert pool_bytes()[0] == live
    assert frames.outstanding() == [1]


@pytest.mark.parametrize("segments", [[], [b""], [b"", Buffer(b"")]])
def test_an_empty_request_is_refused(segments: list[bytes | Buffer]) -> None:
    frames = Frames(LIMIT)
    with pytest.raises(ValueError, match="1 byte to 2 GiB"):
        frames.queue(1, 1, segments)
    assert frames.outstanding() == []


def test_a_segment_of_another_type_is_refused_and_leaves_nothing() -> None:
    live = pool_bytes()[0]
    frames = Frames(LIMIT)
    with pytest.raises(TypeError, match="bytes or a Buffer, not bytearray"):
        frames.queue(1, 1, [b"good", bytearray(b"bad")])  # type: ignore[list-item]
    assert frames.outstanding() == []
    assert pool_bytes()[0] == live


def test_feed_takes_any_buffer() -> None:
    frames = asked(1, 2, 3)
    frames.feed(bytearray(response_frame(1)))
    frames.feed(memoryview(response_frame(2)))
    frames.feed(b"")
    frames.feed(Buffer(response_frame(3)))
    assert len(frames.completions()) == 3
