"""`Avro`: keys and values as Avro, with the schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafwire.avro.decoder import AvroDecoder
from kafwire.avro.encoder import AvroEncoder
from kafwire.avro.recursive import Malformed, Splice, as_text, flat, from_text, recursive_names
from kafwire.avro.schema import Type, parse
from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, DecodeError, FramingError, SchemaError, UnknownSchemaError
from kafwire.registry.framing import ApicurioPrefix, ConfluentPrefix, Framing, SchemaId
from kafwire.registry.registered import AVRO, Reference, texts_of
from kafwire.schemas.avro_rows import RowReader, RowWriter
from kafwire.schemas.format import OnBadRecord
from kafwire.schemas.registry_format import RegistryFormat
from kafwire.schemas.subjects import Subject, subject_of
from kafwire.serialization import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.registry.client import SchemaRegistry

__all__ = ["Avro"]

# The decoder reads these prefixes itself.
_NATIVE = (ConfluentPrefix(), ApicurioPrefix(id_bytes=4))
MAX_SCHEMAS = 10_000  # writers' schemas that one format keeps


class _Writing(NamedTuple):
    """The schema that values of one subject are written with."""

    schema_id: SchemaId
    schema: Type
    columns: AvroEncoder  # with the framing's prefix, if it has one
    prefix: bytes | None
    rows: list[RowWriter]  # empty until the first row: columns need no fastavro


class Avro(RegistryFormat):
    """The format of Avro records with a schema of a registry. Rows are fastavro's Python values, columns typed ones.

    Written is `schema`, or the latest schema of the subject at the first write. Read is as the reader's schema: by
    Avro's rules a field that the writer did not have gets its default, and a field that the reader does not have is
    skipped. The reader's schema is `reader`, else `schema`, else the latest of the subject at the first read. A schema
    that is a record has struct columns; docs/guide/avro.md has the types. A record that contains itself is a dict in a
    row; columns of it need `recursive="json"`.

    Args:
        registry: the registry, a `SchemaRegistry`.
        schema: the schema to write: JSON text or its object; None: the latest of the subject.
        reader: the schema to read; None: `schema`, or the latest of the subject.
        subject: "topic" (`flights-value`), "record", "topic-record", or a function (ctx, record name).
        framing: the place of the schema id; None: Confluent's prefix.
        register: True: the first write registers `schema` if the subject does not have it. False: it is an error then.
        references: the schemas that `schema` and `reader` refer to, each a `Reference` to a version of a subject.
        on_bad: the outcome of bytes that cannot be decoded: "error", "null", or a function of a `BadRecord`.
        enums: "string", or "dictionary" for columns of Arrow's dictionary type.
        recursive: "json": columns have the JSON text of a field whose record contains itself, in Avro's JSON encoding
            and with the fields of its writer; row by row. "error": such columns are an error.

    Raises:
        SchemaError: a schema is not valid.
        ConfigError: an argument is wrong.

    Example:
        >>> registry = kafwire.SchemaRegistry("http://localhost:8081")
        >>> flights = kafwire.Avro(registry, '{"type": "record", "name": "Flight", "fields": []}', register=True)
        >>> kafwire.Producer("localhost:9092", value=flights).close()
    """

    __module__ = "kafwire"
    schema_type = AVRO

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | dict[str, Any] | list[Any] | None = None,
        reader: str | dict[str, Any] | list[Any] | None = None,
        *,
        subject: Subject = "topic",
        framing: Framing | None = None,
        register: bool = False,
        references: Iterable[Reference] = (),
        on_bad: OnBadRecord = "error",
        enums: Any = "string",
        recursive: Literal["error", "json"] = "error",
    ) -> None:
        super().__init__(
            registry,
            None if schema is None else _text_of(schema),
            subject=subject,
            framing=framing,
            register=register,
            references=references,
            on_bad=on_bad,
        )
        if enums not in ("string", "dictionary"):
            raise ConfigError(f"enums is 'string' or 'dictionary', not {enums!r}")
        if recursive not in ("error", "json"):
            raise ConfigError(f"recursive is 'error' or 'json', not {recursive!r}")
        self._recursive = recursive == "json"
        self._reader_text = None if reader is None else _text_of(reader)
        self._enums = enums
        if not self._references:  # without a request: mistakes show here
            for text in (self._text, self._reader_text):
                if text is not None:
                    parse(text)
        self._forget()

    def _forget(self) -> None:
        self._referred: list[str] | None = None  # of the references
        self._types: dict[str, Type] = {}  # by text
        self._latest: dict[str, Type] = {}  # readers' schemas by subject
        self._writings: dict[str, _Writing] = {}  # by subject
        self._decoders: dict[Type, AvroDecoder] = {}  # by reader
        self._rows: dict[tuple[SchemaId, Type], RowReader] = {}
        self._splices: dict[SchemaId, Splice] = {}

    def __getstate__(self) -> dict[str, Any]:
        # The latest schemas are pickled: a copy reads the columns that its original announced.
        made = ("_referred", "_types", "_writings", "_decoders", "_rows", "_splices")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()
        self.__dict__.update(state)

    # --- schemas ----------------------------------------------------------------------------------------------------

    def _type(self, text: str) -> Type:
        """Return the parsed schema of a text, with its references."""
        found = self._types.get(text)
        if found is None:
            if self._referred is None:
                texts = []
                for each in self._references:
                    there = self._registry.version(each.subject, each.version, deleted=True)
                    texts += [*texts_of(there.references), there.text]
                self._referred = list(dict.fromkeys(texts))
            found = self._types[text] = parse(text, self._referred)
        return found

    def _writing(self, ctx: SerializationContext) -> _Writing:
        """Return the schema to write, looked up at the first record of its subject."""
        if self._text is not None and self._text not in self._types:
            self._before_request(ctx)
        named = None if self._text is None else self._type(self._text)
        subject = subject_of(self._subject, ctx, "" if named is None else named.name)
        found = self._writings.get(subject)
        if found is not None:
            return found
        self._before_request(ctx)
        if named is None or self._text is None:
            latest = self._registry.latest(subject)
            number, named = latest.id, latest.schema
        else:
            number = self._id_of(subject, self._text, self._references)
        schema_id = self._framed_id(number)
        prefix = self._framing.prefix(schema_id)
        # A spliced value gets its prefix afterwards.
        made = _Writing(schema_id, named, AvroEncoder(self._flat(named), prefix=prefix or b""), prefix, [])
        if self._is_spliced(named):
            made = made._replace(columns=AvroEncoder(flat(named)))
        self._writings[subject] = made
        return made

    def _reader(self, ctx: SerializationContext, record_name: str | None) -> Type | None:
        """Return the reader's schema; None if its subject has the name of a record that is not known yet."""
        text = self._reader_text or self._text
        if text is not None:
            return self._type(text)
        if record_name is None and self._subject != "topic":
            return None
        subject = subject_of(self._subject, ctx, record_name or "")
        found = self._latest.get(subject)
        if found is None:
            found = self._latest[subject] = self._latest_schema(subject).schema
        return found

    # --- rows -------------------------------------------------------------------------------------------------------

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        """Encode a value.

        Args:
            value: the value, as fastavro takes it: a dict for a record.
            ctx: its record.

        Returns:
            The framed bytes.

        Raises:
            Exception: the value does not have the schema.
            UnknownSchemaError: the subject does not have the schema, and `register` is False.
            SchemaRegistryError: the registry does not respond, or refuses the schema.
        """
        writing = self._writing(ctx)
        if not writing.rows:
            writing.rows.append(RowWriter(writing.schema))
        payload = writing.rows[0].write(value)
        return writing.prefix + payload if writing.prefix else self._framing.write(writing.schema_id, payload, ctx)

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Decode a value.

        Args:
            data: the framed bytes.
            ctx: their record.

        Returns:
            The value, as fastavro makes it; None for a bad record.

        Raises:
            DecodeError: the bytes cannot be decoded, and `on_bad` is "error".
            SchemaRegistryError: the registry does not respond.
        """
        schema_id: SchemaId | None = None
        try:
            schema_id, payload = self._framing.read(data, ctx)
            writer = self._writer(schema_id)
        except (FramingError, SchemaError, UnknownSchemaError) as error:
            self.bad(data, ctx, error, schema_id=schema_id)
            return None
        reader = self._reader(ctx, writer.name)
        assert reader is not None
        try:
            return self._row_reader(schema_id, writer, reader).read(payload)
        except (DecodeError, SchemaError) as error:
            self.bad(data, ctx, error.cause if isinstance(error, DecodeError) else error, schema_id=schema_id)
            return None

    def _writer(self, schema_id: SchemaId) -> Type:
        return self._registered(schema_id).schema

    def _look_up(self, schema_id: SchemaId, ctx: SerializationContext) -> None:
        self._reader(ctx, self._writer(schema_id).name)

    def _row_reader(self, schema_id: SchemaId, writer: Type, reader: Type) -> RowReader:
        found = self._rows.get((schema_id, reader))
        if found is None:
            found = RowReader(writer, reader)
            if len(self._rows) >= MAX_SCHEMAS:
                self._rows = {}
            self._rows[schema_id, reader] = found
        return found

    # --- columns ----------------------------------------------------------------------------------------------------

    def serialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Encode a column.

        Args:
            column: a struct column for a record, else a column of the schema's type.
            ctx: its topic.

        Returns:
            A binary column.

        Raises:
            SchemaError: the column's type does not fit the schema.
            ConfigError: a value does not fit the schema; the message names row and field.
            UnknownSchemaError: the subject does not have the schema, and `register` is False.
            SchemaRegistryError: the registry does not respond, or refuses the schema.
        """
        import pyarrow as pa

        writing = self._writing(ctx)
        made = writing.columns.encode(column).to_arrow()
        if self._is_spliced(writing.schema):
            return self._spliced(made, writing, ctx)
        if writing.prefix is not None or not self._framing.write(writing.schema_id, b"", ctx):
            return made  # the framing is a prefix, or a header, which the context has now
        rows = made.to_pylist()
        return pa.array(
            [None if each is None else self._framing.write(writing.schema_id, each, ctx) for each in rows], pa.binary()
        )

    def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Decode a column.

        Args:
            column: the framed bytes.
            ctx: its topic and rows.

        Returns:
            A struct column for a record, else a column of the schema's type.

        Raises:
            DecodeError: bytes cannot be decoded, and `on_bad` is "error".
            SchemaRegistryError: the registry does not respond.
        """
        import pyarrow as pa

        reader = self._reader(ctx, None)
        if reader is None:
            reader = self._reader_of_first(column, ctx)
            if reader is None:
                return pa.nulls(len(column))
        if self._framing in _NATIVE and not self._recursive:
            made, bad = self._column(self._decoder(reader), column)
            if any(column[each.row].as_py()[:1] == b"\1" for each in bad):  # a GUID, which the decoder does not read
                made, bad = self._unframed(column, ctx, reader)
        else:
            made, bad = self._unframed(column, ctx, reader)
        self.report(bad, column, ctx)
        return made

    # --- recursive schemas ------------------------------------------------------------------------------------------

    def _flat(self, schema: Type) -> Type:
        """Return the schema of columns: with texts for records that contain themselves, if the option says so."""
        return flat(schema) if self._recursive else schema

    def _is_spliced(self, schema: Type) -> bool:
        return self._recursive and bool(recursive_names(schema))

    def _spliced(self, made: pa.Array, writing: _Writing, ctx: SerializationContext) -> pa.Array:
        """Replace the JSON texts in encoded values by the records, and frame the values."""
        import pyarrow as pa

        splice, values = Splice(writing.schema, from_text), []
        for row, each in enumerate(made.to_pylist()):
            try:
                payload = None if each is None else splice.spliced(each)
            except Malformed as problem:
                raise ConfigError(f"row {row}: {problem}") from None
            values.append(None if payload is None else self._framing.write(writing.schema_id, payload, ctx))
        return pa.array(values, pa.binary())

    def _without_recursion(self, schema_id: SchemaId, payload: bytes) -> bytes:
        """Return a value with texts for the records that contain themselves. Raises `Malformed`."""
        if not self._recursive:
            return payload
        found = self._splices.get(schema_id)
        if found is None:
            try:
                found = self._splices[schema_id] = Splice(self._writer(schema_id), as_text)
            except (SchemaError, UnknownSchemaError):
                return payload  # the decoder reports it
        return found.spliced(payload) if found.has_work else payload

    def _decoder(self, reader: Type) -> AvroDecoder:
        found = self._decoders.get(reader)
        if found is None:
            found = AvroDecoder(self._flat(reader), schema_of=self._writer, on_bad="null", enums=self._enums)
            self._decoders[reader] = found
        return found

    @staticmethod
    def _column(decoder: AvroDecoder, values: Any) -> tuple[pa.Array, list[BadRecord]]:
        """Decode values to a column of the schema's type, which need not be a struct."""
        made, bad = decoder.to_column(values)
        return (made.flatten()[0] if decoder.is_wrapped else made), bad

    def _reader_of_first(self, column: pa.Array, ctx: SerializationContext) -> Type | None:
        """Return the reader's schema by the record's name in the first good row, and report the bad rows before it."""
        for row, data in enumerate(column.to_pylist()):
            if data is not None:
                try:
                    schema_id, _ = self._framing.read(data, ctx.of_row(row))
                    return self._reader(ctx, self._writer(schema_id).name)
                except (FramingError, SchemaError, UnknownSchemaError):
                    continue
        bad = [BadRecord(row, "no record of the column has a schema id") for row in range(len(column))]
        self.report([each for each in bad if column[each.row].is_valid], column, ctx)
        return None

    def _unframed(self, column: pa.Array, ctx: SerializationContext, reader: Type) -> tuple[pa.Array, list[BadRecord]]:
        """Decode values of any framing: each id gets a number, which takes the place of Confluent's id."""
        numbers: dict[SchemaId, int] = {}
        values: list[bytes | None] = []
        bad: list[BadRecord] = []
        for row, data in enumerate(column.to_pylist()):
            framed = None
            if data is not None:
                try:
                    schema_id, payload = self._framing.read(data, ctx.of_row(row))
                    payload = self._without_recursion(schema_id, payload)
                    framed = b"\0" + numbers.setdefault(schema_id, len(numbers)).to_bytes(4, "big") + payload
                except (FramingError, Malformed) as error:
                    bad.append(BadRecord(row, str(error), schema_id if isinstance(error, Malformed) else None))
            values.append(framed)
        ids = list(numbers)
        decoder = AvroDecoder(
            self._flat(reader),
            schema_of=lambda number: self._flat(self._writer(ids[number])),
            on_bad="null",
            enums=self._enums,
        )
        made, found = self._column(decoder, values)
        bad += [each._replace(schema_id=None if each.schema_id is None else ids[each.schema_id]) for each in found]
        return made, sorted(bad)

    def arrow_type(self, ctx: SerializationContext) -> pa.DataType | None:
        """Return the type of a column.

        Args:
            ctx: the topic.

        Returns:
            The type of the reader's schema; None if only records tell its subject.

        Raises:
            SchemaRegistryError: the registry does not respond, or does not have the subject.
        """
        import pyarrow as pa

        has_text = self._reader_text is not None or self._text is not None
        reader = self._reader(ctx, None) if ctx.topic or has_text else None
        if reader is None:
            return None
        schema = pa.schema(self._decoder(reader))
        return pa.struct(list(schema)) if reader.kind == "record" else schema.field(0).type


def _text_of(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict | list):
        raise ConfigError(f"an Avro schema is JSON text or its object, not {type(schema).__name__}")
    return json.dumps(schema)
