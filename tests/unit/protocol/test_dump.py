"""The two directions of a connection: pairing, whatever the order and the cuts; SASL tokens; hostile streams."""

import tracemalloc
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.protocol import (
    MESSAGES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
    decode_response,
    encode_request,
)
from kafwire.protocol.dump import (
    CLIENT,
    SERVER,
    Dump,
    Event,
    Incomplete,
    RequestFrame,
    ResponseFrame,
    Side,
    Token,
    WithoutResponse,
    read_request,
    read_response,
    requests_by_key,
)
from kafwire.protocol.header import ResponseHeader
from tests.support.message_samples import samples

Handshake: Any = MESSAGES["SaslHandshakeRequest"]


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def ask(message: Request[Response], version: int, correlation_id: int) -> bytes:
    return sized(encode_request(message, version, correlation_id, "me"))


def response_frame(message: Response, version: int, correlation_id: int) -> bytes:
    flexible = version >= message.flexible_from and message.api_key != 18
    return sized(ResponseHeader(correlation_id=correlation_id).encode(int(flexible)) + message.encode(version))


def read(client: bytes, server: bytes, *, chunk: int = 1 << 16, **options: Any) -> list[Event]:
    """Feed the wanted side, `chunk` bytes at a time."""
    dump = Dump(**options)
    left = {CLIENT: client, SERVER: server}
    events: list[Event] = []
    while dump.wanted is not None:
        side: Side = dump.wanted
        data, left[side] = left[side][:chunk], left[side][chunk:]
        if data:
            dump.feed(side, data)
        else:
            dump.end(side)
        events += dump.events()
    return events


def kinds(events: Sequence[Event]) -> str:
    """A letter each: Request, response (A), Token of the client or the Server, Unanswered, Incomplete; ! for errors."""
    letters = {RequestFrame: "R", ResponseFrame: "A", WithoutResponse: "U", Incomplete: "I"}
    text = ""
    for event in events:
        text += ("T" if event.side == CLIENT else "S") if isinstance(event, Token) else letters[type(event)]
        text += "!" if getattr(event, "error", None) else ""
    return text


CLIENT_BYTES = (
    ask(ApiVersionsRequest(), 4, 1)
    + ask(MetadataRequest(), 12, 2)
    + ask(ProduceRequest(acks=0), 9, 3)
    + ask(ProduceRequest(acks=-1), 9, 4)
)
SERVER_BYTES = (
    response_frame(ApiVersionsResponse(), 4, 1)
    + response_frame(MetadataResponse(cluster_id="x"), 12, 2)
    + response_frame(ProduceResponse(throttle_time_ms=5), 9, 4)
)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 1 << 16])
def test_responses_follow_their_requests_however_the_streams_are_cut(chunk: int) -> None:
    events = read(CLIENT_BYTES, SERVER_BYTES, chunk=chunk)
    assert kinds(events) == "RARARRA"
    responses = [event for event in events if isinstance(event, ResponseFrame)]
    assert [event.correlation_id for event in responses] == [1, 2, 4]
    assert all(event.request and event.request.correlation_id == event.correlation_id for event in responses)
    metadata = responses[1].message
    assert isinstance(metadata, MetadataResponse)
    assert metadata.cluster_id == "x"
    requests = [event for event in events if isinstance(event, RequestFrame)]
    assert [event.position for event in requests] == [
        0,
        *[CLIENT_BYTES.index(event.data) - 4 for event in requests[1:]],
    ]
    assert requests[0].header is not None
    assert requests[0].header.client_id == "me"


