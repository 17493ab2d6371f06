"""The fuzz targets. Each target's docstring begins with its invariant."""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import crc32c
import pyarrow as pa
from google.protobuf.message import DecodeError

from fuzz import avro_schemas, protobuf_types
from fuzz.avro_schemas import PAIRS
from fuzz.protobuf_types import TYPES
from fuzz.versions import number_of, version_of
from kafwire import protocol
from kafwire.avro import AvroDecoder, AvroEncoder
from kafwire.consumer.fetch._fetch import parse_response, scan_headers
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.protobuf import ProtobufDecoder
from kafwire.records import decode_batches
from kafwire.runtime.frames import Frames
from kafwire.value_columns.decoder import ColumnDecoder

VECTORS = Path(__file__).resolve().parent.parent / "tests/data/made.json.gz"
MAX_DECOMPRESSED = 1 << 22
FETCH_VERSIONS = range(protocol.FetchRequest.min_version, protocol.FetchRequest.max_version + 1)


class Broken(Exception):
    """An invariant does not hold."""


class Target(Protocol):
    """A corpus, and what must hold for every input."""

    def corpus(self) -> Sequence[bytes]:
        """Known-good inputs to start from."""

    def check(self, data: bytes, chance: random.Random) -> None:
        """Raise `Broken` when the invariant does not hold."""


def vectors(*kinds: str) -> list[dict[str, Any]]:
    """The known vectors of some kinds."""
    with gzip.open(VECTORS) as file:
        return [vector for vector in json.load(file)["vectors"] if vector["kind"] in kinds]


class Records:
    """Record bytes decode or raise `ProtocolError`; what decodes has rising offsets, and as many rows as it says."""

    def corpus(self) -> Sequence[bytes]:
        """Batches of all codecs and magics by other clients."""
        found = vectors("record_batches", "message_set", "concatenation", "malformed_records")
        return [bytes.fromhex(vector["hex"]) for vector in found]

    def check(self, data: bytes, chance: random.Random) -> None:
        """Decode as it is, and once more with a right CRC in the first batch, which lets the lies through."""
        for candidate in (data, with_right_crc(data)):
            try:
                batches = decode_batches(candidate, max_decompressed=MAX_DECOMPRESSED)
            except ProtocolError:
                continue
            for batch in batches:
                if batch.to_arrow().num_rows != len(batch):
                    raise Broken(f"{len(batch)} records, {batch.to_arrow().num_rows} rows")
                offsets = [record.offset for record in batch]
                if offsets != sorted(set(offsets)):
                    raise Broken("offsets do not rise within a batch")


class FetchResponses:
    """A Fetch response parses or raises `ProtocolError`; its slices lie within the frame."""

    def corpus(self) -> Sequence[bytes]:
        """Responses with partitions, records, aborted transactions, and the tagged fields of each version."""
        records = bytes.fromhex(vectors("record_batches")[0]["hex"])
        request, response = protocol.FetchRequest, protocol.FetchResponse
        out = []
        for number, version in enumerate(FETCH_VERSIONS):
            parts = [
                response.PartitionData(
                    partition_index=i,
                    high_watermark=9,
                    last_stable_offset=9,
                    aborted_transactions=[response.AbortedTransaction(producer_id=1, first_offset=0)],
                    records=records * i,
                )
                for i in range(3)
            ]
            if version >= request.flexible_from:
                parts[1].diverging_epoch = response.EpochEndOffset(epoch=3, end_offset=7)
                parts[2].current_leader = response.LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
            message = response(
                responses=[
                    response.FetchableTopicResponse(
                        topic="t" if version < request.BY_TOPIC_ID else "", partitions=parts
                    )
                ]
            )
            if version >= request.NAMES_LEADERS:
                message.node_endpoints = [response.NodeEndpoint(node_id=2, host="host", port=9092, rack="rack")]
            header = b"\0\0\0\7" + (b"\0" if version >= request.flexible_from else b"")
            out.append(bytes([number]) + header + message.encode(version))
        return out

    def check(self, data: bytes, chance: random.Random) -> None:
        """The first byte chooses the version."""
        if len(data) < 2:
            return
        frame = Buffer(data[1:])
        try:
            response = parse_response(frame, FETCH_VERSIONS[data[0] % len(FETCH_VERSIONS)])
            for part in response.partitions:
                if part.position + part.size > len(frame):
                    raise Broken("a slice reaches beyond its frame")
                _, whole, _, _ = scan_headers(frame, part.position, part.size)
                if whole > part.size:
                    raise Broken("more whole bytes than there are")
        except ProtocolError:
            pass


