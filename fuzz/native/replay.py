"""Committed inputs of native targets through the normal build: the same bytes, by the public doors.

`fuzz/cases/<target>/` holds what once broke an invariant; the native program replays it with every check, this here in
any environment.
"""

from __future__ import annotations

import contextlib
import random
import struct
import zlib

import crc32c

from fuzz.native import choice
from fuzz.targets import AvroValues, FetchResponses, FrameCore, Messages, ProtobufValues
from kafwire.compression import compress, decompress
from kafwire.consumer.fetch._fetch import parse_response, scan_headers
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer, FetchFastPath
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.protocol import FetchRequest
from kafwire.records import decode_batches
from kafwire.records._arrow import Layout
from kafwire.runtime._interfaces import Notifier

RIGHT_CRC, PACK = 1, 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FAST_PATH_VERSIONS = range(FetchRequest.BY_TOPIC_ID, FetchRequest.max_version + 1)
LIMITS = (1 << 16, 1000, 1 << 18, 1 << 20)


def frame(data: bytes) -> None:
    """Cut the stream as the mutation target does."""
    FrameCore().check(data[6:], random.Random(0))


def varint(data: bytes) -> None:
    """Read the numbers by the decoder of messages."""
    Messages().check(data, random.Random(0))


def header(data: bytes) -> None:
    """Scan a slice, or parse a response."""
    if data and data[0] % 2:
        FetchResponses().check(bytes([data[0] // 2]) + data[1:], random.Random(0))
    elif data:
        with contextlib.suppress(ProtocolError):
            frame_ = Buffer(data[1:])
            next_offset, whole, first, _ = scan_headers(frame_, 0, len(frame_))
            assert whole <= len(frame_), "more whole bytes than there are"
            assert not whole or next_offset > first >= 0, "a slice that ends before it begins"


def snappy(data: bytes) -> None:
    """Decompress a block, or compress data and back."""
    if data and data[0] & 1:
        assert decompress("snappy", compress("snappy", data[1:])) == data[1:]
    elif data:
        with contextlib.suppress(ProtocolError):
            decompress("snappy", data[1:])


def json_rows(data: bytes) -> None:
    """Read documents, separated by 0xff, to columns: the rows are those of each document alone."""
    import pyarrow as pa

    from kafwire.json_columns import JsonDecoder

    kinds = {"s": pa.string(), "n": pa.int64(), "b": pa.int8(), "x": pa.float64(), "f": pa.float32(), "k": pa.bool_()}
    decoder = JsonDecoder(pa.schema(list(kinds.items())), on_bad="null")
    texts = data.split(b"\xff")
    found = decoder.decode(texts).to_struct()
    alone = pa.concat_arrays([decoder.decode([text]).to_struct() for text in texts])
    assert str(found) == str(alone), "a row that sees its neighbours"


def fast_path(data: bytes) -> None:
    """Show a response to the fetch fast path: the engine would have queued the same slices."""
    if len(data) < 2:
        return
    version = FAST_PATH_VERSIONS[(data[0] & 63) % len(FAST_PATH_VERSIONS)]
    offsets, frame_ = [data[1] * number for number in range(4)], Buffer(data[2:])
    queue = FetchBuffer(Notifier())
    fed = FetchFastPath(queue)
    for number, offset in enumerate(offsets):
        fed.expect(bytes(16), number, queue.add("t", number, Layout("t", number)), 0, offset, "a broker")
    fed.arm(1, version, 7 if data[0] & 64 else 0)
    fed.deliver(1, frame_)
    taken = fed.taken(1)
    if taken:
        parts = {part.partition: part for part in parse_response(frame_, version).partitions if part.topic == bytes(16)}
        for number, (_, start, after, epoch, size) in taken.items():
            part, offset = parts[number], offsets[number]
            found = scan_headers(frame_, part.position, part.size, offset, part.high_watermark)
            assert (after, size, epoch) == (found[0], found[1], found[3]), "not what the engine finds"
            assert start == offset < after
            assert not part.error_code
    queue.close()


def codec(data: bytes) -> None:
    """Decode record bytes, prepared as the flags say."""
    if len(data) < 2:
        return
    blob = data[2:]
    if data[0] & PACK:
        blob = _packed(blob)
    if data[0] & RIGHT_CRC:
        blob = _right_crcs(blob)
    with contextlib.suppress(ProtocolError):
        for batch in decode_batches(blob, max_decompressed=LIMITS[data[1] >> 6]):
            assert batch.to_arrow().num_rows == len(batch)


def message(data: bytes) -> None:
    """Decode, encode, decode again."""
    choice.check(data, choice.runs())


def avro(data: bytes) -> None:
    """Decode two values as the mutation target does."""
    AvroValues().check(data, random.Random(0))


def protobuf(data: bytes) -> None:
    """Decode two values as the mutation target does."""
    ProtobufValues().check(data, random.Random(0))


def _whole(blob: bytes, at: int) -> int:
    """Return the size of the batch at a place, 0 for none."""
    if len(blob) - at < 17:
        return 0
    length = struct.unpack_from(">i", blob, at + 8)[0]
    least = {0: 14, 1: 22, 2: 49}.get(blob[at + 16], 1 << 31)
    return 12 + length if least <= length <= len(blob) - at - 12 else 0


def _packed(blob: bytes) -> bytes:
    size = _whole(blob, 0)
    if size < 61 or blob[16] != 2 or not 1 <= blob[22] & 7 <= 4:
        return blob
    made = blob[:61] + compress(CODECS[blob[22] & 7], blob[61:size])
    return made[:8] + struct.pack(">i", len(made) - 12) + made[12:]


def _right_crcs(blob: bytes) -> bytes:
    out, at = bytearray(blob), 0
    while size := _whole(blob, at):
        if blob[at + 16] == 2:
            out[at + 17 : at + 21] = struct.pack(">I", crc32c.crc32c(blob[at + 21 : at + size]))
        else:
            out[at + 12 : at + 16] = struct.pack(">I", zlib.crc32(blob[at + 16 : at + size]))
        at += size
    return bytes(out)


REPLAY = {
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
