"""Our record batches against MemoryRecords, in a Java process: every magic with every codec, both directions."""

import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafwire.compression import CODECS, codec_id, compress
from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES
from kafwire.records import RecordBatch, decode_batches, encode_batch
from kafwire.testing.strategies.wire import with_right_checksums
from tests.support import seeds
from tests.support.java.oracle import Differences, Oracle, OracleError, good, judged_differently

FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or codec != "zstd"]
CONTROL_TYPES = (
    *("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION"),
    "KRAFT_VOTERS",
)
MARKERS = {name: number for number, name in enumerate(CONTROL_TYPES[:2])}
HEADER = 61  # bytes of a batch of magic 2 before its records
COMPARED: Counter[str] = Counter()

_NO_TEXT = re.compile("[\ufffd\udc80-\udcff]+")

every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=str)
every_codec = pytest.mark.parametrize("codec", CODECS)

# Bytes that kafwire and Java judge differently, by the error of the side that refuses.
JAVA_IS_STRICTER = {
    "Found invalid wrapper offset": "a compressed message's offset below that of its last is a producer's 0 here",
    "Corrupt GZIP header": "Java verifies the checksum that a gzip header may have of itself",
    "Failed to decompress record stream": "Java refuses a zstd window above 128 MiB, here only content counts",
    "Dependent block stream is unsupported": "Java refuses lz4 frames whose blocks refer to earlier ones",
}
JAVA_IS_LAXER = {
    "^no records:": "Java does not look for records where a batch says it has none",
    "record 0 of 0: bytes left over": "Java does not look for records where a batch says it has none",
    "gzip: not a gzip header": "Java ignores a few bytes after the end of compressed data",
    "lz4: the frame is truncated": "Java ignores a few bytes after the end of compressed data",
    "zstd: the frame is corrupt": "Java ignores a few bytes after the end of compressed data",
    "xerial block's length is truncated": "Java ignores a few bytes after the end of compressed data",
    "bytes left over in a message": "Java does not look at what follows the value of an old message",
    "offsets below zero": "Java does not mind offsets below zero",
    "(key|value) length (that is not a varint or )?beyond": "Java takes every negative length for null",
    "a header value longer than the record": "Java takes every negative length for null",
    "a message length that is too small or beyond": "Java leaves out records cut off inside a message too",
    "a message is truncated": "Java leaves out records cut off inside a message too",
    "another magic inside a message set": "Java leaves out records cut off inside a message too",
    "a batch length below the smallest batch": "Java looks at nothing of a batch that is cut off",
    "offsets inside a compressed message that do not rise": "Java does not compare the offsets of records",
    "an offset delta that .* does not rise, or is beyond": "Java does not compare the offsets of records",
    "delta that is not a varint": "Java drops the bits of a varint that are too many",
}
DIFFERENCES = Differences(JAVA_IS_STRICTER, JAVA_IS_LAXER)

# --- batches as JSON, in the form that java/Batches.java has ---


def form_of_bytes(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def form_of(batch: RecordBatch) -> dict[str, Any]:
    """Java's form of a batch, from ours."""
    records = []
    for record in batch:
        form: dict[str, Any] = {
            "offset": record.offset,
            "timestamp": -1 if record.timestamp_ms is None else record.timestamp_ms,
            "key": form_of_bytes(record.key),
            "value": form_of_bytes(record.value),
            "headers": [[key, form_of_bytes(value)] for key, value in record.headers],
        }
        if batch.is_control:
            form["type"] = control_type(record.key)
        records.append(form)
    return {
        "magic": batch.magic,
        "compression": batch.compression,
        "crc": batch.crc,
        "logAppendTime": batch.timestamp_type == 1,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "maxTimestamp": -1 if batch.max_timestamp_ms is None else batch.max_timestamp_ms,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "leaderEpoch": batch.partition_leader_epoch,
        "records": records,
    }


def control_type(key: bytes | None) -> str | None:
    """Java's name of what a control record of version 0 says."""
    if key is None or len(key) != 4 or key[:2] != bytes(2):
        return None
    number: int = MESSAGES["ControlRecordTypeSchema"].decode(key[2:], 0).to_dict()["type"]
    return CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else "UNKNOWN"


def build(oracle: Oracle, batch: dict[str, Any]) -> bytes:
    return oracle.one("build", json.dumps(batch))[0]


def parse(oracle: Oracle, data: bytes) -> dict[str, Any]:
    """The batches that Java finds in the bytes; raises `OracleError`."""
    found: dict[str, Any] = json.loads(oracle.one("parse", data)[0])
    return found


# --- strategies ---

SOME_BYTES = st.none() | st.binary(max_size=8) | st.integers(60, 300).map(bytes)
FEW_HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), SOME_BYTES), max_size=3)
TIMES = st.just(-1) | st.integers(0, 5) | st.integers(1_700_000_000_000, 1_700_000_000_100) | st.integers(0, 2**63 - 1)
GAPS = st.lists(st.just(1) | st.integers(1, 300), min_size=1, max_size=5) | st.just([1, 70_000, 1])


