"""The fuzz targets of the Python surface. Each target's docstring begins with its invariant.

Nothing here needs atheris: a target takes bytes and raises when its invariant does not hold, so a committed case is
replayed in any environment.
"""

from __future__ import annotations

import io
import json
import random
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from uuid import UUID

import click

from fuzz.atheris.choices import Choices
from fuzz.native.replay import _right_crcs as with_right_checksums
from fuzz.targets import FrameCore, run_frames, vectors
from fuzz.versions import number_of
from kafwire import config, protocol
from kafwire.cli.decoder import Decoder
from kafwire.cli.findings import Findings
from kafwire.cli.output import JsonWriter
from kafwire.cli.source import Frame
from kafwire.errors import ConfigError, ProtocolError
from kafwire.protocol import MESSAGES, Data, Message, Request
from kafwire.protocol.batch_json import batch_json, records_json
from kafwire.protocol.coordinator_json import key_json, value_json
from kafwire.protocol.dump import CLIENT, SERVER, Dump, Event, RequestFrame, ResponseFrame, read_request
from kafwire.protocol.kafka_json import _shape, from_json, to_json
from kafwire.protocol.lazy_json import BYTES_FORMS
from kafwire.protocol.log import LogReader, split_batches
from kafwire.protocol.log_index import OFFSET_INDEX, TIME_INDEX, index_entries
from kafwire.protocol.producer_snapshot import producer_snapshot
from kafwire.protocol.spec import Struct, Versions, field, int8, int16, int32, int64, record_bytes, uint16, uint32
from kafwire.protocol.versions import choose
from kafwire.records import decode_batches

MAX_DECOMPRESSED = 1 << 22
MAX_MEMORY = 64 << 20
RECORDS = ("record_batches", "message_set", "concatenation", "malformed_records")


class Broken(Exception):
    """An invariant does not hold."""


def require(holds: object, what: str) -> None:
    """Raise `Broken` unless something holds."""
    if not holds:
        raise Broken(what)


# --- messages ---


def response(data: bytes) -> None:
    """A response decodes or raises ProtocolError, the same each time; a decoded one encodes to the same."""
    choices = Choices(data)
    requests = _requests()
    cls = requests[choices.below(len(requests))]
    version = choices.version(cls)
    body = choices.rest()
    try:
        correlation_id, message = protocol.decode_response(cls, body, version, max_memory=MAX_MEMORY)
    except ProtocolError as error:
        require(error.offset is None or 0 <= error.offset <= len(body), f"an offset of {error.offset}")
        _raises_the_same(lambda: protocol.decode_response(cls, body, version, max_memory=MAX_MEMORY), error)
        return
    again = protocol.decode_response(cls, bytearray(body), version, max_memory=MAX_MEMORY)
    require(again[0] == correlation_id, "the correlation id changes")
    require(_same(again[1], message), "the same bytes decode to something else")
    if cls.api_key != 18:  # a response that refuses a version may be in another one
        require(
            message.encode(version) == type(message).decode(message.encode(version), version).encode(version),
            "bytes change by decoding and encoding",
        )


def request(data: bytes) -> None:
    """Any values make a message or a ProtocolError; what encodes is read back, and survives to_dict and from_dict."""
    choices = Choices(data)
    requests = _requests()
    cls: Any = requests[choices.below(len(requests))]
    if choices.byte() & 1:
        cls = cls.response
    version = choices.version(cls)
    values = choices.anything() if choices.one_in(64) else choices.fields(cls, version)
    try:
        message = cls.from_dict(values)
    except ProtocolError:
        return
    try:
        body = message.encode(version)
    except ProtocolError as error:
        _raises_the_same(lambda: message.encode(version), error)
        message.to_dict()
        repr(message)
        return
    found = cls.decode(body, version)
    require(found.encode(version) == body, "bytes change by decoding and encoding")
    copy = cls.from_dict(message.to_dict())
    require(copy.encode(version) == body, "bytes change by way of to_dict")
    if issubclass(cls, Request):
        client_id = choices.text()
        try:
            whole = protocol.encode_request(message, version, choices.byte() - 128, client_id)
        except ProtocolError:
            require(any("\ud800" <= char <= "\udfff" for char in client_id), f"the client id {client_id!r} is refused")
            return
        frame = read_request(whole)
        require(frame.error is None, f"an encoded request cannot be read: {frame.error}")
        require(frame.message is not None and frame.message.encode(version) == body, "another request is read")


