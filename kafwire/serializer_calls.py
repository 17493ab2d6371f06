"""Calls of a producer's serializers, and of a reader's deserializers, for keys and values.

None stays None, and is passed to neither. Their exceptions are raised as a `SerializationError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from kafwire.errors import ConfigError, DecodeError, KafkaError, SerializationError
from kafwire.records._records import Batch, Record, RecordIterator
from kafwire.serialization import Codec, ColumnContext, Headers, SerializationContext
from kafwire.serializer_signature import LoopContext, RequestNeeded

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.config import FetchConfig, ProducerConfig

_NO_ARROW = "a serializer's form for columns needs the package pyarrow: install kafwire[arrow]"


class Serializers:
    """The serializers of one producer."""

    def __init__(self, key: Codec | None, value: Codec | None) -> None:
        self._key = None if key is None else key.of("key")
        self._value = value
        self.has_columns = any(codec is not None and codec.column is not None for codec in (key, value))
        self._sends_requests = any(codec is not None and codec.lookups is not None for codec in (key, value))
        self._topics: set[str | None] = set()  # whose columns were converted

    @classmethod
    def of(cls, config: ProducerConfig, *, blocking: bool = False) -> Self | None:
        """Return the serializers, or None if keys and values are bytes.

        `ConfigError` for an async one if `blocking`.
        """
        key, value = config.key_serializer, config.value_serializer
        if key is None and value is None:
            return None
        if blocking:
            _refuse_async({"key_serializer": key, "value_serializer": value}, "AsyncProducer")
        return cls(key, value)

    def serialize(self, topic: str, value: Any, key: Any, headers: Any) -> tuple[Any, Any, Headers | None]:
        """Return the value, key and headers to send."""
        pairs = [] if headers is None else _pairs(headers)
        if self._key is not None and key is not None:
            key = _serialized(self._key, key, topic, pairs, "key")
        if self._value is not None and value is not None:
            value = _serialized(self._value, value, topic, pairs, "value")
        return value, key, pairs or None

    async def serialize_awaited(
        self, topic: str, value: Any, key: Any, headers: Any, turn: Callable[[], Awaitable[None]]
    ) -> tuple[Any, Any, Headers | None]:
        """Return the value, key and headers to send; serializers may be async.

        Await `turn()` before a format's request to its registry, which runs in another thread.
        """
        pairs = [] if headers is None else _pairs(headers)
        if self._key is not None and key is not None:
            key = _bytes(await _sent(self._key, key, topic, pairs, "key", turn), topic, "key")
        if self._value is not None and value is not None:
            value = _bytes(await _sent(self._value, value, topic, pairs, "value", turn), topic, "value")
        return value, key, pairs or None

    def may_send_requests(self, topic: str | None) -> bool:
        """Return True if the next columns for the topic may need a format's request to its registry."""
        return self._sends_requests and topic not in self._topics

    def chunks(self, topic: str | None, data: Any) -> Iterator[Any]:
        """Yield the Arrow data to send: unchanged, or piece by piece if a serializer has a method for columns."""
        if not self.has_columns:
            yield data
            return
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError(_NO_ARROW) from error
        if hasattr(data, "__arrow_c_stream__"):
            pieces: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(data)
        elif hasattr(data, "__arrow_c_array__"):
            pieces = [pa.record_batch(data)]
        else:
            yield data  # no Arrow data: the producer raises the error
            return
        for rows in pieces:
            headers: Headers = []
            for name, codec in (("key", self._key), ("value", self._value)):
                at = rows.schema.get_field_index(name)
                if at >= 0 and codec is not None and codec.column is not None:
                    ctx = ColumnContext(topic or "", name)
                    made = _column(codec, rows.column(at), ctx)
                    headers += ctx.headers
                    rows = rows.set_column(at, name, made)  # noqa: PLW2901
            self._topics.add(topic)
            yield _with_headers(rows, headers) if headers else rows


# "key" or "value", the `SchemaLookups` of its format, and the schema ids.
Unresolved = list[tuple[str, Any, Any]]
_Rows = TypeVar("_Rows", Batch, Record)


class _Place(NamedTuple):
    """The place of rows, all of one partition: the offsets are -1 if they are not read."""

    topic: str | None
    partition: int | None
    first: int
    last: int