@given(st.data())
def test_bytes_that_are_not_wanted_yet_wait(data: st.DataObject) -> None:
    """A live connection has such bytes: both sides are fed when they come."""
    dump = Dump()
    events: list[Event] = []
    left = {CLIENT: CLIENT_BYTES, SERVER: SERVER_BYTES}
    while left[CLIENT] or left[SERVER]:
        side: Side = data.draw(st.sampled_from([side for side in (CLIENT, SERVER) if left[side]]))
        count = data.draw(st.integers(1, 80))
        dump.feed(side, left[side][:count])
        left[side] = left[side][count:]
        events += dump.events()
    dump.end(CLIENT)
    dump.end(SERVER)
    events += dump.events()
    assert kinds(events) == "RARARRA"
    assert dump.wanted is None


def test_the_response_to_an_unknown_version_of_api_versions() -> None:
    refused = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)])
    asked = sized(b"\x00\x12\x00\x63\x00\x00\x00\x01\x00\x02me\x00\x01\x01")
    events = read(
        asked + ask(ApiVersionsRequest(), 3, 2),
        response_frame(refused, 0, 1) + response_frame(ApiVersionsResponse(), 3, 2),
    )
    assert kinds(events) == "R!ARA"
    request, refusal = events[0], events[1]
    assert isinstance(request, RequestFrame)
    assert request.request_class is ApiVersionsRequest
    assert request.header is not None
    assert request.header.client_id == "me"
    assert "version 99 does not exist" in str(request.error)
    assert isinstance(refusal, ResponseFrame)
    assert (refusal.version, refusal.message) == (0, refused)


def test_a_response_of_a_refused_version_that_is_in_no_version() -> None:
    """Only the code is decoded, as in `decode_response`, and the response is no error."""
    for response in ("0000000700230100120000000200000000", "000000070023"):
        frame = read_response(bytes.fromhex(response), ApiVersionsRequest, 3)
        assert (frame.version, frame.error, frame.correlation_id) == (None, None, 7)
        expected = decode_response(ApiVersionsRequest, bytes.fromhex(response), 3)[1]
        assert frame.message == expected == ApiVersionsResponse(error_code=35)


def test_frames_that_are_no_message_do_not_end_the_reading() -> None:
    client = sized(b"\x03\xe7\x00\x00\x00\x00\x00\x01") + sized(b"\0") + ask(MetadataRequest(), 1, 3)
    server = sized(b"\x00\x00\x00\x01??") + response_frame(MetadataResponse(), 1, 3)
    events = read(client, server)
    assert kinds(events) == "R!A!R!RA"
    assert "no API has the key 999" in str(getattr(events[0], "error", None))


def test_left_over_bytes_are_an_error_of_their_frame() -> None:
    request = ask(MetadataRequest(), 1, 1)
    longer = sized(request[4:] + b"\0")
    events = read(
        longer + ask(MetadataRequest(), 1, 2),
        response_frame(MetadataResponse(), 1, 1) + response_frame(MetadataResponse(), 1, 2),
    )
    assert kinds(events) == "R!ARA"
    assert "1 bytes are left over" in str(getattr(events[0], "error", None))


def test_a_dump_that_begins_later_on_one_side() -> None:
    early = [response_frame(MetadataResponse(), 1, number) for number in (4, 5)]
    client = ask(MetadataRequest(), 1, 6) + ask(MetadataRequest(), 1, 7)
    server = b"".join(early) + response_frame(MetadataResponse(), 1, 6) + response_frame(MetadataResponse(), 1, 7)
    assert kinds(read(client, server)) == "RA!A!ARA"
    assert kinds(read(client, response_frame(MetadataResponse(), 1, 7))) == "RURA"
    around = ask(MetadataRequest(), 1, 2**31 - 1) + ask(MetadataRequest(), 1, -(2**31))
    assert kinds(read(around, response_frame(MetadataResponse(), 1, -(2**31)))) == "RURA"