def spec(data: bytes) -> None:
    """A declaration is refused with TypeError or ValueError, or makes a message that survives bytes and JSON."""
    choices = Choices(data)
    _shape.cache_clear()  # or every class that was ever declared stays
    cls = _declared(choices)
    if cls is None:
        return
    for version in range(cls.min_version, cls.max_version + 1):
        try:
            cls.plan(version)
        except TypeError:  # what contradicts itself in one version is found there
            continue
        for values in ({}, choices.fields(cls, version)):
            try:
                message = cls.from_dict(values)
                body = message.encode(version)
            except ProtocolError:
                continue
            found = cls.decode(body, version)
            require(found.encode(version) == body, f"version {version} of {cls.__fields__} changes")
            with suppress(
                ProtocolError
            ):  # records and bytes are in base64 there, and every version's name has to differ
                read = from_json(cls, to_json(found, version), version)
                require(_same(read, found), f"version {version} of {cls.__fields__} changes in JSON")


def kafka_json(data: bytes) -> None:
    """JSON describes a message or raises ProtocolError; a message survives to_json and from_json, and bytes."""
    choices = Choices(data)
    cls = choices.message_class()
    version = choices.version(cls)
    try:
        value = json.loads(choices.rest())
    except (ValueError, RecursionError):
        return
    try:
        message = from_json(cls, value, version)
    except ProtocolError as error:
        _raises_the_same(lambda: from_json(cls, value, version), error)
        return
    text = json.dumps(to_json(message, version))
    again = from_json(cls, json.loads(text), version)
    require(_same(again, message), "a message changes by way of JSON")
    try:
        body = message.encode(version)
    except ProtocolError:
        return
    require(again.encode(version) == body, "a message from JSON encodes to something else")
    decoded = to_json(cls.decode(body, version), version)
    require(json.dumps(decoded) == text, "a message that went through bytes has another JSON")


# --- records ---


def records(data: bytes) -> None:
    """Record bytes decode or raise ProtocolError, whole, batch by batch or byte by byte; JSON and Arrow agree."""
    choices = Choices(data)
    flags = choices.byte()
    blob = choices.rest()
    if flags & 1:
        blob = with_right_checksums(blob)
    try:
        batches = decode_batches(blob, max_decompressed=MAX_DECOMPRESSED)
    except ProtocolError as error:
        require(error.offset is not None and 0 <= error.offset <= len(blob), f"an offset of {error.offset}")
        batches = None
    parts = _until_error(split_batches(blob, max_decompressed=MAX_DECOMPRESSED))
    failed = any(isinstance(part, ProtocolError) for part in parts)
    require(not failed or batches is None, "an error only when batches are split first")
    # The start of a batch at the end is a tail to `split_batches`, and may be an error already: of a magic not known.
    require(
        batches is not None or failed or isinstance(parts[-1], int), "an error but not when batches are split first"
    )
    whole = [part for part in parts if not isinstance(part, int | ProtocolError)]
    if batches is not None:
        require(len(whole) == len(batches), f"{len(batches)} batches, and {len(whole)} one by one")
        for one, other in zip(whole, batches, strict=True):
            require(list(one.batch) == list(other), "records differ when batches are split first")
    for part in whole:
        rows = list(records_json(part, BYTES_FORMS[flags >> 1 & 3]))  # type: ignore[arg-type]
        written = json.loads(_written([batch_json(part), rows]))
        require(
            [row["offset"] for row in written[1]] == [record.offset for record in part.batch], "offsets differ in JSON"
        )
        require(len(rows) == len(part.batch), f"{len(part.batch)} records, {len(rows)} in JSON")
        if flags & 8:
            table = part.batch.to_arrow()
            table.validate(full=True)
            require(table.num_rows == len(rows), f"{len(rows)} records, {table.num_rows} rows")
            require(table.column("offset").to_pylist() == [row["offset"] for row in rows], "offsets differ")
    if flags & 16 and len(blob) < 512:
        log = LogReader(max_decompressed=MAX_DECOMPRESSED)
        seen = 0
        with suppress(ProtocolError):
            for i in range(len(blob)):
                log.feed(blob[i : i + 1])
                seen += sum(1 for _ in log.batches())
        require(seen == len(whole), "byte by byte differs")