class Messages:
    """A message body decodes or raises `ProtocolError`; what decodes encodes, and decodes to the same again."""

    def corpus(self) -> Sequence[bytes]:
        """Bodies by other clients: class number, version, body."""
        names = list(protocol.MESSAGES)
        found = [v for v in vectors("request_body", "response_body") if v["message"] in names]
        return [
            bytes([names.index(v["message"]), number_of(protocol.MESSAGES[v["message"]], v["version"])])
            + bytes.fromhex(v["hex"])
            for v in found
        ]

    def check(self, data: bytes, chance: random.Random) -> None:
        """The first two bytes choose the class and its version, valid or removed."""
        if len(data) < 2:
            return
        names = list(protocol.MESSAGES)
        message: Any = protocol.MESSAGES[names[data[0] % len(names)]]
        version = version_of(message, data[1])
        try:
            first = message.decode(data[2:], version)
        except ProtocolError:
            return
        again = message.decode(first.encode(version), version)
        if again != first and repr(again) != repr(first):  # a NaN does not equal itself
            raise Broken(f"{message.__name__} version {version} changes by encoding and decoding")


class FrameCore:
    """However bytes are cut, the frame core completes the same responses and is poisoned by the same one."""

    def corpus(self) -> Sequence[bytes]:
        """Streams of one to five responses with rising correlation ids."""
        return [
            b"".join(struct.pack(">ii", 4 + size, i + 1) + bytes(size) for i, size in enumerate(sizes))
            for sizes in ((0,), (1, 0, 5), (100, 3), (70, 70, 1, 0, 300))
        ]

    def check(self, data: bytes, chance: random.Random) -> None:
        """Feed whole, byte by byte, and in random pieces."""
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(4)) if data else []
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        outcomes = {run_frames(way) for way in ((data,), tuple(bytes([b]) for b in data), tuple(pieces))}
        if len(outcomes) != 1:
            raise Broken(f"the outcome depends on how bytes are cut: {outcomes}")


def run_frames(pieces: Sequence[bytes]) -> tuple[object, ...]:
    """The outcome of `pieces` in a frame core that waits for five responses."""
    frames = Frames(1 << 20)
    for token in range(1, 6):
        frames.queue(token, token, [b"request"])
    frames.take()
    for piece in pieces:
        if frames.poison is None:
            try:
                frames.feed(piece)
            except ProtocolError:
                break
    done = tuple((kind, token, bytes(frame or b"")) for kind, token, frame in frames.completions())
    return done, frames.poison is not None


def with_right_crc(data: bytes) -> bytes:
    """The same with the CRC of its first magic 2 batch put right, if there is one."""
    if len(data) < 61 or data[16] != 2:
        return data
    end = 12 + struct.unpack(">i", data[8:12])[0]
    if not 61 <= end <= len(data):
        return data
    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:end])) + data[21:]