def test_ends() -> None:
    assert kinds(read(b"", b"")) == ""
    assert kinds(read(CLIENT_BYTES, b"")) == "RURURRU"
    assert kinds(read(b"", SERVER_BYTES)) == "A!A!A!"
    cut = read(CLIENT_BYTES[:-3], SERVER_BYTES[:-2])
    assert kinds(cut) == "RARARII"
    client, server = cut[-2:]
    assert isinstance(client, Incomplete)
    assert isinstance(server, Incomplete)
    last = len(ask(ProduceRequest(acks=-1), 9, 4))
    assert (client.side, client.position) == (CLIENT, len(CLIENT_BYTES) - last)
    assert (client.size, client.expected) == (last - 4 - 3, last - 4)
    assert server.side == SERVER
    (short,) = read(b"\0\0", b"")
    assert short == Incomplete(side=CLIENT, position=0, size=0, expected=None)


def handshake(mechanism: str, correlation_id: int = 1) -> tuple[bytes, bytes]:
    response = Handshake.response(mechanisms=[mechanism])
    return ask(Handshake(mechanism=mechanism), 0, correlation_id), response_frame(response, 0, correlation_id)


@pytest.mark.parametrize("chunk", [1, 5, 1 << 16])
@pytest.mark.parametrize(
    ("client_tokens", "server_tokens", "expected"),
    [
        ([b"\0me\0secret"], [b""], "RATSRA"),
        ([b"n,,n=me,r=abc", b"c=biws,r=abcdef,p=x"], [b"r=abcdef,s=QQ==,i=4096", b"v=AAAA"], "RATSTSRA"),
        # the last token of GSSAPI has no response
        ([b"\x60\x82\x01", b"\x05\x04\x01"], [b"\x60\x83\x02"], "RATSTRA"),
    ],
)
def test_tokens_after_a_handshake_of_version_0(
    client_tokens: list[bytes], server_tokens: list[bytes], expected: str, chunk: int
) -> None:
    question, reply = handshake("ANY")
    client = question + b"".join(map(sized, client_tokens)) + ask(MetadataRequest(), 1, 2)
    server = reply + b"".join(map(sized, server_tokens)) + response_frame(MetadataResponse(), 1, 2)
    events = read(client, server, chunk=chunk)
    assert kinds(events) == expected
    assert [event.data for event in events if isinstance(event, Token) and event.side == CLIENT] == client_tokens
    assert [event.data for event in events if isinstance(event, Token) and event.side == SERVER] == server_tokens


def test_tokens_end_with_the_first_request_even_without_a_response() -> None:
    question, reply = handshake("ANY")
    unreadable = sized(b"\0me\0secret")
    assert kinds(read(question + unreadable, reply)) == "RAT"
    events = read(question + ask(ProduceRequest(acks=0), 9, 1) + unreadable, reply)
    assert kinds(events) == "RARR!U"


def test_a_handshake_that_is_refused_begins_no_tokens() -> None:
    question, _ = handshake("NONE")
    reply = response_frame(Handshake.response(error_code=33), 0, 1)
    assert kinds(read(question + sized(b"\0me\0secret"), reply)) == "RAR!U"


def test_version_1_of_the_handshake_is_followed_by_requests() -> None:
    authenticate: Any = MESSAGES["SaslAuthenticateRequest"]
    client = ask(Handshake(mechanism="PLAIN"), 1, 1) + ask(authenticate(auth_bytes=b"\0me\0secret"), 2, 2)
    server = response_frame(Handshake.response(), 1, 1) + response_frame(authenticate.response(), 2, 2)
    assert kinds(read(client, server)) == "RARA"


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"\x16\x03\x01\x02\x00", "TLS handshake"),
        (b"\x17\x03\x03\x02\x00", "TLS records"),
        (b"HTTP/1.1", "this is HTTP"),
        (b"\xff\xff\xff\xff", "a size of -1 bytes"),
        (b"\x7f\x00\x00\x00", "the limit is 104857600; does the stream begin where the connection did"),
    ],
)
def test_a_size_that_no_frame_has(start: bytes, hint: str) -> None:
    first = ask(MetadataRequest(), 1, 1)
    with pytest.raises(ProtocolError, match=hint) as caught:
        read(first + start, response_frame(MetadataResponse(), 1, 1))
    assert caught.value.offset == len(first)


