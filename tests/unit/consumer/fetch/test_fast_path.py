"""`FetchFastPath`: the I/O thread queues only slices of a Fetch response that the engine would have queued."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.consumer.fetch._fetch import parse_response, scan_headers
from kafwire.consumer.fetch._fetch_buffer import FetchFastPath
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.protocol import FetchRequest, FetchResponse
from kafwire.records._arrow import Layout
from kafwire.runtime._io import Loop
from kafwire.testing.strategies import Versioned, messages
from tests.support import seeds
from tests.support.fed_fast_path import IDS, TOKEN, Fed, Part, Taken, Wanted, Wants, batch, made
from tests.support.fetch_responses import EPOCH, LEADER, NODE, frame_of, tagged

SESSION = 77
END = 2**63 - 1
VERSIONS = range(FetchRequest.BY_TOPIC_ID, FetchRequest.max_version + 1)


@pytest.fixture
def fed() -> Iterator[Fed]:
    it = Fed({(IDS[0].bytes, partition): Wanted(partition, 10 * partition) for partition in range(3)})
    yield it
    it.close()


def judged(data: bytes, version: int, wants: Wants, session: int) -> tuple[Taken, dict[int, tuple[int, int]]]:
    """The slices that `BrokerFetcher` would queue where no decision is needed, and their places in the frame."""
    try:
        response = parse_response(Buffer(data), version)
    except ProtocolError:
        return {}, {}
    taken: Taken = {}
    places: dict[int, tuple[int, int]] = {}
    if response.error_code or (session and response.session_id not in (0, session)):
        return {}, {}
    for part in response.partitions:
        want = wants.get((part.topic, part.partition)) if isinstance(part.topic, bytes) else None
        if want is None or want.number in taken or part.error_code or part.aborted or not part.size:
            continue
        if part.diverging_epoch >= 0 or part.preferred_read_replica >= 0:
            continue
        try:
            after, size, _, epoch = scan_headers(
                Buffer(data), part.position, part.size, want.offset, part.high_watermark
            )
        except ProtocolError:
            continue
        if size and after > want.offset:
            taken[want.number] = 0, want.offset, after, epoch, size
            places[want.number] = part.position, size
    return taken, places


def check(data: bytes, version: int, wants: Wants, session: int) -> Taken:
    """Feed a response to it; the engine must have queued each slice that it takes. Returns the slices that it took."""
    expected, places = judged(data, version, wants, session)
    fed, engine = Fed(wants, idle_loop()), Fed(wants, idle_loop())
    try:
        taken = fed.deliver(data, version, session)
        assert taken.items() <= expected.items()
        for number, (generation, start, _, _, size) in taken.items():
            assert fed.queue.queued(number) == (1, size)
            engine.queue.push(Buffer(data), *places[number], number, start, END, [], generation, "a broker")
            engine.queue.seal()
        assert [fed.queue.queued(want.number)[0] for want in wants.values()] == [
            int(want.number in taken) for want in wants.values()
        ]
        assert fed.rows() == engine.rows()
        assert fed.queue.queued_bytes() == 0 or fed.reader.error is not None
        return taken
    finally:
        fed.queue.close()
        engine.queue.close()


@cache
def idle_loop() -> Loop:
    """A loop for queues that need one, of responses without a connection."""
    return Loop()


# ---- responses


def wants_of(*parts: Part) -> Wants:
    return {(part.topic.bytes, part.partition): Wanted(number, part.offset) for number, part in enumerate(parts)}


@st.composite
def records(draw: st.DrawFn) -> tuple[int, bytes]:
    """An offset that was asked for, and batches that an honest broker gives from there on, the last maybe cut."""
    base = draw(st.integers(0, 50))
    offset = base
    blob = b""
    for i in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 4))
        blob += batch(base, count, draw(st.integers(-1, 3)))
        if i == 0:
            offset = base + draw(st.integers(0, count - 1))
        base += count + draw(st.sampled_from([0, 0, 3]))
    if draw(st.booleans()):
        blob += batch(base, 2, 0)[: draw(st.integers(0, 70))]
    return offset, blob


@st.composite
def responses(draw: st.DrawFn) -> list[Part]:
    keys = draw(st.lists(st.tuples(st.sampled_from(IDS), st.integers(0, 3)), unique=True, max_size=5))
    found = []
    for topic, partition in sorted(keys):
        offset, blob = draw(records())
        part = Part(topic, partition, offset, blob)
        part.high_watermark = draw(st.sampled_from([1 << 40, -1, offset, offset + 3]))
        part.error = draw(st.sampled_from([0, 0, 0, 0, 6]))
        part.aborted = draw(st.sampled_from([0, 0, 0, None, 2]))
        part.preferred = draw(st.sampled_from([-1, -1, -1, -1, -7, 2]))
        if not draw(st.integers(0, 4)):
            part.records = draw(st.none() | st.just(b""))
        found.append(part)
    return found


@settings(max_examples=seeds.examples(100))
@given(responses(), st.sampled_from(VERSIONS), st.sampled_from([0, SESSION]), st.sampled_from([0, SESSION]))
def test_responses_without_a_decision_are_taken(
    parts: list[Part], version: int, asked_session: int, session: int
) -> None:
    data = made(*parts, version=version, session=session)
    wants = wants_of(*parts)
    assert check(data, version, wants, asked_session) == judged(data, version, wants, asked_session)[0]


@settings(max_examples=seeds.examples(150))
@given(responses(), st.sampled_from(VERSIONS), st.data())
def test_of_damaged_bytes_nothing_else_is_taken(parts: list[Part], version: int, data: st.DataObject) -> None:
    damaged = bytearray(made(*parts, version=version, session=SESSION))
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.integers(4, len(damaged) - 1))
        if data.draw(st.booleans()):
            damaged[where] ^= 1 << data.draw(st.integers(0, 7))
        else:
            damaged[where] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    check(bytes(damaged), version, wants_of(*parts), data.draw(st.sampled_from([0, SESSION])))


@given(responses(), st.sampled_from(VERSIONS), st.data())
def test_of_a_truncated_response_nothing_is_taken(parts: list[Part], version: int, data: st.DataObject) -> None:
    whole = made(*parts, version=version)
    end = data.draw(st.integers(0, len(whole) - 1))
    assert check(whole[:end], version, wants_of(*parts), 0) == {}
    assert check(whole + b"\0", version, wants_of(*parts), 0) == {}


@settings(max_examples=seeds.examples(100))
@given(messages(FetchResponse, records=st.none() | records().map(lambda pair: pair[1]), unstable=True), st.data())
def test_of_any_response_only_slices_that_the_engine_would_queue_are_taken(
    case: Versioned[FetchResponse], data: st.DataObject
) -> None:
    message, version = case
    keys = [(topic.topic_id.bytes, part.partition_index) for topic in message.responses for part in topic.partitions]
    wants = {key: Wanted(n, data.draw(st.integers(0, 60))) for n, key in enumerate(dict.fromkeys(keys))}
    taken = check(frame_of(message, version), version, wants, 0)
    assert version in VERSIONS or not taken


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_of_any_bytes_that_are_no_response_nothing_is_taken(data: bytes, version: int) -> None:
    check(data, version, {(bytes(16), 0): Wanted(0, 0)}, 0)


# ---- rules


def test_records_are_queued_and_reported(fed: Fed) -> None:
    blob = batch(8, 4, 3) + batch(12, 1, 4)
    taken = fed.deliver(made(Part(partition=1, records=blob + b"the head of another batch")), 17)
    assert taken == {}, "a tail that cannot be a batch is for the engine"
    taken = fed.deliver(made(Part(partition=1, records=blob + batch(13, 1, 5)[:-1])), 17)
    assert taken == {1: (0, 10, 13, 4, len(blob))}
    assert [offset for _, _, offset, _ in fed.rows()] == [10, 11, 12]
    assert fed.fast_path.taken(TOKEN) == {}


@pytest.mark.parametrize(
    "second",
    [
        Part(partition=0, records=batch(0, 2, 0)),
        Part(partition=0, records=None),
        Part(partition=0, error=6),
        Part(partition=7, records=batch(0, 2, 0)),
        Part(topic=IDS[2], records=batch(0, 2, 0)),
    ],
    ids=["twice", "twice, empty", "twice, with an error", "not expected", "of another topic"],
)
def test_of_a_response_that_contradicts_itself_or_the_request_nothing_is_taken(fed: Fed, second: Part) -> None:
    first = Part(partition=0, records=batch(0, 2, 0))
    assert fed.deliver(made(first, second), 17) == {}
    assert fed.deliver(made(second, first), 17) == {}
    assert fed.queue.queued(0) == (0, 0)
    assert list(fed.deliver(made(first, Part(partition=7)), 17)) == [0], "without records it does no harm"


@pytest.mark.parametrize("blob", [batch(0, 1, 0)[:16] + b"\1" + batch(0, 1, 0)[17:], batch(2, 1, 0) + batch(1, 1, 0)])
def test_of_records_that_need_a_look_none_are_taken(fed: Fed, blob: bytes) -> None:
    other = Part(partition=1, records=batch(10, 1, 0))
    assert list(fed.deliver(made(Part(partition=0, records=blob), other), 17)) == [1]


def test_records_from_before_the_offset_asked_for_are_not_taken(fed: Fed) -> None:
    assert fed.deliver(made(Part(partition=1, records=batch(8, 2, 0))), 17) == {}
    assert fed.deliver(made(Part(partition=1, records=batch(8, 3, 0))), 17) != {}


@pytest.mark.parametrize(
    ("sections", "name"),
    [
        ({"before": tagged((9, b"x"))}, "header"),
        ({"partition": tagged((0, EPOCH))}, "diverging epoch"),
        ({"partition": tagged((1, LEADER))}, "leader"),
        ({"partition": tagged((9, b""))}, "unknown"),
        ({"topic": tagged((9, b""))}, "topic"),
        ({"top": tagged((0, b"\2" + NODE))}, "endpoints"),
    ],
)
def test_tagged_fields_are_for_the_engine(fed: Fed, sections: dict[str, bytes], name: str) -> None:
    def build(before: bytes = b"\0", partition: bytes = b"\0", topic: bytes = b"\0", top: bytes = b"\0") -> bytes:
        blob = batch(0, 2, 0)
        size = len(blob) + 1
        entry = struct.pack(">ihqqq", 0, 0, 100, 90, 10) + b"\0" + struct.pack(">i", -1)
        entry += bytes([size & 127 | 128, size >> 7]) + blob
        body = struct.pack(">ihi", 0, 0, 1) + b"\2" + IDS[0].bytes + b"\2" + entry + partition + topic + top
        return struct.pack(">i", 77) + before + body

    assert list(fed.deliver(build(), 17)) == [0]
    fed.fast_path.clear()
    fed.fast_path.expect(IDS[0].bytes, 0, 0, 0, 0, "a broker")
    assert fed.deliver(build(**sections), 17) == {}, name


def test_a_response_with_an_error_of_another_session_or_version_is_not_taken(fed: Fed) -> None:
    part = Part(partition=0, records=batch(0, 2, 0))
    assert fed.deliver(made(part, error=70), 17) == {}
    assert fed.deliver(made(part, session=78), 17, SESSION) == {}
    before, beyond = VERSIONS[0] - 1, VERSIONS[-1] + 1
    assert fed.deliver(made(part, version=before), before) == {}
    assert fed.deliver(made(part, version=VERSIONS[-1]), beyond) == {}
    assert list(fed.deliver(made(part, session=78), 17)) == [0], "a full request opens a session of any number"


def test_null_arrays_are_no_response(fed: Fed) -> None:
    head = struct.pack(">i", 77) + b"\0" + struct.pack(">ihi", 0, 0, 0)
    entry = struct.pack(">ihqqq", 0, 0, 100, 90, 10) + b"\0" + struct.pack(">i", -1) + b"\x80\1"
    blob = bytes(127)
    for data in (
        head + b"\0\0",
        head + b"\2" + IDS[0].bytes + b"\0\0\0",
        head + b"\2" + bytes(16) + b"\2" + entry + blob,
    ):
        assert check(data, 17, fed.wants, 0) == {}
    whole = made(Part(partition=0, records=batch(0, 2, 0)))
    assert whole[15:16] == b"\2"
    more = whole[:15] + b"\3" + whole[16:-1] + IDS[1].bytes + b"\0\0" + b"\0"
    with pytest.raises(ProtocolError):
        parse_response(Buffer(more), 17)
    assert fed.deliver(more, 17) == {}


# ---- tokens and generations


def test_only_the_response_to_the_armed_request_is_taken_and_only_once(fed: Fed) -> None:
    data = Buffer(made(Part(partition=0, records=batch(0, 2, 0))))
    fed.fast_path.deliver(TOKEN, data)
    fed.fast_path.arm(TOKEN, 17)
    fed.fast_path.deliver(TOKEN + 1, data)
    fed.fast_path.deliver(0, data)
    assert fed.queue.queued(0)[0] == 0
    fed.fast_path.deliver(TOKEN, data)
    fed.fast_path.deliver(TOKEN, data)
    assert fed.queue.queued(0)[0] == 1
    assert fed.fast_path.taken(TOKEN + 1) == {}
    assert list(fed.fast_path.taken(TOKEN)) == [0]
    assert fed.fast_path.taken(TOKEN) == {}
    fed.fast_path.arm(0, 17)
    fed.fast_path.deliver(0, data)
    assert fed.queue.queued(0)[0] == 1


def test_a_response_that_comes_after_the_engine_gave_up_is_not_taken(fed: Fed) -> None:
    data = Buffer(made(Part(partition=0, records=batch(0, 2, 0))))
    fed.fast_path.arm(TOKEN, 17)
    assert fed.fast_path.taken(TOKEN - 1) == {}, "of another request: the response to this one may still come"
    fed.fast_path.deliver(TOKEN, data)
    assert list(fed.fast_path.taken(TOKEN)) == [0]
    fed.fast_path.arm(TOKEN + 1, 17)
    assert fed.fast_path.taken(TOKEN + 1) == {}
    fed.fast_path.deliver(TOKEN + 1, data)
    assert fed.queue.queued(0)[0] == 1


def test_records_from_before_a_seek_are_dropped(fed: Fed) -> None:
    generation = fed.queue.reset(0, 40)
    parts = [Part(partition=0, records=batch(0, 2, 0)), Part(partition=1, records=batch(10, 1, 0))]
    taken = fed.deliver(made(*parts), 17)
    assert {number: part[0] for number, part in taken.items()} == {0: 0, 1: 0}, "the engine sees the generation"
    assert fed.queue.queued(0) == (0, 0)
    assert fed.queue.queued(1)[0] == 1
    fed.fast_path.expect(IDS[0].bytes, 0, 0, generation, 40, "a broker")
    assert fed.deliver(made(Part(partition=0, records=batch(40, 1, 0))), 17)[0][0] == generation
    assert fed.queue.queued(0)[0] == 1


def test_an_offset_is_expected_until_another_one_is(fed: Fed) -> None:
    blob = batch(0, 2, 0)
    fed.fast_path.expect(IDS[0].bytes, 0, 0, 0, 1, "b")
    assert fed.deliver(made(Part(partition=0, records=blob)), 17)[0][1] == 1
    fed.fast_path.expect(IDS[0].bytes, 0, 0, 0, 2, "b")
    assert fed.deliver(made(Part(partition=0, records=blob)), 17) == {}


def test_a_forgotten_partition_is_reported_once(fed: Fed) -> None:
    data = made(Part(partition=0, records=batch(0, 2, 5)), Part(partition=1, records=batch(10, 1, 6)))
    assert fed.fast_path.forget(IDS[0].bytes, 2, 2) is None
    assert fed.fast_path.forget(IDS[1].bytes, 0, 9) is None, "never expected"
    fed.fast_path.arm(TOKEN, 17)
    fed.fast_path.deliver(TOKEN, Buffer(data))
    assert fed.fast_path.forget(IDS[0].bytes, 0, 0) == (0, 0, 2, 5, len(batch(0, 2, 5)))
    assert fed.fast_path.forget(IDS[0].bytes, 0, 0) is None
    assert list(fed.fast_path.taken(TOKEN)) == [1]
    assert fed.deliver(made(Part(partition=0, records=batch(0, 2, 5))), 17) == {}, "it is not expected now"


def test_a_cleared_fast_path_takes_nothing(fed: Fed) -> None:
    fed.fast_path.clear()
    assert fed.deliver(made(Part(partition=0, records=batch(0, 2, 0))), 17) == {}
    FetchFastPath(fed.queue).clear()


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_topic_id_has_16_bytes(fed: Fed, size: int) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        fed.fast_path.expect(bytes(size), 0, 0, 0, 0, "b")
    with pytest.raises(ValueError, match="16 bytes"):
        fed.fast_path.forget(bytes(size), 0, 0)
    with pytest.raises(IndexError):
        fed.fast_path.expect(bytes(16), 0, 99, 0, 0, "b")


def test_an_empty_frame_is_nothing(fed: Fed) -> None:
    fed.fast_path.arm(TOKEN, 17)
    assert not fed.fast_path.deliver(TOKEN, Buffer(b""))
    assert fed.fast_path.taken(TOKEN) == {}


# ---- the table


def test_thousands_of_partitions_come_and_go() -> None:
    """The fast path is compared with a dict: growth, forgetting, clearing, slots used again."""
    seed = seeds.of_test()
    chance = random.Random(seed)
    ids = [uuid.UUID(int=chance.getrandbits(128)) for _ in range(3)] + IDS
    fed, expected = Fed(), dict[tuple[uuid.UUID, int], int]()
    numbers = {(topic, n): fed.queue.add("t", n, Layout("t", n)) for topic in ids for n in range(1_000)}
    for key, number in numbers.items():
        fed.fast_path.expect(key[0].bytes, key[1], number, 0, 7, "b")
        expected[key] = 7
    for _ in range(40):
        for key in chance.sample(sorted(numbers), 300):
            if chance.random() < 0.6:
                assert fed.fast_path.forget(key[0].bytes, key[1], numbers[key]) is None
                expected.pop(key, None)
            else:
                expected[key] = chance.randrange(100)
                fed.fast_path.expect(key[0].bytes, key[1], numbers[key], 0, expected[key], "b")
        if chance.random() < 0.05:
            fed.fast_path.clear()
            expected.clear()
        asked = sorted(chance.sample(sorted(numbers), 50))
        known = [key for key in asked if key in expected]
        parts = [Part(*key, records=batch(expected[key], 1, 0)) for key in known]
        parts += [Part(*key) for key in asked if key not in expected]
        taken = fed.deliver(made(*sorted(parts, key=lambda part: part.topic)), 17)
        assert {number: part[1] for number, part in taken.items()} == {numbers[key]: expected[key] for key in known}
        for key in known:
            fed.queue.reset(numbers[key], 0)
            fed.fast_path.forget(key[0].bytes, key[1], numbers[key])
            numbers[key] = fed.queue.add("t", key[1], Layout("t", key[1]))
            del expected[key]
    fed.close()


def test_topics_recreated_for_ever_fill_no_table(fed: Fed) -> None:
    """Slots of those that are gone are used again: else this takes gigabytes, and does not end."""
    for number in range(60_000):
        topic = number.to_bytes(8, "big") * 2
        fed.fast_path.expect(topic, 5, 0, 0, 0, "b")
        fed.fast_path.forget(topic, 5, 0)
    assert list(fed.deliver(made(Part(partition=0, records=batch(0, 1, 0))), 17)) == [0]