class ColumnValues:
    """Any bytes as values become a valid Arrow array; beside a bad value, a good one decodes as it does alone."""

    def __init__(self, decoders: Sequence[ColumnDecoder], corpus: Callable[[], Sequence[bytes]]) -> None:
        self._decoders = decoders
        self.corpus = corpus

    def check(self, data: bytes, chance: random.Random) -> None:
        """The first byte chooses the decoder, the second one is the length of the first value."""
        del chance
        if len(data) < 2:
            return
        number = data[0] % len(self._decoders)
        first, second = data[2 : 2 + data[1]], data[2 + data[1] :]
        decoder = self._decoders[number]
        both, alone = decoder.decode([first, second]), decoder.decode([second])
        found = pa.array(both)
        found.validate(full=True)
        if len(found) != 2 - len(both.bad):
            raise Broken(f"{len(found)} rows of 2 values, {len(both.bad)} of them bad")
        if both.bad and both.bad[0].row == 0 and not found.equals(pa.array(alone)) and "nan" not in str(found):
            raise Broken("a bad value leaves something behind")
        self.judge(number, second, cause=alone.bad[0].cause if alone.bad else None)

    def judge(self, number: int, value: bytes, *, cause: str | None) -> None:
        """Compare a value's outcome, the cause of a bad one, with another implementation's, if there is one."""


class AvroValues(ColumnValues):
    """Values of pairs of schemas."""

    def __init__(self) -> None:
        super().__init__(
            [AvroDecoder(reader, writer=writer, on_bad="drop", max_empty_items=50) for writer, reader in PAIRS],
            avro_schemas.corpus,
        )


class ProtobufValues(ColumnValues):
    """Values of some types: the package protobuf refuses the same ones."""

    def __init__(self) -> None:
        super().__init__([ProtobufDecoder(kind, on_bad="drop") for kind in TYPES], protobuf_types.corpus)

    def judge(self, number: int, value: bytes, *, cause: str | None) -> None:
        """Parse it. Bad here alone are a time that no column holds, and field number 0, which upb skips in groups."""
        try:
            TYPES[number].FromString(value)
        except DecodeError:
            if cause is None:
                raise Broken("a value that the package protobuf refuses") from None
        else:
            here_alone = ("the time is out of range", "no field begins with the byte")
            if cause is not None and not any(text in cause for text in here_alone):
                raise Broken("a value is bad that the package protobuf reads")


class AvroColumns:
    """Columns decoded from any bytes, and slices of them, are encoded to values that decode to the same columns."""

    def __init__(self) -> None:
        self._pairs = [
            (
                AvroDecoder(reader, writer=writer, on_bad="drop", max_empty_items=50, enums=enums),
                AvroEncoder(reader, prefix=b"prefix"),
                AvroDecoder(reader, writer=reader, enums=enums),
            )
            for writer, reader in PAIRS
            for enums in ("string", "dictionary")
        ]

    def corpus(self) -> Sequence[bytes]:
        """A pair of values for each pair of schemas."""
        return [bytes([2 * each[0] + odd]) + each[1:] for each in avro_schemas.corpus() for odd in (0, 1)]

    def check(self, data: bytes, chance: random.Random) -> None:
        """The first byte chooses schemas and the form of enums, the second one is the length of the first value."""
        if len(data) < 2:
            return
        decoder, encoder, again = self._pairs[data[0] % len(self._pairs)]
        columns = pa.array(decoder.decode([data[2 : 2 + data[1]], data[2 + data[1] :]]))
        if decoder.is_wrapped and columns.flatten()[0].null_count:
            return  # a null of a union becomes a null value
        for first in range(len(columns) + 1):
            given = columns[first:]
            values = encoder.encode(given).to_arrow()
            values.validate(full=True)
            found = pa.array(again.decode([each[len(b"prefix") :] for each in values.to_pylist()]))
            if not found.equals(given) and "nan" not in str(given):
                raise Broken(f"{given} became {found}")


TARGETS: dict[str, Target] = {
    "records": Records(),
    "fetch-responses": FetchResponses(),
    "messages": Messages(),
    "frames": FrameCore(),
    "avro-values": AvroValues(),
    "protobuf-values": ProtobufValues(),
    "avro-columns": AvroColumns(),
}