def test_the_limit_of_a_frame() -> None:
    request = ask(MetadataRequest(), 1, 1)
    assert kinds(read(request, b"", max_frame_bytes=len(request) - 4)) == "RU"
    with pytest.raises(ProtocolError, match="the limit is"):
        read(request, b"", max_frame_bytes=len(request) - 5)


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 50), st.data())
def test_any_bytes_give_events_or_a_protocol_error(
    client: bytes, server: bytes, chunk: int, data: st.DataObject
) -> None:
    pieces = [CLIENT_BYTES, SERVER_BYTES, *handshake("PLAIN"), sized(client), sized(server), client, server, b""]
    one = b"".join(data.draw(st.lists(st.sampled_from(pieces), max_size=4)))
    other = b"".join(data.draw(st.lists(st.sampled_from(pieces), max_size=4)))
    try:
        events = read(one, other, chunk=chunk)
    except ProtocolError as error:
        assert error.offset is not None
        return
    for event in events:
        if isinstance(event, RequestFrame | ResponseFrame):
            assert (event.message is None) <= (event.error is not None)


def test_damaged_streams_give_events_or_a_protocol_error() -> None:
    random = Random(20)
    for _ in range(500):
        streams = [bytearray(CLIENT_BYTES), bytearray(SERVER_BYTES)]
        for stream in streams:
            for _ in range(random.randint(0, 3)):
                stream[random.randrange(len(stream))] = random.randrange(256)
        try:
            read(bytes(streams[0]), bytes(streams[1]))
        except ProtocolError as error:
            assert error.offset is not None


def test_memory_is_that_of_a_frame_not_of_the_stream() -> None:
    data = ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t" * 30000)]), 1, 1)
    dump = Dump(max_frame_bytes=1 << 16)
    tracemalloc.start()
    count = 0
    for _ in range(2000):  # 60 MB
        dump.feed(CLIENT, data)
        dump.feed(SERVER, response_frame(MetadataResponse(), 1, 1))
        count += sum(1 for _ in dump.events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4000
    assert peak < 2 << 20


def test_every_api_is_found_by_its_key() -> None:
    assert len(requests_by_key()) == sum(name.endswith("Request") for name in MESSAGES)
    assert requests_by_key()[3] is MetadataRequest


def test_single_frames_never_raise() -> None:
    assert "8 bytes of header; there are 0" in str(read_request(b"").error)
    assert read_response(b"\0", MetadataRequest, 1).error is not None
    for size in range(4):
        assert read_response(bytes(size), MetadataRequest, 1).correlation_id is None
    bare = read_response(b"\0\0\0\1", MetadataRequest, 99)
    assert bare.error is not None
    assert bare.correlation_id == 1
    frame = read_response(response_frame(MetadataResponse(), 12, 9)[4:], MetadataRequest, 12)
    assert (frame.correlation_id, frame.error, frame.message) == (9, None, MetadataResponse())


REMOVED = [
    (cls, version) for cls in requests_by_key().values() for version in range(cls.oldest_version, cls.min_version)
]


@pytest.mark.parametrize(("cls", "version"), REMOVED, ids=lambda value: getattr(value, "name", value))
def test_a_connection_of_a_client_before_kafka_4(cls: type[Request[Response]], version: int) -> None:
    """Each version that Kafka 4 removed is read: request, header and response."""
    assert len(REMOVED) == 59
    asked: Any = next(one for one in samples(cls, version) if getattr(one, "acks", 1))
    response: Any = next(samples(cls.response, version))
    request, received = read(ask(asked, version, 5), response_frame(response, version, 5))
    assert isinstance(request, RequestFrame)
    assert isinstance(received, ResponseFrame)
    assert (request.error, received.error) == (None, None)
    assert (request.message, received.message) == (asked, response)
    assert request.header is not None
    assert request.header.client_id == ("" if (cls.api_key, version) == (7, 0) else "me")
