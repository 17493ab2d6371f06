"""Inputs to start from, made of the known vectors, and words for libFuzzer's dictionaries."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from fuzz import avro_schemas, protobuf_types
from fuzz.mutate import LIES
from fuzz.mutate import varint as uvarint
from fuzz.native import choice
from fuzz.targets import FetchResponses, FrameCore, vectors
from kafwire import protocol
from kafwire.records import encode_batch

RECORDS = ("record_batches", "message_set", "concatenation", "malformed_records")
CODEC_AT = 22  # the low byte of a batch's attributes
RIGHT_CRC, PACK = 1, 2


def _records() -> list[bytes]:
    return [bytes.fromhex(vector["hex"]) for vector in vectors(*RECORDS)]


def frame() -> Iterator[bytes]:
    """Streams of responses, some with zeros after them."""
    for stream in FrameCore().corpus():
        for options, filler in ((0, 0), (2, 0), (3, 0), (10, 0), (18, 0), (235, 0)):
            yield bytes([options, filler]) + b"cuts" + stream
    for size in (16_000, 17_001, 60_000):
        yield b"\3\377cuts" + struct.pack(">ii", 4 + size, 1)
        yield b"\377\377HUGE" + struct.pack(">ii", 4 + size, 1)


def varint() -> Iterator[bytes]:
    """Numbers of all lengths."""
    for last in (0, 1, 2, 15, 16, 127):
        for length in range(11):
            number = b"\377" * length + bytes([last])
            yield b"\x80" + number
            yield b"\xc0" + number
            yield b"\x00" + b"\6" * len(number) + number
    yield b"\x00" + bytes(range(48)) + bytes(range(48))


def header() -> Iterator[bytes]:
    """Record batches, and Fetch responses."""
    for records in _records():
        yield b"\x00" + records
    for response in FetchResponses().corpus():
        yield bytes([2 * response[0] + 1]) + response[1:]


def snappy() -> Iterator[bytes]:
    """Blocks, and data."""
    from kafwire.compression import compress

    for records in _records():
        yield b"\x01" + records
        yield b"\x00" + bytes(compress("snappy", records))[20:]  # after the xerial header and the block's length


def json_rows() -> Iterator[bytes]:
    """Documents of six members, and their mistakes."""
    yield b'{"s":"EWR","n":1,"b":-2,"x":1.5,"f":0.1,"k":true}\xff{"s":null}\xff{}'
    yield rb'{"s":"\u00e9\ud83d\ude00\n","n":9223372036854775807,"x":1e-300}'
    yield b'{"other":{"a":[1,{"b":"}"}],"c":[[]]},"s":"gr\xc3\xbcn"}\xff[]\xff{"n":1,"n":2}\xffnull'
    yield b'{"x":0.30000000000000004,"f":1e-40}'
    for value in (b"1", b"-0", b"1e400", b"01", b"true", b"null", b'"a"', b"[1,]", b"{}", b'"\\ud800"', b"1.5E+3"):
        yield b"\xff".join(b'{"%b":%b}' % (name, value) for name in (b"s", b"n", b"b", b"x", b"f", b"k", b"o"))
    yield rb' { "\u0073" : "\\" , "k" : false } '


def fast_path() -> Iterator[bytes]:
    """Responses of four partitions of one topic, with batches from the offsets that are expected on."""
    response = protocol.FetchResponse
    for version in range(protocol.FetchRequest.BY_TOPIC_ID, protocol.FetchRequest.max_version + 1):
        for records in range(1, 4):
            partitions = []
            for number in range(4):
                blob = encode_batch([b"v"] * (number + 1), base_offset=3 * number)
                blob += encode_batch([b"w"], base_offset=50)[: 61 * records]
                part = response.PartitionData(partition_index=number, high_watermark=60, records=blob)
                if number == 2 and records == 2:
                    part.aborted_transactions = [response.AbortedTransaction(producer_id=1, first_offset=2)]
                if number == 1 and records == 3:
                    part.error_code = 6
                partitions.append(part)
            topic = response.FetchableTopicResponse(partitions=partitions)
            message = response(session_id=7, responses=[topic])
            yield (
                bytes([version - protocol.FetchRequest.BY_TOPIC_ID + 64 * (records % 2), 3])
                + b"\0\0\0\7\0"
                + message.encode(version)
            )


def codec() -> Iterator[bytes]:
    """Batches as they are, and batches that the target compresses."""
    for i, records in enumerate(_records()):
        yield b"\x01\x3f" + records
        if i % 4 == 0:
            yield bytes([1 | i & 0xFC, 63]) + records
        if len(records) > CODEC_AT and records[16] == 2 and records[CODEC_AT] & 7 == 0:
            for number in range(1, 5):
                attributes = bytes([records[CODEC_AT] | number])
                yield bytes([RIGHT_CRC | PACK, 63]) + records[:CODEC_AT] + attributes + records[CODEC_AT + 1 :]


def message() -> Iterator[bytes]:
    """Bodies by other clients, and every version of every message with its defaults."""
    for vector in vectors("request_body", "response_body", "malformed_message", "data"):
        if vector["message"] in protocol.MESSAGES:
            yield _message(vector["message"], int(vector["version"]), bytes.fromhex(vector["hex"]))
    for vector in vectors("request_frame"):
        body = bytes.fromhex(vector["hex"])[4:]
        yield _message("RequestHeader", 1, body)
        yield _message("RequestHeader", 2, body)
    for name, made in protocol.MESSAGES.items():
        for version in range(made.oldest_version, made.max_version + 1):
            yield _message(name, version, b"")
            yield _message(name, version, bytes(64))
            yield _message(name, version, b"\2" * 64)


def avro() -> Iterator[bytes]:
    """Values of every writer's schema, and values that claim more than they have."""
    yield from _lying(avro_schemas.corpus())