@st.composite
def batches(draw: DrawFn, magic: int, codec: str) -> dict[str, Any]:
    """A batch of records that a builder takes: a plain producer's, an idempotent's or in a transaction."""
    gaps = draw(GAPS)
    base = draw(st.just(0) | st.integers(0, 2**31) | st.just(2**63 - 1 - sum(gaps)))
    # Magic 0 has no offsets that begin elsewhere, nor gaps inside of a compressed message's relative offsets.
    offsets = [base + gap - gaps[0] for gap in accumulate(gaps)]
    idempotent = magic == 2 and draw(st.booleans())
    return {
        "magic": magic,
        "compression": codec,
        "logAppendTime": draw(st.just(-1) | st.integers(0, 2**62)) if magic else -1,
        "baseOffset": base,
        "producerId": draw(st.integers(0, 2**63 - 1)) if idempotent else -1,
        "producerEpoch": draw(st.integers(0, 2**15 - 1)) if idempotent else -1,
        "baseSequence": draw(st.integers(0, 2**31 - 1)) if idempotent else -1,
        "transactional": idempotent and draw(st.booleans()),
        "control": False,
        "leaderEpoch": draw(st.integers(-1, 2**31 - 1)) if magic == 2 else -1,
        "records": [
            {
                "offset": offset,
                "timestamp": draw(TIMES) if magic else -1,
                "key": form_of_bytes(draw(SOME_BYTES)),
                "value": form_of_bytes(draw(SOME_BYTES)),
                "headers": [[key, form_of_bytes(value)] for key, value in draw(FEW_HEADERS)] if magic == 2 else [],
            }
            for offset in offsets
        ],
    }


@st.composite
def markers(draw: DrawFn) -> dict[str, Any]:
    """The control batch that ends a transaction."""
    base = draw(st.integers(0, 2**62))
    return {
        "magic": 2,
        "compression": "none",
        "logAppendTime": -1,
        "baseOffset": base,
        "producerId": draw(st.integers(0, 2**63 - 1)),
        "producerEpoch": draw(st.integers(0, 2**15 - 1)),
        "baseSequence": -1,
        "transactional": True,
        "control": True,
        "leaderEpoch": draw(st.integers(-1, 2**31 - 1)),
        "records": [
            {
                "timestamp": draw(st.integers(0, 2**62)),
                "marker": draw(st.sampled_from(sorted(MARKERS))),
                "coordinatorEpoch": draw(st.integers(0, 2**31 - 1)),
            }
        ],
    }


def bytes_of(form: str | None) -> bytes | None:
    return None if form is None else b64decode(form)


def our_records(batch: dict[str, Any]) -> list[dict[str, object]]:
    """The records of a batch in JSON as `encode_batch` takes them."""
    if batch["control"]:
        return [
            {
                "timestamp_ms": record["timestamp"],
                "key": bytes(2)
                + MESSAGES["ControlRecordTypeSchema"].from_dict({"type": MARKERS[record["marker"]]}).encode(0),
                "value": bytes(2)
                + MESSAGES["EndTxnMarker"].from_dict({"coordinator_epoch": record["coordinatorEpoch"]}).encode(0),
            }
            for record in batch["records"]
        ]
    return [
        {
            "offset": record["offset"],
            "timestamp_ms": None if record["timestamp"] == -1 else record["timestamp"],
            "key": bytes_of(record["key"]),
            "value": bytes_of(record["value"]),
            "headers": [(key, bytes_of(value)) for key, value in record["headers"]],
        }
        for record in batch["records"]
    ]


def our_bytes(batch: dict[str, Any]) -> bytes:
    return encode_batch(
        our_records(batch),
        compression=batch["compression"],
        base_offset=batch["baseOffset"],
        producer_id=batch["producerId"],
        producer_epoch=batch["producerEpoch"],
        base_sequence=batch["baseSequence"],
        transactional=batch["transactional"],
        control=batch["control"],
        timestamp_type=0 if batch["logAppendTime"] < 0 else 1,
        max_timestamp_ms=None if batch["logAppendTime"] < 0 else batch["logAppendTime"],
    )


# --- the comparison ---


def check_decoding(oracle: Oracle, batch: dict[str, Any]) -> None:
    data = build(oracle, batch)
    seen = parse(oracle, data)
    assert seen == {"rest": 0, "batches": [form_of(found) for found in decode_batches(data)]}
    COMPARED["batches of Java's"] += 1


def check_encoding(oracle: Oracle, batch: dict[str, Any]) -> None:
    batch["leaderEpoch"] = -1  # the broker's to set
    ours, theirs = our_bytes(batch), build(oracle, batch)
    if batch["compression"] == "none":
        assert ours == theirs
    (our_batch,), (their_batch,) = parse(oracle, ours)["batches"], parse(oracle, theirs)["batches"]
    if batch["compression"] != "none":
        del our_batch["crc"], their_batch["crc"]  # of compressed bytes, which are an encoder's choice
    assert our_batch == their_batch
    COMPARED["batches of ours"] += 1


