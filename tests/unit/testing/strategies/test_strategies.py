"""The public strategies: what they draw is valid, covers its range, and shrinks to something small."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st

from kafwire import protocol
from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Struct
from kafwire.protocol.dump import read_request
from kafwire.records import RecordBatch, decode_batches
from kafwire.testing.strategies import (
    ConnectionTraffic,
    EncodedBatch,
    ExpectedRecord,
    Frame,
    Mutated,
    RecordsBlob,
    Versioned,
    Wire,
    api_messages,
    connections,
    encoded,
    frames,
    messages,
    mutated,
    record_batches,
    records_blobs,
    requests,
    responses,
    split,
)
from tests.support import reference_codec, reference_messages, seeds
from tests.support.message_samples import samples

ANY_HEALTH = list(HealthCheck)
FEW = settings(max_examples=seeds.examples(20), suppress_health_check=ANY_HEALTH)
# Always the same examples: from some beginnings shrinking ends a little above the smallest.
SHRUNK = settings(
    database=None,
    derandomize=True,
    max_examples=2000,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=ANY_HEALTH,
)
MAGICS = st.sampled_from([2, 1, 0])
BROAD = ["FetchRequest", "FetchResponse", "DescribeTopicPartitionsRequest", "CreateTopicsRequest", "JoinGroupRequest"]
WHOLE = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 17}


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Values of a strategy, as many as are asked for."""
    number = seeds.of_test()
    values: list[Any] = []

    @seed(number)
    @settings(database=None, max_examples=count, phases=[Phase.generate], suppress_health_check=ANY_HEALTH)
    @given(strategy)
    def collect(value: Any) -> None:
        values.append(value)

    collect()
    return values


def drawn_until(strategy: st.SearchStrategy[Any], count: int, missing: Callable[[list[Any]], object]) -> list[Any]:
    """Values of a strategy among which nothing is missing.

    Hypothesis draws alike from alike, so that one sample in forty lacks a null array, say; ten samples do not.
    """
    values: list[Any] = []
    for _ in range(10):
        values += drawn(strategy, count)
        lacking = missing(values)
        if not lacking:
            return values
    pytest.fail(f"not among {len(values)} values: {lacking}")


def smallest(strategy: st.SearchStrategy[Any], wanted: Callable[[Any], bool]) -> Any:
    return find(strategy, wanted, settings=SHRUNK)


def failure(strategy: st.SearchStrategy[Any], wrong: Callable[[Any], bool]) -> str:
    """The text that Hypothesis prints of a test that fails when `wrong`."""

    @settings(SHRUNK)
    @given(strategy)
    def test(value: Any) -> None:
        assert not wrong(value)

    with pytest.raises(AssertionError) as caught:
        test()
    return "\n".join(caught.value.__notes__)


# --- messages ---


@pytest.mark.parametrize("name", MESSAGES)
@given(st.data())
@settings(max_examples=seeds.examples(2), suppress_health_check=ANY_HEALTH)
def test_every_version_of_every_message_is_drawn_and_survives(name: str, data: st.DataObject) -> None:
    cls = MESSAGES[name]
    for version in range(cls.oldest_version, cls.max_version + 1):
        message = data.draw(messages(name, version))
        assert type(message) is cls
        written = encoded(message, version)
        assert written == reference_messages.encode(message, version, version >= cls.flexible_from)
        assert written == message.encode(version)
        assert cls.decode(written, version) == message


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        (api_messages(["MetadataRequest", "RequestHeader"], max_elements=0), {"MetadataRequest", "RequestHeader"}),
        (requests(["Heartbeat", "MetadataRequest"], max_elements=0), {"HeartbeatRequest", "MetadataRequest"}),
        (responses(["Heartbeat", "Metadata"], max_elements=0), {"HeartbeatResponse", "MetadataResponse"}),
    ],
)
def test_all_that_are_asked_for_come_in_all_versions(strategy: st.SearchStrategy[Any], names: set[str]) -> None:
    wanted = {
        (name, version)
        for name in names
        for version in range(
            MESSAGES[name].min_version, getattr(MESSAGES[name], "max_stable_version", MESSAGES[name].max_version) + 1
        )
    }

    def found(values: list[Versioned[Any]]) -> set[tuple[str, int]]:
        return {(type(message).__name__, version) for message, version in values}

    assert found(drawn_until(strategy, 600, lambda values: wanted - found(values))) == wanted