# --- connections ---


def wire(data: bytes) -> None:
    """Cuts do not change the frame core's responses; negotiation gives a version of both sides or a ProtocolError."""
    choices = Choices(data)
    theirs = {choices.byte(): (choices.byte() - 2, choices.byte() - 2) for _ in range(choices.below(3))}
    ours = sorted((choices.byte(), choices.byte()))
    at_most = choices.byte() if choices.byte() & 1 else None
    key = choices.byte()
    try:
        version = choose("Fetch", (ours[0], ours[1]), key, theirs, at_most=at_most)
    except ProtocolError:
        pass
    else:
        low, high = theirs[key]
        require(max(low, ours[0]) <= version <= min(high, ours[1]), f"{version} is not in both of {ours} and {theirs}")
        require(at_most is None or version <= at_most, f"{version} is above {at_most}")
    dice = random.Random(choices.byte())
    stream = choices.rest()
    cuts = sorted(dice.randrange(len(stream) + 1) for _ in range(4)) if stream else []
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    ways = [(stream,), tuple(pieces), tuple(stream[i : i + 1] for i in range(len(stream)))]
    outcomes = {run_frames(way) for way in ways}
    require(len(outcomes) == 1, f"the outcome depends on how bytes are cut: {outcomes}")


def dump(data: bytes) -> None:
    """Two streams give the same events however cut, every frame once, in JSON too; only ProtocolError escapes."""
    choices = Choices(data)
    flags = choices.byte()
    dice = random.Random(choices.byte())
    size = choices.byte() << 8 | choices.byte()
    client = choices.take(size)
    server = choices.rest()
    step = 1 + dice.randrange(20) + (len(client) + len(server)) // 40
    require(_said(client, server, 1 << 20) == _said(client, server, step), "what was said depends on how bytes are cut")
    stream = io.BytesIO()
    findings = Findings(JsonWriter(pretty=bool(flags & 1), stream=stream))
    decoder = Decoder(
        findings,
        records=bool(flags & 2),
        raw_records=bool(flags & 4),
        bytes_form=BYTES_FORMS[flags >> 3 & 3],  # type: ignore[arg-type]
    )
    decoder.requests([Frame(0, client), Frame(4, server, missing=flags >> 7)])
    cls = choices.message_class()
    with suppress(click.ClickException):
        decoder.message(cls, cls.oldest_version if flags & 32 else None, server)
    with suppress(click.ClickException):
        findings.finish()
    for read in (
        producer_snapshot,
        lambda data: list(index_entries(data, TIME_INDEX if flags & 1 else OFFSET_INDEX, 0)),
    ):
        with suppress(ProtocolError):
            read(server)
    json.dumps([key_json("__consumer_offsets", server), value_json("__consumer_offsets", client, server)])
    text = stream.getvalue().decode()
    if not flags & 1:
        for line in text.splitlines():
            json.loads(line)