class Deserializers:
    """The deserializers of one reader; its batches call them."""

    def __init__(self, key: Codec | None, value: Codec | None, names: Mapping[str, str]) -> None:
        self._key = None if key is None else key.of("key")
        self._value = value
        self._names = names
        codecs = (("key", key), ("value", value))
        self._lookups = [(part, each.lookups) for part, each in codecs if each is not None and each.lookups is not None]
        self.has_columns = any(codec is not None and codec.column is not None for codec in (key, value))
        self.is_async = any(codec is not None and codec.is_async for codec in (key, value))

    @classmethod
    def of(cls, config: FetchConfig, layout: Mapping[str, Any] | None, *, blocking: bool = False) -> Self | None:
        """Return the deserializers, or None if keys and values are bytes.

        `ConfigError` for an async one if `blocking`.
        """
        key, value = config.key_deserializer, config.value_deserializer
        if key is None and value is None:
            return None
        if blocking:
            _refuse_async({"key_deserializer": key, "value_deserializer": value}, "AsyncConsumer")
        return cls(key, value, (layout or {}).get("names") or {})

    def deserialize(self, record: Record) -> tuple[Any, Any]:
        """Return the deserialized key and value of a record."""
        if self.is_async:
            raise KafkaError("an async deserializer has to be awaited: write 'async for record in ...'")
        key, value, topic = record.key, record.value, record.topic or ""
        if self._key is not None and key is not None:
            key = _deserialized(self._key, key, topic, "key", record)
        if self._value is not None and value is not None:
            value = _deserialized(self._value, value, topic, "value", record)
        return key, value

    def unresolved(self, rows: Batch | Record) -> Unresolved:
        """Return the schemas that a batch, or a record of bytes, needs from a registry. No request is sent."""
        return [(part, each, ids) for part, each in self._lookups if (ids := each.unresolved(rows, part))]

    def resolve(self, rows: _Rows, unresolved: Unresolved | None = None) -> _Rows:
        """Look up schemas, and return the rows: their conversion sends no request then. Blocks; raises no error."""
        for part, lookups, ids in self.unresolved(rows) if unresolved is None else unresolved:
            lookups.resolve(rows.topic, part, ids)
        return rows

    async def resolve_again(self, rows: _Rows) -> None:
        """Look up schemas in another thread, after the conversion of a record failed."""
        if needed := self.unresolved(rows):
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, lambda: self.resolve(rows, needed))

    def deserialized(self, record: Record) -> Record:
        """Return the deserialized record of one whose key and value are bytes."""
        return _with(record, *self.deserialize(record))

    async def deserialize_awaited(self, record: Record) -> Record:
        """Return the deserialized record, as `deserialized` does; deserializers may be async."""
        key, value, topic = record.key, record.value, record.topic or ""
        if self._key is not None and key is not None:
            key = await _awaited(self._key, key, topic, record.headers, "key", record)
        if self._value is not None and value is not None:
            value = await _awaited(self._value, value, topic, record.headers, "value", record)
        return _with(record, key, value)

    async def records(self, records: RecordIterator) -> AsyncIterator[Record]:
        """Iterate over deserialized records; a record that cannot be deserialized stays the next one."""
        while True:
            try:
                record = records.peek()
            except StopIteration:
                return
            record = await self.deserialize_awaited(record)
            records.skip()
            yield record

    def to_arrow(self, batch: Batch, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Deserialize the batch's keys and values whose deserializer has a method for whole columns."""
        return self._typed(rows, _Place(batch.topic, batch.partition, batch.base_offset, batch.next_offset - 1))

    def stream_rows(self, rows: pa.RecordBatch, topic: str) -> pa.RecordBatch:
        """Deserialize rows of an Arrow stream, all of one partition. `topic` is "" if the column `topic` names it."""
        if not rows.num_rows:
            return self._typed(rows, _Place(topic, None, -1, -1))
        named, numbers, offsets = (self._beside(rows, column) for column in ("topic", "partition", "offset"))
        topic = topic if named is None else named[0].as_py()
        partition = None if numbers is None else numbers[0].as_py()
        first, last = (-1, -1) if offsets is None else (offsets[0].as_py(), offsets[-1].as_py())
        return self._typed(rows, _Place(topic, partition, first, last))

    def _typed(self, rows: pa.RecordBatch, place: _Place) -> pa.RecordBatch:
        for part, codec in (("key", self._key), ("value", self._value)):
            name = self._names.get(part, part)
            at = rows.schema.get_field_index(name)
            if at >= 0 and codec is not None and codec.column is not None:
                headers, offsets = self._beside(rows, "headers"), self._beside(rows, "offset")
                ctx = ColumnContext(place.topic or "", part, place.partition, headers, offsets)
                rows = rows.set_column(at, name, _column(codec, rows.column(at), ctx, place))
        return rows

    def _beside(self, rows: pa.RecordBatch, column: str) -> Any:
        """Return a column of the rows that a format needs beside the bytes; None if it is not read."""
        at = rows.schema.get_field_index(self._names.get(column, column))
        return None if at < 0 else rows.column(at)

    def schema(self, layout: pa.Schema, topic: str) -> pa.Schema | None:
        """Return the schema of Arrow data with the types of the formats; None if only rows tell a type.

        `layout` is the schema of bytes. `topic` is "" for several topics.
        """
        for part, codec in (("key", self._key), ("value", self._value)):
            at = layout.get_field_index(self._names.get(part, part))
            if at >= 0 and codec is not None and codec.column is not None:
                made = None if codec.arrow_type is None else codec.arrow_type(ColumnContext(topic, part))
                if made is None:
                    return None
                layout = layout.set(at, layout.field(at).with_type(made).with_nullable(True))
        return layout


def _with(record: Record, key: Any, value: Any) -> Record:
    return Record(
        value,
        key,
        headers=record.headers,
        timestamp_ms=record.timestamp_ms,
        timestamp_type=record.timestamp_type,
        offset=record.offset,
        topic=record.topic,
        partition=record.partition,
    )


def _refuse_async(codecs: Mapping[str, Codec | None], other: str) -> None:
    for name, codec in codecs.items():
        if codec is not None and codec.is_async:
            raise ConfigError(
                f"option {name}={codec!r} is an async function, which a blocking client cannot await: "
                f"use kafwire.{other}"
            )


def _pairs(headers: Any) -> Headers:
    """Headers as a list that serializers may add to, with values as bytes."""
    if not isinstance(headers, Iterable):
        raise ConfigError(f"headers={headers!r}: a list of (key, value) pairs is needed")
    pairs = list(headers.items() if isinstance(headers, dict) else headers)
    for i, pair in enumerate(pairs):
        if isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], str):
            with contextlib.suppress(UnicodeEncodeError):  # the encoder of headers refuses it later
                pairs[i] = (pair[0], pair[1].encode())
    return pairs


