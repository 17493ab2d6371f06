"""The fate of frames: unchanged and in order without a fault, and with each exactly as it says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire import protocol, records
from kafwire.errors import ProtocolError
from kafwire.protocol import FetchRequest, ProduceRequest
from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
    conversation,
)
from kafwire.testing.faults.conversation import Conversation
from kafwire.testing.faults.line import End, Line
from tests.support.fault_stage import Staged, drained, request, response, sized

ONE, TWO, THREE = (request("Metadata", number, b"%d" % number * 9) for number in (1, 2, 3))
FIRST, SECOND, THIRD = (response(number, b"%d" % number * 7) for number in (1, 2, 3))


# -- without faults


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
)
def test_frames_pass_unchanged_however_they_are_cut(bodies: list[bytes], steps: list[int]) -> None:
    staged = Staged(Rule(Reset(), api="EndTxn"))
    asked = b"".join(request("Metadata", number, body) for number, body in enumerate(bodies))
    responded = b"".join(response(number, body) for number, body in enumerate(bodies))
    for data, way in ((asked, staged.say), (responded, staged.reply)):
        at = turn = 0
        while at < len(data):
            step = steps[turn % len(steps)]
            way(data[at : at + step])
            at, turn = at + step, turn + 1
    assert (staged.sent, staged.received) == (asked, responded)
    assert [(each.api, each.version, each.correlation_id, each.client_id) for each in staged.occasions] == [
        ("Metadata", 4, number, "me") for number in range(len(bodies))
    ]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x16\x03\x01\x02\x00" + bytes(40), id="TLS"),
        pytest.param(b"\xff\xff\xff\xff" + bytes(20), id="negative size"),
        pytest.param(sized(b"token"), id="a token of SASL"),
        pytest.param(sized(b""), id="nothing"),
        pytest.param(sized(b"\x7f\xff" + bytes(30)), id="no API"),
    ],
)
def test_bytes_that_are_no_request_pass(data: bytes) -> None:
    staged = Staged(Rule(Reset()))
    staged.say(data[:3])
    staged.say(data[3:])
    staged.reply(data)
    assert (staged.sent, staged.received) == (data, data)
    assert not staged.occasions


def test_a_client_without_a_name_is_known_as_none() -> None:
    staged = Staged()
    staged.say(request("Fetch", 1, client_id=None))
    assert staged.occasions[0].client_id is None


def test_an_incomplete_frame_when_a_side_ends_is_passed_on() -> None:
    staged = Staged()
    staged.say(ONE + TWO[:5])
    staged.talk.client_ended(gone=False)
    staged.reply(FIRST + SECOND[:6])
    staged.talk.broker_ended(End.CLOSE)
    staged.pass_on(0)
    assert (staged.sent, staged.broker_end) == (ONE + TWO[:5], End.CLOSE)
    assert (staged.received, staged.client_end) == (FIRST + SECOND[:6], End.CLOSE)


def test_a_client_that_has_sent_all_still_gets_responses() -> None:
    staged = Staged()
    staged.say(ONE)
    staged.talk.client_ended(gone=False)
    staged.pass_on(0)
    assert staged.broker_end is End.CLOSE
    staged.reply(FIRST)
    assert staged.received == FIRST


def test_bytes_to_a_closed_side_are_not_kept() -> None:
    staged = Staged(Rule(Reset()))
    staged.say(ONE[:-1])
    staged.talk.client_ended(gone=True)
    staged.pass_on(0.0)
    before = weigh(staged.talk)
    for _ in range(100):
        staged.say(TWO)
        staged.reply(SECOND)
    assert weigh(staged.talk) == before
    assert staged.received == b""


def weigh(talk: Conversation) -> int:
    assert talk._requests is not None
    assert talk._responses is not None
    return len(talk._requests.buffer) + len(talk._responses.buffer) + talk.to_broker.size + talk.to_client.size


def test_a_reset_by_the_broker_comes_after_its_bytes() -> None:
    staged = Staged()
    staged.talk.from_broker(FIRST, 0)
    staged.talk.broker_ended(End.RESET)
    staged.pass_on(0)
    assert (staged.received, staged.client_end) == (FIRST, End.RESET)


# -- faults of requests


def test_a_delayed_request_holds_those_behind_it() -> None:
    staged = Staged(Rule(Delay(0.5, "request"), count=1, skip=1))
    staged.say(ONE + TWO + THREE, 10.0)
    assert staged.sent == ONE
    assert staged.talk.to_broker.wake() == 10.5
    staged.pass_on(10.4)
    assert staged.sent == ONE
    staged.pass_on(10.5)
    assert staged.sent == ONE + TWO + THREE
    assert staged.events == [(10.0, "Metadata", Delay(0.5, "request"))]


def test_a_delayed_request_arrives_although_its_client_is_gone() -> None:
    staged = Staged(Rule(Delay(0.5, "request")))
    staged.say(ONE)
    staged.talk.client_ended(gone=True)
    staged.pass_on(0.4)
    assert (staged.sent, staged.broker_end) == (b"", None)
    staged.pass_on(0.5)
    assert (staged.sent, staged.broker_end) == (ONE, End.CLOSE)


def test_a_held_request_arrives_when_the_client_has_long_been_reset() -> None:
    staged = Staged(Rule(Hold(2.0), skip=1))
    staged.say(ONE + TWO + THREE)
    assert (staged.sent, staged.received, staged.client_end) == (ONE, b"", End.RESET)
    staged.reply(FIRST)  # to a closed connection
    staged.pass_on(2.0)
    assert (staged.sent, staged.broker_end, staged.received) == (ONE + TWO, End.CLOSE, b"")


def test_a_reset_comes_before_the_broker_knows() -> None:
    staged = Staged(Rule(Reset(), skip=1))
    staged.say(ONE + TWO + THREE)
    assert (staged.sent, staged.broker_end, staged.client_end) == (ONE, End.CLOSE, End.RESET)
    staged.say(THREE)
    assert staged.sent == ONE


@pytest.mark.parametrize(("part", "size"), [(0.0, 1), (0.5, len(TWO) // 2), (math.nextafter(1, 0), len(TWO) - 1)])
@pytest.mark.parametrize("reset", [False, True])
def test_a_request_is_cut(part: float, size: int, reset: bool) -> None:
    staged = Staged(Rule(Cut(part, "request", reset), skip=1))
    staged.say(ONE + TWO + THREE)
    assert (staged.sent, staged.broker_end) == (ONE + TWO[:size], End.CLOSE)
    assert staged.client_end is (End.RESET if reset else End.CLOSE)


# -- faults of responses


def test_a_delayed_response_holds_those_behind_it() -> None:
    staged = Staged(Rule(Delay(0.5), count=1))
    staged.say(ONE + TWO)
    staged.reply(FIRST + SECOND, 10.0)
    assert (staged.sent, staged.received) == (ONE + TWO, b"")
    staged.pass_on(10.5)
    assert staged.received == FIRST + SECOND


@pytest.mark.parametrize("reset", [True, False])
def test_a_response_is_dropped_when_its_request_was_done(reset: bool) -> None:
    staged = Staged(Rule(DropResponse(reset), count=1))
    staged.say(ONE + TWO)
    assert staged.sent == ONE + TWO
    assert not staged.events
    staged.reply(FIRST + SECOND, 3.0)
    assert staged.events == [(3.0, "Metadata", DropResponse(reset))]
    assert staged.received == (b"" if reset else SECOND)
    assert staged.client_end is (End.RESET if reset else None)


@pytest.mark.parametrize(("part", "size"), [(0.0, 1), (0.5, len(FIRST) // 2), (math.nextafter(1, 0), len(FIRST) - 1)])
@pytest.mark.parametrize("reset", [False, True])
def test_a_response_is_cut(part: float, size: int, reset: bool) -> None:
    staged = Staged(Rule(Cut(part, reset=reset), count=1))
    staged.say(ONE + TWO)
    staged.reply(FIRST + SECOND)
    assert (staged.received, staged.client_end) == (FIRST[:size], End.RESET if reset else End.CLOSE)
    assert staged.broker_end is End.CLOSE


def test_a_response_comes_twice() -> None:
    staged = Staged(Rule(Duplicate(), count=1))
    staged.say(ONE + TWO)
    staged.reply(FIRST + SECOND)
    assert staged.received == FIRST + FIRST + SECOND


def test_a_request_comes_twice_and_gets_one_response() -> None:
    staged = Staged(Rule(Duplicate("request"), count=1))
    staged.say(ONE + TWO)
    assert staged.sent == ONE + ONE + TWO
    assert staged.events == [(0, "Metadata", Duplicate("request"))]
    staged.reply(FIRST)
    assert staged.received == FIRST
    staged.reply(FIRST + SECOND)
    assert staged.received == FIRST + SECOND


def test_a_request_that_came_twice_gets_one_response_after_a_pardon() -> None:
    staged = Staged(Rule(Duplicate("request"), count=1))
    staged.say(ONE + TWO)
    staged.talk.pardon()
    staged.reply(FIRST + FIRST + SECOND)
    assert staged.received == FIRST + SECOND


def test_a_request_that_came_twice_without_any_response_leaves_the_others_theirs() -> None:
    """Requests with acks=0 have no responses."""
    staged = Staged(Rule(Duplicate("request"), count=1))
    staged.say(ONE + TWO)
    staged.reply(SECOND)
    assert staged.received == SECOND


def test_a_response_is_overtaken() -> None:
    staged = Staged(Rule(Reorder(1.0), count=1))
    staged.say(ONE + TWO + THREE)
    staged.reply(FIRST, 5.0)
    assert (staged.received, staged.talk.due) == (b"", 6.0)
    staged.reply(SECOND + THIRD, 5.5)
    assert staged.received == SECOND + FIRST + THIRD
    assert staged.events == [(5.5, "Metadata", Reorder(1.0))]
    assert staged.talk.due is None


def test_a_response_that_nothing_overtakes_is_late() -> None:
    staged = Staged(Rule(Reorder(1.0), count=1))
    staged.say(ONE)
    staged.reply(FIRST, 5.0)
    staged.pass_on(5.9)
    assert staged.received == b""
    staged.pass_on(6.0)
    assert staged.received == FIRST
    assert staged.events == [(6.0, "Metadata", Delay(1.0))]


def test_of_two_that_are_to_be_overtaken_one_is() -> None:
    staged = Staged(Rule(Reorder(1.0)))
    staged.say(ONE + TWO)
    staged.reply(FIRST + SECOND)
    assert staged.received == SECOND + FIRST
    assert len(staged.events) == 1
    assert staged.given_back == 1


def test_a_response_that_was_to_be_overtaken_by_one_that_never_comes() -> None:
    staged = Staged(Rule(Reorder(1.0), count=1), Rule(DropResponse()))
    staged.say(ONE + TWO)
    staged.reply(FIRST + SECOND)
    assert (staged.received, staged.client_end) == (b"", End.RESET)
    assert [fault for _, _, fault in staged.events] == [DropResponse()]
    assert staged.given_back == 1


def test_a_kept_response_is_the_client_s_when_the_broker_ends() -> None:
    staged = Staged(Rule(Reorder(1.0)))
    staged.say(ONE)
    staged.reply(FIRST)
    staged.talk.broker_ended(End.CLOSE)
    staged.pass_on(0)
    assert (staged.received, staged.client_end) == (FIRST, End.CLOSE)
    assert not staged.events
    assert staged.given_back == 1


# -- which response is whose


def test_a_request_without_a_response_leaves_its_fault_to_another() -> None:
    """The first has no response (acks=0), so its fault was not played, and the rule meets a third instead."""
    staged = Staged(Rule(Duplicate(), count=1))
    staged.say(ONE + TWO)
    staged.reply(SECOND)
    assert staged.received == SECOND
    assert staged.given_back == 1
    staged.say(THREE)
    staged.reply(THIRD)
    assert staged.received == SECOND + THIRD + THIRD


def test_requests_without_responses_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "REMEMBERED", 2)
    staged = Staged(Rule(Duplicate(), count=1))
    staged.say(ONE + TWO)
    assert staged.given_back == 0
    staged.say(THREE)
    assert staged.given_back == 1
    staged.reply(FIRST + SECOND)  # the first is forgotten
    assert staged.received == FIRST + SECOND


@pytest.mark.parametrize("ending", ["client", "broker", "reset"])
def test_responses_that_never_come_leave_their_faults_to_others(ending: str) -> None:
    staged = Staged(Rule(Reset(), api="EndTxn"), Rule(DropResponse()))
    staged.say(ONE + TWO)
    if ending == "client":
        staged.talk.client_ended(gone=True)
    elif ending == "broker":
        staged.talk.broker_ended(End.CLOSE)
    else:
        staged.say(request("EndTxn", 9))
    assert staged.given_back == 2


def test_a_response_to_no_request_passes() -> None:
    staged = Staged(Rule(DropResponse()))
    staged.say(ONE)
    staged.reply(response(99))
    assert staged.received == response(99)
    staged.reply(FIRST)
    assert staged.client_end is End.RESET


def test_pardoned_responses_pass() -> None:
    staged = Staged(Rule(Reorder(9.0), count=1), Rule(DropResponse()))
    staged.say(ONE + TWO)
    staged.reply(FIRST)
    staged.talk.pardon()
    staged.reply(SECOND)
    assert staged.received == FIRST + SECOND


# -- damage


def batches(count: int = 2) -> bytes:
    return b"".join(records.encode_batch([b"value-%d" % number] * 3) for number in range(count))


def produce(version: int, blobs: list[bytes | None]) -> bytes:
    cls = protocol.ProduceRequest
    parts = [cls.PartitionProduceData(index=index, records=blob) for index, blob in enumerate(blobs)]
    topics = [cls.TopicProduceData(name="t" if version < 13 else "", partition_data=parts)]
    return sized(protocol.encode_request(cls(acks=-1, topic_data=topics), version, 1, "me"))


def fetched(version: int, blobs: list[bytes | None]) -> bytes:
    cls = protocol.FetchResponse
    parts = [cls.PartitionData(partition_index=index, records=blob) for index, blob in enumerate(blobs)]
    topics = [cls.FetchableTopicResponse(topic="t" if version < 13 else "", partitions=parts)]
    head = b"\0\0\0\1" + (b"\0" if version >= cls.flexible_from else b"")
    return sized(head + cls(responses=topics).encode(version))


def unreadable(blobs: list[bytes]) -> int:
    """How many are refused for their checksums; nothing else may be wrong."""
    found = 0
    for blob in blobs:
        try:
            records.decode_batches(blob)
        except ProtocolError as error:
            assert "CRC" in str(error)
            found += 1
    return found


@pytest.mark.parametrize("version", range(ProduceRequest.min_version, ProduceRequest.max_version + 1))
@pytest.mark.parametrize("spot", [0.0, 0.3, 0.5, 0.999999])
def test_checksums_see_damage_to_produced_records(version: int, spot: float) -> None:
    frame = produce(version, [batches(), None, batches(1)])
    staged = Staged(Rule(Corrupt("request", spot=spot, mask=0x40)))
    staged.say(frame)
    assert len(staged.sent) == len(frame)
    assert sum(a != b for a, b in zip(frame, staged.sent, strict=True)) == 1
    header = protocol.RequestHeader.plan(2 if version >= 9 else 1)
    _, used = header.decode_prefix(staged.sent[4:])
    topics = protocol.ProduceRequest.decode(staged.sent[4 + used :], version).topic_data
    assert unreadable([bytes(part.records) for part in topics[0].partition_data if part.records]) == 1


def test_all_records_of_a_request_can_be_damaged() -> None:
    """Those that are there twice, too."""
    frame = produce(9, [batches(1), batches(1)])
    half = frame.rindex(batches(1))
    sides = set()
    for step in range(10):
        staged = Staged(Rule(Corrupt("request", spot=step / 10, mask=1)))
        staged.say(frame)
        (at,) = (at for at, pair in enumerate(zip(frame, staged.sent, strict=True)) if pair[0] != pair[1])
        sides.add(at >= half)
    assert sides == {False, True}


def test_damage_makes_no_sequence_negative() -> None:
    """Brokers would call that one out of order, whatever its checksum."""
    batch = batches(1)
    frame, covered = produce(9, [batch]), len(batch) - 21
    for place in range(covered):
        for mask in (0x80, 0xFF):
            staged = Staged(Rule(Corrupt("request", spot=(place + 0.5) / covered, mask=mask)))
            staged.say(frame)
            changed = {at: pair[0] ^ pair[1] for at, pair in enumerate(zip(frame, staged.sent, strict=True))}
            begin = frame.index(batch) + 21
            expected = mask if place != 32 else mask & 0x7F or 1
            assert {at - begin: by for at, by in changed.items() if by} == {place: expected}


@pytest.mark.parametrize("version", range(FetchRequest.min_version, FetchRequest.max_version + 1))
@pytest.mark.parametrize("spot", [0.0, 0.5, 0.999999])
def test_checksums_see_damage_to_fetched_records(version: int, spot: float) -> None:
    frame = fetched(version, [b"", batches(3)[:-20], None])  # a broker cuts the last batch off
    staged = Staged(Rule(Corrupt(spot=spot)))
    staged.say(request("Fetch", 1, version=version))
    staged.reply(frame)
    assert sum(a != b for a, b in zip(frame, staged.received, strict=True)) == 1
    _, message = protocol.decode_response(protocol.FetchRequest, staged.received[4:], version)
    whole = len(batches(2))
    assert unreadable([bytes(part.records)[:whole] for part in message.responses[0].partitions if part.records]) == 1


def test_damage_waits_for_records() -> None:
    staged = Staged(Rule(Corrupt(), count=1))
    empty, full = fetched(4, [b""]), fetched(4, [batches()])
    staged.say(request("Fetch", 1))
    staged.reply(empty)
    assert staged.received == empty
    assert not staged.events
    staged.say(request("Fetch", 1))
    staged.reply(full)
    assert staged.received not in (empty, empty + full)
    assert len(staged.events) == 1


def test_damage_anywhere_spares_the_size_alone() -> None:
    places = set()
    for seed in range(300):
        staged = Staged(Rule(Corrupt(where="anywhere")), seed=seed)
        staged.say(ONE)
        staged.reply(FIRST)
        (at,) = (at for at, pair in enumerate(zip(FIRST, staged.received, strict=True)) if pair[0] != pair[1])
        places.add(at)
    assert places == set(range(4, len(FIRST)))


# -- conditions of a connection


@pytest.mark.parametrize("way", ["request", "response", "both"])
def test_a_black_hole_swallows_from_its_request_on_and_gives_back_at_its_end(way: str) -> None:
    staged = Staged(Rule(BlackHole(way, seconds=2.0), count=1, skip=1))  # type: ignore[arg-type]
    staged.say(ONE, 1.0)
    staged.reply(FIRST, 1.0)
    staged.say(TWO, 1.0)
    assert staged.sent == ONE + (TWO if way == "response" else b"")
    staged.reply(SECOND, 1.5)
    assert staged.received == FIRST + (SECOND if way == "request" else b"")
    staged.talk.client_ended(gone=False)
    staged.pass_on(2.9)
    assert (staged.broker_end is None) == (way != "response")
    staged.pass_on(3.0)
    assert (staged.sent, staged.received) == (ONE + TWO, FIRST + SECOND)
    assert staged.broker_end is End.CLOSE


def test_frames_before_a_black_hole_go_on() -> None:
    """Frames that came in one piece with its request, and those that are late."""
    staged = Staged(Rule(Delay(1.0, "request"), count=1), Rule(BlackHole("request"), count=1, skip=1))
    staged.say(ONE + TWO + THREE)
    staged.pass_on(0.9)
    assert staged.sent == b""
    staged.pass_on(1.0)
    assert staged.sent == ONE + TWO
    staged.pass_on(1e9)
    assert staged.sent == ONE + TWO
    staged.talk.heal()
    staged.pass_on(1e9)
    assert staged.sent == ONE + TWO + THREE


def test_a_second_black_hole_lets_nothing_out_of_the_first() -> None:
    staged = Staged(Rule(BlackHole("request"), skip=1))
    staged.say(ONE + TWO + THREE)
    assert staged.sent == ONE
    staged.say(THREE)
    assert staged.sent == ONE


def test_a_black_hole_without_an_end_lasts_until_it_is_healed() -> None:
    staged = Staged(Rule(BlackHole()))
    staged.say(ONE)
    staged.reply(FIRST)
    assert staged.talk.to_broker.wake() is None
    assert staged.talk.to_client.wake() is None
    staged.pass_on(1e9)
    assert (staged.sent, staged.received) == (b"", b"")
    staged.talk.heal()
    staged.pass_on(1e9)
    assert (staged.sent, staged.received) == (ONE, FIRST)


def test_faults_of_the_broker_are_the_stage_s() -> None:
    faults = (Refuse(2.0), BlackHole(scope="broker"), Throttle(10, scope="broker"))
    staged = Staged(*(Rule(fault, count=1) for fault in faults))
    staged.say(ONE + TWO + THREE)
    assert staged.spreads == [(fault, 3) for fault in faults]
    assert staged.sent == ONE + TWO + THREE


@pytest.mark.parametrize("fault", [Reset(), BlackHole(), Throttle(10.0)])
def test_new_connections_are_met(fault: Reset | BlackHole | Throttle) -> None:
    staged = Staged(Rule(fault, api=CONNECT))
    staged.talk.open(0.0)
    staged.say(ONE)
    assert staged.events == [(0.0, CONNECT, fault)]
    if isinstance(fault, Reset):
        assert (staged.sent, staged.client_end, staged.broker_end) == (b"", End.RESET, End.CLOSE)
    else:
        assert len(staged.sent) == (0 if isinstance(fault, BlackHole) else 1)
        assert staged.client_end is None


def test_a_fault_of_frames_cannot_be_imposed() -> None:
    with pytest.raises(TypeError, match="aim it with a Rule"):
        Staged().talk.impose(Delay(1.0), 0.0)


# -- lines


@given(
    st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=5),
    st.floats(10.0, 1e6),
    st.floats(0.1, 1.0),
)
def test_a_throttled_line_is_as_fast_as_it_says(pieces: list[bytes], rate: float, fullness: float) -> None:
    """Every time it wakes some of what it gives is taken; never more than the rate has allowed since the begin."""
    line = Line()
    line.throttle(rate, math.inf)
    for data in pieces:
        line.put(data)
    size, out, now = line.size, b"", 50.0
    while line.size:
        wake = line.wake()
        assert wake is not None
        now = max(now, wake)
        piece = line.take(now)
        assert isinstance(piece, memoryview)
        some = max(1, int(len(piece) * fullness))
        out += piece[:some]
        line.sent(some, now)
        assert len(out) <= 1 + rate * (now - 50.0 + 0.0401)
    assert out == b"".join(pieces)
    assert now - 50.0 == pytest.approx(size / rate, abs=0.0401 + 1 / rate)


def test_a_throttle_ends() -> None:
    line = Line()
    line.throttle(100.0, 1.0)
    line.put(bytes(1000))
    now, out = 0.0, 0
    while now < 1.0:
        out += len(drained(line, now)[0])
        wake = line.wake()
        assert wake is not None
        now = wake
    assert 98 <= out <= 104
    assert now == 1.0
    assert len(drained(line, now)[0]) == 1000 - out


def test_nothing_comes_behind_an_end() -> None:
    line = Line()
    line.put(b"a")
    line.end()
    line.end(End.RESET)
    line.put(b"b")
    assert line.size == 1
    assert drained(line, 0.0) == (b"a", End.CLOSE)
    assert line.take(1e9) is None


def test_a_reset_overtakes_bytes_on_their_way() -> None:
    line = Line()
    line.put(b"a", 5.0)
    line.darken(0.0, 9.0)
    line.drop(End.RESET)
    assert drained(line, 0.0) == (b"", End.RESET)
    assert line.size == 0