def configuration(data: bytes) -> None:
    """Any mapping makes a configuration or a ConfigError that names the option; accepted values are accepted again."""
    choices = Choices(data)
    classes: tuple[Any, ...] = (config.ClientConfig, config.ProducerConfig, config.ScanConfig)
    cls = classes[choices.below(3)]
    known = [name.replace("_", ".") for name in cls.__dataclass_fields__]
    options: dict[Any, Any] = {}
    for _ in range(choices.below(8)):
        name = choices.text() if choices.one_in(8) else known[choices.below(len(known))]
        options[name] = choices.anything() if choices.byte() & 1 else _likely(choices)
    if choices.byte() % 4:
        options["bootstrap.servers"] = "localhost:9092" if choices.byte() & 1 else choices.text()
    try:
        built = cls.build(config.from_dotted(options))
    except ConfigError as error:
        require(str(error), "an error without a text")
        str(error).encode("utf-8", "surrogatepass")
        return
    repr(built)
    given = {name.replace(".", "_") for name in options}  # a default that was not given binds less than one that was
    values = {name: value for name, value in asdict(built).items() if name in given}
    again = cls.build(values | {"bootstrap_servers": [f"{host}:{port}" for host, port in built.bootstrap_servers]})
    require(again == built, f"{built} is taken for {again} when it is given once more")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "py-response": response,
    "py-request": request,
    "py-spec": spec,
    "py-json": kafka_json,
    "py-records": records,
    "py-wire": wire,
    "py-dump": dump,
    "py-config": configuration,
}


# --- parts ---


def _written(value: Any) -> bytes:
    stream = io.BytesIO()
    writer = JsonWriter(pretty=False, stream=stream)
    writer.write(value)
    writer.flush()
    return stream.getvalue()


def _requests() -> list[Any]:
    return [MESSAGES[name] for name in sorted(MESSAGES) if name.endswith("Request")]


def _same(one: Struct, other: Struct) -> bool:
    """Equal, or different in nothing but floats that are no numbers."""
    return one == other or repr(one.to_dict()) == repr(other.to_dict())


def _raises_the_same(call: Callable[[], object], error: ProtocolError) -> None:
    try:
        call()
    except ProtocolError as again:
        require(str(again) == str(error), f"{error}, and the second time {again}")
    else:
        raise Broken(f"{error}, and nothing the second time")