def _serialized(codec: Codec, data: Any, topic: str, headers: Headers, part: str) -> Any:
    try:
        made = codec.convert(data, topic, headers) if codec.alone is None else codec.alone(data)
        if type(made) is not bytes:
            _refuse_awaitable(made)
    except Exception as error:
        raise _failed(error, topic, part, None) from error
    return made if type(made) is bytes else _bytes(made, topic, part)


def _deserialized(codec: Codec, data: Any, topic: str, part: str, record: Record) -> Any:
    try:
        made = codec.alone(data) if codec.alone is not None else _value_of(codec, data, topic, part, record)
        if type(made) not in _PLAIN:
            _refuse_awaitable(made)
    except Exception as error:
        raise _failed(error, topic, part, record) from error
    return made


def _value_of(codec: Codec, data: Any, topic: str, part: str, record: Record) -> Any:
    """Call a deserializer, whose context has the place of the record."""
    if codec.alone is not None:
        return codec.alone(data)
    if codec.contextual is not None:
        ctx = SerializationContext(topic, part, record.headers, record.partition, record.offset)
        return codec.contextual(data, ctx)
    return codec.convert(data, topic, record.headers)


# Types that are no awaitables: the check for awaitables costs more than most deserializers.
_PLAIN = frozenset((str, bytes, dict, list, int, float, bool, type(None)))


def _refuse_awaitable(made: Any) -> None:
    if inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            made.close()
        raise TypeError("it returned an awaitable: give an async function (async def) to an async client")


async def _awaited(
    codec: Codec, data: Any, topic: str, headers: Headers, part: str, record: Record | None = None
) -> Any:
    try:
        if record is not None:
            made = _value_of(codec, data, topic, part, record)
        else:
            made = codec.convert(data, topic, headers) if codec.alone is None else codec.alone(data)
        return await made if isinstance(made, Awaitable) else made
    except Exception as error:
        raise _failed(error, topic, part, record) from error


async def _sent(
    codec: Codec, data: Any, topic: str, headers: Headers, part: str, turn: Callable[[], Awaitable[None]]
) -> Any:
    """Call a serializer; a format that needs a request to its registry does so in another thread."""
    if codec.lookups is None or codec.contextual is None:
        return await _awaited(codec, data, topic, headers, part)
    try:
        try:
            return codec.contextual(data, LoopContext(topic, part, headers))
        except RequestNeeded:
            await turn()
            ctx = SerializationContext(topic, part, headers)
            return await asyncio.get_running_loop().run_in_executor(None, codec.contextual, data, ctx)
    except Exception as error:
        raise _failed(error, topic, part, None) from error