def test_without_names_there_are_all() -> None:
    kinds = {
        kind: {type(message).__name__ for message, _ in drawn(strategy, 100)}
        for kind, strategy in (("Request", requests(max_elements=0)), ("Response", responses(max_elements=0)))
    }
    for kind, names in kinds.items():
        assert len(names) > 15
        assert all(issubclass(MESSAGES[name], getattr(protocol, kind)) for name in names)


@pytest.mark.parametrize("name", MESSAGES)
def test_samples_are_written_as_the_message_writes_them(name: str) -> None:
    cls = MESSAGES[name]
    for version in range(cls.oldest_version, cls.max_version + 1):
        for message in samples(cls, version):
            assert encoded(message, version) == message.encode(version)


def test_removed_versions_come_only_when_asked_for() -> None:
    cls = MESSAGES["ProduceRequest"]
    assert smallest(messages("ProduceRequest", removed=True, max_elements=0), lambda v: v.version == cls.oldest_version)
    least = min(version for _, version in drawn(messages("ProduceRequest", max_elements=0), 50))
    assert cls.oldest_version < cls.min_version <= least
    (only,) = drawn(messages("StopReplicaRequest", max_elements=0), 1)
    assert only.version in range(MESSAGES["StopReplicaRequest"].max_version + 1)


@pytest.mark.parametrize("strategy", [api_messages, requests, responses])
def test_without_names_removed_messages_come_only_when_asked_for(strategy: Any) -> None:
    """Without a version: `ControlledShutdown` and its like have none but removed ones."""
    assert all(version >= type(message).min_version for message, version in drawn(strategy(max_elements=0), 100))

    def is_gone(drawn: Any) -> bool:
        return bool(type(drawn.message).min_version > type(drawn.message).max_version)

    assert smallest(strategy(max_elements=0, removed=True), is_gone)


def test_a_frame_has_the_header_of_its_version() -> None:
    frame = smallest(frames("request", ["ControlledShutdown"], removed=True), lambda frame: frame.version == 0)
    assert len(frame.payload) == 8 + 4
    assert frame.client_id is None
    assert read_request(frame.payload).message == frame.message


def test_unstable_versions_come_only_when_asked_for() -> None:
    name = next(name for name in MESSAGES if getattr(MESSAGES[name], "latest_unstable", False))
    cls: Any = MESSAGES[name]
    assert smallest(messages(name, unstable=True, max_elements=0), lambda v: v.version == cls.max_version)
    assert {version for _, version in drawn(messages(name, max_elements=0), 50)} <= set(
        range(cls.max_stable_version + 1)
    )
    assert drawn(messages(name, cls.max_version), 1)


def seen_in(value: Any, seen: Counter[str]) -> None:
    """Count what kinds of values there are."""
    kind = type(value).__name__
    if isinstance(value, Struct):
        seen["unknown tags"] += bool(value.unknown_tagged_fields)
        for field in type(value).__fields__:
            inner = getattr(value, field.name)
            seen["known tags"] += field.tag is not None and inner != getattr(type(value)(), field.name)
            seen[f"null {'array' if field.array else field.kind}"] += (
                inner is None and field.nullable.low <= field.nullable.high
            )
            if field.kind in WHOLE and not field.array:
                seen[f"{field.kind} above a sixteenth of its range"] += inner > 1 << WHOLE[field.kind] - 5
            seen_in(inner, seen)
    elif isinstance(value, list):
        seen[f"list of {min(len(value), 2)}"] += 1
        for element in value:
            seen_in(element, seen)
    elif isinstance(value, bool):
        seen[f"{value}"] += 1
    elif isinstance(value, int):
        seen["negative"] += value < -1
        seen["positive"] += value > 0
    elif isinstance(value, str | bytes):
        seen[f"empty {kind}"] += not value
        seen[f"{kind} of two varint bytes"] += len(value) > 127
        seen[f"{kind} of three varint bytes"] += len(value) >= 16_383
        if isinstance(value, str):
            seen["text beyond ASCII"] += not value.isascii()