def _until_error(parts: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    try:
        found.extend(parts)
    except ProtocolError as error:
        found.append(error)
    return found


def _likely(choices: Choices) -> Any:
    words = ("all", "true", "false", "none", "gzip", "zstd", "PLAINTEXT", "read_committed", "a:1,b:2", "1", "-1", "1e3")
    return words[choices.below(len(words))] if choices.byte() & 1 else choices.whole()


def _declared(choices: Choices) -> type[Message] | None:
    kinds: tuple[Any, ...] = (bool, int8, int16, int32, int64, uint16, uint32, float, str, bytes, UUID, record_bytes)
    lowest = choices.below(3)
    highest = lowest + choices.below(4)
    versions = f"{lowest}-{highest}"
    flexible = f"{choices.below(6)}+" if choices.byte() & 1 else None

    def body(depth: int) -> dict[str, Any]:
        namespace: dict[str, Any] = {"__annotations__": {}, "__module__": __name__, "__qualname__": "Fuzzed"}
        for i in range(choices.below(5)):
            name = f"field_{i}"
            annotation: Any = kinds[choices.below(len(kinds))]
            if depth < 2 and choices.one_in(6):
                inner = body(depth + 1)
                annotation = namespace[f"Inner{i}"] = types.new_class(
                    f"Inner{i}",
                    (Struct,),
                    exec_body=lambda space, inner=inner: space.update(inner),  # type: ignore[misc]
                )
            if choices.one_in(4):
                annotation = types.GenericAlias(list, (annotation,))
            options: dict[str, Any] = {}
            low = choices.below(6)
            text = (f"{low}+", f"{low}-{low + choices.below(4)}", "0+")[choices.below(3)]
            if choices.one_in(4):
                options["nullable"] = (text, "0+", f"{choices.below(6)}+")[choices.below(3)]
                annotation = annotation | None
            if choices.one_in(4):
                options["tag"] = i + 300 * (choices.byte() & 1)
                if choices.byte() & 1:
                    options["tagged"] = f"{choices.below(6)}+"
            if choices.one_in(6):
                options["default"] = choices.below(100) if annotation in kinds[1:7] else None
            if choices.one_in(6):
                options["ignorable"] = True
            if choices.one_in(12):
                options["flexible"] = False
            namespace["__annotations__"][name] = annotation
            namespace[name] = field(text, **options)
        return namespace

    try:
        namespace = body(0)
        Versions.parse(versions)
        return types.new_class(
            "Fuzzed", (Data,), {"versions": versions, "flexible": flexible}, lambda space: space.update(namespace)
        )
    except (TypeError, ValueError):
        return None


def _said(client: bytes, server: bytes, step: int) -> list[str]:
    reader = Dump(max_frame_bytes=1 << 16)
    streams = {CLIENT: io.BytesIO(client), SERVER: io.BytesIO(server)}
    said: list[str] = []
    frames = 0
    while reader.wanted is not None:
        side = reader.wanted
        part = streams[side].read(step)
        if part:
            reader.feed(side, part)
        else:
            reader.end(side)
        try:
            for event in reader.events():
                said.append(_shown(event))
                frames += 1
        except ProtocolError as error:
            said.append(str(error))
            break
        require(frames <= len(client) + len(server) + 4, "more events than bytes")
    return said


def _shown(event: Event) -> str:
    text = repr(event)
    if isinstance(event, RequestFrame | ResponseFrame):
        require((event.message is None) <= (event.error is not None), "neither a message nor an error")
        if event.message is not None and event.version is not None:
            version = min(event.version, type(event.message).max_version)
            json.loads(_written(to_json(event.message, version, records="size")))
    return text


# --- inputs to start from ---


def seeds(name: str) -> Iterator[bytes]:
    """Return inputs for a target, made of the known vectors and of every message."""
    if name == "py-response":
        requests = _requests()
        for i, cls in enumerate(requests):
            response: Any = cls.response
            for version in range(cls.oldest_version, cls.max_version + 1):
                header = b"\0\0\0\7" + (b"\0" if version >= response.flexible_from and cls.api_key != 18 else b"")
                yield bytes([i, number_of(cls, version)]) + header + response().encode(version)
        for vector in _bodies("response_body"):
            number = [cls.response.__name__ for cls in requests].index(vector["message"])
            cls = requests[number]
            version = int(vector["version"])
            header = b"\0\0\0\7" + (b"\0" if version >= cls.response.flexible_from and cls.api_key != 18 else b"")
            yield bytes([number, number_of(cls, version)]) + header + bytes.fromhex(vector["hex"])
    elif name == "py-json":
        names = sorted(MESSAGES)
        for vector in _bodies("request_body", "response_body"):
            cls = MESSAGES[vector["message"]]
            version = int(vector["version"])
            text = json.dumps(to_json(cls.decode(bytes.fromhex(vector["hex"]), version), version))
            yield bytes([names.index(vector["message"]), number_of(cls, version)]) + text.encode()
        for number, message_name in enumerate(names):
            cls = MESSAGES[message_name]
            for version in range(cls.oldest_version, cls.max_version + 1):
                with suppress(ProtocolError):  # null is a default that not every version allows
                    text = json.dumps(to_json(cls(), version))
                    yield bytes([number, number_of(cls, version)]) + text.encode()
    elif name == "py-records":
        for i, vector in enumerate(vectors(*RECORDS)):
            yield bytes([i % 32]) + bytes.fromhex(vector["hex"])
    elif name == "py-wire":
        for stream in FrameCore().corpus():
            yield b"\1\1\2\11\0\5\0\0\1\0" + stream
    elif name == "py-dump":
        frames = [bytes.fromhex(vector["hex"]) for vector in vectors("request_frame", "response_frame")]
        for one in frames:
            for other in frames[:3]:
                yield bytes([2, len(other) % 256, len(one) >> 8 & 255, len(one) & 255]) + one + other
    else:
        dice = random.Random(name)
        for size in (4, 16, 64, 256, 1024):
            for _ in range(40):
                yield dice.randbytes(size)


def _bodies(*kinds: str) -> list[dict[str, Any]]:
    """Known bodies in versions that exist."""
    return [
        vector
        for vector in vectors(*kinds)
        if vector["message"] in MESSAGES
        and MESSAGES[vector["message"]].oldest_version <= vector["version"] <= MESSAGES[vector["message"]].max_version
    ]