def _bytes(made: Any, topic: str, part: str) -> Any:
    """Return a serializer's result as bytes, text as UTF-8. Any other result, such as None, raises an error."""
    if isinstance(made, str):
        try:
            return made.encode()
        except UnicodeEncodeError as error:
            raise _failed(error, topic, part, None) from error
    if not isinstance(made, bytes | bytearray | memoryview):
        raise SerializationError(
            f"the {part} of a record for {topic} cannot be serialized: the {part}_serializer gave "
            f"{type(made).__name__}, not bytes",
            topic=topic,
            part=part,
        )
    return made


def _column(codec: Codec, column: Any, ctx: ColumnContext, place: _Place | None = None) -> Any:
    """Convert a column by a codec's method for columns; the result must have as many rows, and the same nulls.

    Bad records may be nulls, too, if the codec says so.
    """
    import pyarrow as pa

    assert codec.column is not None
    try:
        made = pa.array(codec.column(column, ctx))
        if len(made) != len(column) or not _has_nulls_of(made, column, more=place is not None and codec.adds_nulls):
            raise ValueError(f"of {len(column)} rows, {column.null_count} null, it made {len(made)}, {made.null_count}")
    except Exception as error:
        raise _failed_column(error, ctx, place) from error
    return made


def _has_nulls_of(made: Any, column: Any, *, more: bool) -> bool:
    """Return True if the nulls of the column are null, and no others, unless there may be more."""
    if not more:
        return bool(made.is_null().equals(column.is_null()))
    if not column.null_count:
        return True
    return bool(made.filter(column.is_null()).null_count == column.null_count)


def _failed_column(error: Exception, ctx: ColumnContext, place: _Place | None) -> SerializationError:
    """Return the error of a column; it names the record of a `DecodeError`."""
    if place is None:
        text = f"the column {ctx.field} of {ctx.topic or None} cannot be serialized: {_text_of(error)}"
        return SerializationError(text, topic=ctx.topic, part=ctx.field)
    offset, remedy = place.first, ""
    where = "" if offset < 0 else f", offsets {offset} to {place.last},"
    named = ctx.of_row(error.row).offset if isinstance(error, DecodeError) else -1
    if named >= 0:
        offset, where = named, f" at offset {named}"
        remedy = (
            f"; to skip it, seek(TopicPartition({place.topic!r}, {place.partition}), {offset + 1}), or give a format "
            'on_bad="null"'
        )
    source = place.topic if place.partition is None else f"{place.topic}-{place.partition}"
    return SerializationError(
        f"the column {ctx.field} of {source}{where} cannot be deserialized: {_text_of(error)}{remedy}",
        topic=ctx.topic,
        part=ctx.field,
        partition=place.partition,
        offset=offset,
    )


def _with_headers(rows: pa.RecordBatch, headers: Headers) -> pa.RecordBatch:
    """Append headers to each row."""
    import pyarrow as pa

    own = pa.struct([("key", pa.string()), ("value", pa.binary())])
    at = rows.schema.get_field_index("headers")
    more = [{"key": key, "value": value} for key, value in headers]
    if at < 0:
        made = pa.array([more], pa.list_(own)).take(pa.array([0] * len(rows), pa.int32()))
        return rows.append_column("headers", made)
    given = rows.column(at)
    lists = [[_pair(each) for each in found or ()] + more for found in given.to_pylist()]
    return rows.set_column(at, "headers", pa.array(lists, pa.list_(own)))


def _pair(header: Any) -> dict[str, Any]:
    return header if isinstance(header, dict) else {"key": header[0], "value": header[1]}


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _failed(error: Exception, topic: str, part: str, record: Record | None) -> SerializationError:
    if record is None:
        text = f"the {part} of a record for {topic} cannot be serialized: {_text_of(error)}"
        return SerializationError(text, topic=topic, part=part)
    return SerializationError(
        f"the {part} of {topic}-{record.partition} at offset {record.offset} cannot be deserialized: {_text_of(error)}"
        f"; to skip it, seek(TopicPartition({topic!r}, {record.partition}), {record.offset + 1})",
        topic=topic,
        part=part,
        partition=record.partition,
        offset=record.offset,
    )