def test_values_cover_their_range() -> None:
    wanted = {f"{kind} above a sixteenth of its range" for kind in WHOLE if kind != "uint16"}
    wanted |= {
        "unknown tags",
        "known tags",
        "list of 0",
        "list of 1",
        "list of 2",
        "True",
        "False",
        "negative",
        "positive",
    }
    wanted |= {"empty str", "empty bytes", "str of two varint bytes", "bytes of two varint bytes"}
    wanted |= {"str of three varint bytes", "text beyond ASCII", "null array", "null string", "null struct"}

    def missing(values: list[Versioned[Any]]) -> set[str]:
        seen: Counter[str] = Counter()
        for message, _ in values:
            seen_in(message, seen)
        return {what for what in wanted if not seen[what]}

    drawn_until(api_messages(BROAD), 400, missing)


def test_options() -> None:
    def kinds(plain: list[Any]) -> Counter[str]:
        seen: Counter[str] = Counter()
        for message in plain:
            seen_in(message, seen)
        return seen

    strategy: Any = messages("MetadataResponse", 13, unknown_tags=False, max_elements=1)
    seen = kinds(drawn_until(strategy, 60, lambda plain: {"list of 1"} - set(+kinds(plain))))
    assert not seen["unknown tags"]
    assert not seen["list of 2"]
    marker = b"these very bytes"

    def records(held: list[Any]) -> set[bytes | None]:
        return {part.records for message in held for topic in message.responses for part in topic.partitions}

    strategy = messages("FetchResponse", 12, records=st.just(marker))
    assert records(drawn_until(strategy, 60, lambda held: {marker, None} - records(held))) == {marker, None}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: messages("FetchRequests"), "'FetchRequests' is no message of Kafka; did you mean FetchRequest"),
        (lambda: messages("?"), "kafwire.protocol.MESSAGES has all names"),
        (lambda: messages("MetadataRequest", 99), "MetadataRequest has versions 0 to 13, not 99"),
        (lambda: messages(protocol.MetadataRequest, -1), "not -1"),
        (lambda: requests(["Metdata"]), "did you mean MetadataRequest"),
        (lambda: requests([]), "no message to choose from"),
        (lambda: mutated(st.just(b""), max_changes=0), "max_changes is 0"),
        (lambda: frames("answer"), "not 'answer'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_named_at_once(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", "[?]")):
        call()


def test_messages_shrink_to_their_defaults() -> None:
    cls = protocol.MetadataResponse
    assert smallest(messages(cls, 13), lambda _: True) == cls()
    small = smallest(messages(cls), lambda v: len(v.message.topics) > 1)
    assert small.message == cls(topics=[cls.MetadataResponseTopic()] * 2)
    text = failure(messages(cls), lambda v: any(topic.partitions for topic in v.message.topics))
    assert "MetadataResponse.MetadataResponseTopic(" in text
    assert "throttle_time_ms" not in text
    assert len(text) < 500


# --- mutations ---


@given(mutated(api_messages()))
@settings(max_examples=seeds.examples(50), suppress_health_check=ANY_HEALTH)
def test_damaged_messages_are_messages_or_an_error(data: Mutated) -> None:
    message, version = data.origin
    try:
        found = type(message).decode(data, version)
    except ProtocolError:
        assert data != message.encode(version)
    else:
        assert type(message).decode(found.encode(version), version) == found


@given(mutated(records_blobs(magic=MAGICS)))
@settings(max_examples=seeds.examples(60), suppress_health_check=ANY_HEALTH)
def test_damaged_batches_are_batches_or_an_error(data: Mutated) -> None:
    try:
        batches = decode_batches(data, max_decompressed=1 << 22)
    except ProtocolError:
        assert data.changes
    else:
        for batch in batches:
            assert len(list(batch)) == len(batch)


@given(mutated(frames("response", ["Metadata", "ApiVersions", "Fetch"])))
@settings(max_examples=seeds.examples(50), suppress_health_check=ANY_HEALTH)
def test_damaged_responses_are_responses_or_an_error(data: Mutated) -> None:
    frame: Frame = data.origin
    asked: Any = MESSAGES[type(frame.message).__name__.replace("Response", "Request")]
    try:
        protocol.decode_response(asked, data[4:], frame.version)
    except ProtocolError:
        assert data.changes


def test_every_kind_of_change_happens_and_lies_hit_lengths() -> None:
    kinds = ("name: length", "tagged fields", "number of elements", "cut off", "removed", "put in", "repeated",
             "replaced", "byte ", "0x8", " -> -1")  # fmt: skip

    def missing(values: list[Mutated]) -> set[str]:
        changes = [change for data in values for change in data.changes]
        return {kind for kind in kinds if sum(kind in change for change in changes) < 2}

    drawn_until(mutated(messages("MetadataRequest", 12), version=12), 500, missing)