@pytest.mark.compares(20)
@every_format
@given(st.data())
@settings(max_examples=seeds.examples(20))
def test_batches_that_java_builds_are_decoded(magic: int, codec: str, oracle: Oracle, data: st.DataObject) -> None:
    check_decoding(oracle, data.draw(batches(magic, codec)))


@pytest.mark.compares(20)
@given(markers())
@settings(max_examples=seeds.examples(20))
def test_end_of_transaction_markers_are_decoded(oracle: Oracle, batch: dict[str, Any]) -> None:
    check_decoding(oracle, batch)


@pytest.mark.compares(20)
@every_codec
@given(st.data())
@settings(max_examples=seeds.examples(20))
def test_java_reads_encoded_batches(codec: str, oracle: Oracle, data: st.DataObject) -> None:
    check_encoding(oracle, data.draw(batches(2, codec)))


@pytest.mark.compares(20)
@given(markers())
@settings(max_examples=seeds.examples(20))
def test_java_reads_end_of_transaction_markers(oracle: Oracle, batch: dict[str, Any]) -> None:
    check_encoding(oracle, batch)


any_batch: SearchStrategy[dict[str, Any]] = st.sampled_from(FORMATS).flatmap(lambda chosen: batches(*chosen))


@pytest.mark.compares(20)
@given(st.lists(any_batch, min_size=1, max_size=3), st.data())
@settings(max_examples=seeds.examples(40))
def test_a_batch_that_is_cut_off_is_left_out(
    oracle: Oracle, several: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = b"".join(build(oracle, batch) for batch in several)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    assert parse(oracle, cut)["batches"] == [form_of(found) for found in decode_batches(cut)]
    COMPARED["batches cut off"] += 1


# --- damage ---


def comparable(form: dict[str, Any]) -> dict[str, Any]:
    """A damaged batch without the fields that both sides read differently."""
    form = dict(form)
    if form["magic"] < 2 and form["compression"] != "none":
        del form["lastOffset"]  # Java has it from the outer message, we from the last one inside
    for record in form["records"]:
        # Where a key is no text, Java has replacement characters, and we what Python makes of such bytes.
        record["headers"] = [[_NO_TEXT.sub("?", key), value] for key, value in record["headers"]]
    return form


def located(error: ProtocolError, data: bytes) -> Exception:
    """The error, which says so if it is in a batch of magic 2 that says that it has no records."""
    assert error.offset is not None
    batch = data[error.offset :]
    if batch[16:17] == b"\2" and batch[HEADER - 4 : HEADER] == bytes(4):
        return ProtocolError(f"no records: {error}")
    return error


def check_verdict(oracle: Oracle, data: bytes) -> str:
    """Both refuse the bytes, or find the same batches in them; or why only one of the two may refuse them."""
    (result,) = oracle.ask(("parse", data))
    try:
        ours = [form_of(batch) for batch in decode_batches(data)]
    except ProtocolError as error:
        return DIFFERENCES.refused_here(located(error, data), result)
    if isinstance(result, OracleError):
        return DIFFERENCES.refused_by_java(result)
    theirs = json.loads(good(result)[0])["batches"]
    assert list(map(comparable, ours)) == list(map(comparable, theirs))
    return "damage taken by both"


@every_format
@given(st.data(), st.binary(min_size=1, max_size=3), st.booleans())
@settings(max_examples=seeds.examples(20))
def test_damaged_bytes_are_judged_as_by_java(
    magic: int, codec: str, oracle: Oracle, data: st.DataObject, noise: bytes, repaired: bool
) -> None:
    damaged = bytearray(build(oracle, data.draw(batches(magic, codec))))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at : at + len(noise)] = noise
    verdict = check_verdict(oracle, with_right_checksums(bytes(damaged)) if repaired else bytes(damaged))
    COMPARED[verdict] += 1


@every_codec
@given(st.data(), st.binary(min_size=1, max_size=3))
@settings(max_examples=seeds.examples(20))
def test_damage_below_checksum_and_compression_is_judged_as_by_java(
    codec: str, oracle: Oracle, data: st.DataObject, noise: bytes
) -> None:
    whole = bytearray(build(oracle, data.draw(batches(2, "none"))))
    at = data.draw(st.integers(HEADER, len(whole) - 1))
    whole[at : at + len(noise)] = noise
    packed = whole[:HEADER] + compress(codec, bytes(whole[HEADER:]))
    packed[8:12] = (len(packed) - 12).to_bytes(4, "big")
    packed[22] |= codec_id(codec)
    COMPARED[check_verdict(oracle, with_right_checksums(bytes(packed)))] += 1


def test_each_difference_is_still_there(oracle: Oracle) -> None:
    """One case at least for each, which no other describes: an entry that is needed no more fails."""
    seen = {check_verdict(oracle, bytes.fromhex(case)) for case in judged_differently("records")}
    assert seen == DIFFERENCES.reasons()