def protobuf() -> Iterator[bytes]:
    """Values of every type, and values that claim more than they have."""
    yield from _lying(protobuf_types.corpus())


def _lying(values: Iterable[bytes]) -> Iterator[bytes]:
    for seed in values:
        yield seed
        yield seed[:-1]
        for lie in (b"\xfe\xff\xff\xff\x0f", b"\x01", b"\xff" * 9 + b"\x01"):
            yield seed[: 2 + seed[1] // 2] + lie + seed[2 + seed[1] // 2 :]


def _message(name: str, version: int, body: bytes) -> bytes:
    manner = len(body) % 4 + (choice.LARGE if len(body) % 16 == 3 else 0)
    return choice.head(name, version) + bytes([manner]) + body


SEEDS = {
    "frame": frame,
    "varint": varint,
    "header": header,
    "snappy": snappy,
    "json_rows": json_rows,
    "fast_path": fast_path,
    "codec": codec,
    "message": message,
    "avro": avro,
    "protobuf": protobuf,
}


def write(target: str, folder: Path) -> None:
    """Write the seeds of a target, one file each, named by content."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS[target]():
        (folder / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)


def dictionary(target: str) -> str:
    """Return numbers that lie, in the forms of the target; in libFuzzer's format."""
    words = set()
    for number in LIES:
        for form in "bhiq":
            bits = 8 * struct.calcsize(form)
            words.add(struct.pack(">" + form.upper(), number & ((1 << bits) - 1)))
        words.add(uvarint(number & 0xFFFFFFFF))
        words.add(uvarint((number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF))
    if target in ("codec", "snappy"):
        words |= {
            b"\x82SNAPPY\0",
            b"\x1f\x8b\x08",
            b"\x04\x22\x4d\x18",
            b"\x28\xb5\x2f\xfd",
            b"\xfe\xff",
            b"\x00\x00\x00\x00\x02",
        }
    return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in sorted(words))