def test_a_change_describes_its_effect() -> None:
    for data in drawn(mutated(st.just(b"valid bytes")), 200):
        assert bool(data.changes) or data == b"valid bytes"
        assert data.origin == b"valid bytes"
        assert repr(bytes(data)) in repr(data)


def test_checksums_are_put_right_every_other_time() -> None:
    strategy = mutated(record_batches(magic=MAGICS, codec="none"))
    found = smallest(strategy, lambda data: "checksum put right" in data.changes)
    assert len(found.changes) == 2
    try:
        decode_batches(found)
    except ProtocolError as error:
        assert "does not match" not in error.message
    assert smallest(strategy, lambda data: any("record 0: " in change for change in data.changes)).changes


def test_damage_shrinks_to_the_valid_bytes() -> None:
    valid = protocol.MetadataRequest().encode(12)
    found = smallest(mutated(messages("MetadataRequest", 12), version=12), lambda _: True)
    assert found == valid
    assert found.changes == ()

    def breaks(data: Mutated) -> bool:
        try:
            protocol.MetadataRequest.decode(data, 12)
        except ProtocolError:
            return True
        return False

    found = smallest(mutated(messages("MetadataRequest", 12), version=12), breaks)
    assert len(found.changes) == 1
    assert len(found) < len(valid) + 16
    assert failure(mutated(messages("MetadataRequest", 12), version=12), breaks).count("changes: ") == 1


def test_only_bytes_can_be_damaged() -> None:
    with pytest.raises(TypeError, match="takes bytes, or an object with `data`, not int"):
        drawn(mutated(st.just(3)), 1)
    with pytest.raises(TypeError, match="needs a version for HeartbeatRequest"):
        drawn(mutated(messages("HeartbeatRequest", 4)), 1)


# --- records ---


def as_expected(batch: RecordBatch) -> tuple[ExpectedRecord, ...]:
    return tuple(
        ExpectedRecord(
            record.offset,
            -1 if record.timestamp_ms is None else record.timestamp_ms,
            record.key,
            record.value,
            tuple((key.encode("utf-8", "surrogateescape"), value) for key, value in record.headers),
        )
        for record in batch
    )


@given(record_batches(magic=MAGICS))
@settings(max_examples=seeds.examples(80), suppress_health_check=ANY_HEALTH)
def test_batches_decode_to_their_description(batch: EncodedBatch) -> None:
    (found,) = decode_batches(batch.data)
    assert as_expected(found) == batch.records
    assert (found.magic, found.compression) == (batch.magic, batch.codec)
    assert (found.base_offset, found.last_offset) == (batch.base_offset, batch.last_offset)
    assert (found.is_transactional, found.is_control) == (batch.transactional, batch.control)
    assert found.timestamp_type == batch.log_append_time or batch.magic == 0
    assert batch.data.repair is not None
    assert batch.data.repair(batch.data) == batch.data
    if batch.magic == 2:
        assert (found.producer_id, found.producer_epoch) == (batch.producer_id, batch.producer_epoch)
        assert (found.base_sequence, found.partition_leader_epoch) == (batch.base_sequence, batch.leader_epoch)


@given(record_batches())
@settings(max_examples=seeds.examples(80), suppress_health_check=ANY_HEALTH)
def test_the_reference_codec_reads_batches_the_same(batch: EncodedBatch) -> None:
    found = reference_codec.decode_batch(batch.data)
    assert (
        tuple(
            ExpectedRecord(
                found.base_offset + each.offset_delta, each.timestamp, each.key, each.value, tuple(each.headers)
            )
            for each in found.records
        )
        == batch.records
    )
    assert (found.codec, found.base_offset) == (batch.codec, batch.base_offset)
    assert found.base_offset + found.last_offset_delta == batch.last_offset


def test_batches_cover_their_range() -> None:
    codecs: dict[int, tuple[str, ...]] = dict.fromkeys((0, 1, 2), reference_codec.CODECS)
    codecs[0] = codecs[1] = reference_codec.CODECS[:-1]
    expected: set[object] = {(magic, codec) for magic, names in codecs.items() for codec in names}
    expected |= {"transactional", "control", "empty", "log append time", "idempotent"}
    expected |= {"gap at the end", "gap", "the highest offsets"}
    expected |= {(kind, 2) for kind in ("null key", "null value", "empty value", "long value", "headers")}
    expected |= {(kind, 2) for kind in ("null header", "no timestamp", "negative time", "huge time")}
    expected |= {("no timestamp", 0), ("null value", 0), ("null key", 1)}
    found = drawn_until(record_batches(magic=MAGICS), 1000, lambda batches: expected - kinds_of(batches))
    assert not kinds_of(found) & {("headers", 0), ("headers", 1), ("negative time", 0)}


def kinds_of(batches: list[EncodedBatch]) -> set[object]:
    """The kinds of batches, and of records, by format version."""
    seen: set[object] = set()
    for batch in batches:
        kinds = {"transactional": batch.transactional, "control": batch.control, "empty": not batch.records,
                 "log append time": batch.log_append_time, "idempotent": batch.producer_id >= 0,
                 "gap at the end": batch.records and batch.records[-1].offset < batch.last_offset,
                 "gap": batch.last_offset - batch.base_offset >= len(batch.records) > 1,
                 "the highest offsets": batch.last_offset == (1 << 63) - 2}  # fmt: skip
        seen.update([(batch.magic, batch.codec), *(kind for kind, holds in kinds.items() if holds)])
        for record in batch.records:
            data = {"null key": record.key is None, "null value": record.value is None,
                    "empty value": record.value == b"", "long value": len(record.value or b"") > 8000,
                    "headers": record.headers, "null header": any(value is None for _, value in record.headers),
                    "no timestamp": record.timestamp_ms == -1, "negative time": record.timestamp_ms < -1,
                    "huge time": record.timestamp_ms > 1 << 60}  # fmt: skip
            seen.update((kind, batch.magic) for kind, holds in data.items() if holds)
    return seen


def test_batches_as_asked_for() -> None:
    for batch in drawn(record_batches(codec="zstd", base_offset=7, control=False, transactional=True, gaps=False), 50):
        assert batch.codec == ("zstd" if batch.records else "none")
        assert (batch.base_offset, batch.transactional, batch.control) == (7, True, False)
        assert [record.offset for record in batch.records] == list(range(7, 7 + len(batch.records)))
    for batch in drawn(record_batches(control=True), 50):
        assert (batch.control, batch.transactional, len(batch.records)) == (True, True, 1)
    for batch in drawn(record_batches(values=st.just(b"v"), max_records=1, control=False), 50):
        assert [record.value for record in batch.records] in ([], [b"v"])
    with pytest.raises(ValueError, match="magic 3 does not exist"):
        drawn(record_batches(magic=3), 1)


@given(records_blobs(magic=MAGICS))
@settings(max_examples=seeds.examples(50), suppress_health_check=ANY_HEALTH)
def test_blobs_decode_to_their_whole_batches(blob: RecordsBlob) -> None:
    found = decode_batches(blob.data)
    assert tuple(record for batch in found for record in as_expected(batch)) == blob.records
    offsets = [record.offset for record in blob.records]
    assert offsets == sorted(set(offsets))
    assert b"".join(batch.data for batch in blob.batches) == blob.data[: len(blob.data) - blob.tail]


def test_blobs_cover_their_range_and_shrink() -> None:
    def kinds(blobs: list[RecordsBlob]) -> set[object]:
        return {len(blob.batches) for blob in blobs} | {f"tail: {bool(blob.tail)}" for blob in blobs}

    wanted = {0, 1, 2, 3, "tail: False", "tail: True"}
    assert kinds(drawn_until(records_blobs(), 200, lambda blobs: wanted - kinds(blobs))) == wanted
    assert not any(blob.tail for blob in drawn(records_blobs(partial_tail=False), 50))
    small = smallest(records_blobs(), lambda blob: len(blob.records) >= 2)
    assert len(small.records) == 2
    assert small.tail == 0
    assert {batch.codec for batch in small.batches} == {"none"}
    assert len(small.data) < 200


# --- frames ---


@given(frames("request"))
@settings(FEW)
def test_request_frames_equal_those_of_encode_request(frame: Frame) -> None:
    message: Any = frame.message
    payload = protocol.encode_request(message, frame.version, frame.correlation_id, frame.client_id)
    assert frame.data == len(payload).to_bytes(4, "big") + payload
    assert frame.payload == payload


@given(frames("response"))
@settings(FEW)
def test_decode_response_reads_response_frames(frame: Frame) -> None:
    request: Any = MESSAGES[type(frame.message).__name__.removesuffix("Response") + "Request"]
    assert int.from_bytes(frame.data[:4], "big") == len(frame.payload)
    message: Any = frame.message
    if isinstance(message, protocol.ApiVersionsResponse) and message.error_code == 35:
        return  # that one may be in version 0 whatever was asked
    assert protocol.decode_response(request, frame.payload, frame.version) == (frame.correlation_id, frame.message)


def test_frames_are_of_both_kinds() -> None:
    def kinds(found: list[Frame]) -> set[str]:
        return {type(frame.message).__name__ for frame in found}

    wanted = {"MetadataRequest", "MetadataResponse"}
    assert kinds(drawn_until(frames(names=["Metadata"]), 50, lambda found: wanted - kinds(found))) == wanted


@given(connections(["ApiVersions", "Metadata", "Produce", "Fetch"]))
@settings(FEW)
def test_connections(connection: ConnectionTraffic) -> None:
    assert b"".join(connection.sent) == b"".join(frame.data for frame in connection.requests)
    assert b"".join(connection.received) == b"".join(frame.data for frame in connection.responses if frame is not None)
    assert all(connection.sent)
    assert all(connection.received)
    ids = [frame.correlation_id for frame in connection.requests]
    assert ids == sorted(set(ids))
    for asked, response in zip(connection.requests, connection.responses, strict=True):
        message: Any = asked.message
        if response is None:
            assert message.acks == 0
        else:
            assert (type(response.message), response.version) == (type(message).response, asked.version)
            assert response.correlation_id == asked.correlation_id
            assert getattr(message, "acks", 1) != 0


def test_connections_cover_their_range_and_shrink() -> None:
    def kinds(found: list[ConnectionTraffic]) -> set[object]:
        return (
            {len(connection.requests) for connection in found}
            | {f"in pieces: {len(connection.sent) > 1}" for connection in found}
            | {"without a response" for connection in found if None in connection.responses}
        )

    wanted = {1, 2, 3, "in pieces: False", "in pieces: True", "without a response"}
    strategy = connections(["Produce", "Metadata"], max_requests=3)
    assert kinds(drawn_until(strategy, 200, lambda found: wanted - kinds(found))) == wanted
    small = smallest(connections(["Metadata"]), lambda connection: len(connection.requests) > 1)
    assert [frame.correlation_id for frame in small.requests] == [0, 1]
    assert len(small.sent) == len(small.received) == 1


@given(st.lists(st.binary(max_size=20), max_size=4), st.data())
def test_split_keeps_every_byte(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    for pieces in (data.draw(split(parts)), data.draw(split(whole, max_pieces=3))):
        assert b"".join(pieces) == whole
        assert all(pieces)
    assert len(pieces) <= 3


def test_cuts_are_near_the_ends_of_frames() -> None:
    def rare(values: list[list[bytes]]) -> set[int]:
        cuts = Counter(at for pieces in values for at in accumulate(len(piece) for piece in pieces[:-1]))
        return {at for at in (3, 4, 5, 8, 99, 100, 101, 104) if cuts[at] <= cuts.total() / 200}

    drawn_until(split([bytes(100), bytes(100)]), 300, rare)


# --- the places of lengths ---


@given(api_messages())
@settings(FEW)
def test_places_are_where_numbers_are(drawn_message: Versioned[Any]) -> None:
    data = drawn_message.data
    assert isinstance(data, Wire)
    ends = 0
    for place in data.places:
        assert place.offset >= ends
        ends = place.offset + place.size
        assert ends <= len(data)
        if place.form == "uvarint":
            number = data[place.offset : ends]
            assert all(byte > 127 for byte in number[:-1])
            assert number[-1] < 128
        else:
            assert place.size == {"int8": 1, "int16": 2, "int32": 4}[place.form]


# --- without hypothesis ---


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_test_kit_does_not_need_hypothesis() -> None:
    done = python("import sys, kafwire.testing; print('hypothesis' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_an_import_without_hypothesis_names_the_package_to_install() -> None:
    done = python("import sys; sys.modules['hypothesis'] = None; import kafwire.testing.strategies")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: kafwire.testing.strategies needs hypothesis: pip install "kafwire[testing]", or hypothesis itself'
    )
