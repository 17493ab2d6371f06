"""`JsonSchema`: keys and values as JSON documents of registered schemas."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafwire import json_values
from kafwire.errors import FramingError, SchemaError, UnknownSchemaError
from kafwire.json_columns import JsonDecoder
from kafwire.registry.client import SchemaRegistry
from kafwire.registry.framing import ConfluentPrefix, Framing, SchemaId
from kafwire.registry.registered import JSON, Reference, Registered
from kafwire.schemas.format import OnBadRecord
from kafwire.schemas.json_types import arrow_type, check_depth, schema_of, validator_of
from kafwire.schemas.registry_format import RegistryFormat
from kafwire.schemas.subjects import Subject, subject_of
from kafwire.serialization import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JsonSchema"]

# The end of a slice: without one, pyarrow's estimate of its size overflows for an even number of rows.
_LONGEST = 2**31 - 1


class JsonSchema(RegistryFormat):
    """The format of JSON documents with the id of their schema, as Confluent's JSON serializers write them.

    Rows are Python values. A column is a struct column if the schema is an object whose `properties` have plain types,
    objects and arrays of them; a member that `properties` does not have is not in the column. It is text otherwise.
    Documents are validated by the schema that wrote them, of draft 4 to 2020-12. This needs the package jsonschema-rs.

    Args:
        registry: the registry.
        schema: the schema of sent documents, and of columns: JSON text or a dict. None: the latest of the subject.
        references: the schemas that `schema` refers to.
        subject: the subject of the schema: "topic" (`flights-value`), "record" (the schema's title), "topic-record",
            or a function (ctx, title).
        framing: the place of the schema's id.
        register: True: the first document of a subject registers the schema. False: nothing writes to the registry.
        validate: False: documents are not validated.
        on_bad: the outcome of a document that cannot be read, or is not valid: "error", "null", or a function of a
            `BadRecord`.

    Raises:
        ConfigError: an argument has a bad value.
        SchemaError: `schema` is no JSON schema.
        ImportError: jsonschema-rs is not installed.

    Example:
        >>> registry = kafwire.SchemaRegistry("http://localhost:8081")
        >>> consumer = kafwire.Consumer(bootstrap, topics=[topic], value=kafwire.JsonSchema(registry))
        >>> consumer.close()
    """

    __module__ = "kafwire"
    schema_type = JSON

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Mapping[str, Any] | None = None,
        *,
        references: Iterable[Reference] = (),
        subject: Subject = "topic",
        framing: Framing | None = None,
        register: bool = False,
        validate: bool = True,
        on_bad: OnBadRecord = "error",
    ) -> None:
        super().__init__(
            registry,
            schema if schema is None or isinstance(schema, str) else json.dumps(schema),
            subject=subject,
            framing=framing,
            register=register,
            references=references,
            on_bad=on_bad,
        )
        self._validate = validate
        self._reset()
        own = None if self._text is None else schema_of(self._text, "the schema")
        self._own = own
        if validate:
            validator_of(own if own is not None and not self._references else {}, (), "the schema")

    def _reset(self) -> None:
        self._written: dict[str, tuple[Any, Any]] = {}  # the id and the validator by subject
        self._validators: dict[Any, Any] = {}  # by id
        self._latest: dict[str, Registered] = {}  # by subject
        self._columns: dict[str, tuple[pa.DataType, JsonDecoder | None]] = {}  # type and decoder by subject

    def __getstate__(self) -> dict[str, Any]:
        # Validators do not pickle. The latest schemas do: a copy reads the columns that its original announced.
        made = {"_written", "_validators", "_columns"}
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._reset()
        self.__dict__.update(state)

    # --- writing ----------------------------------------------------------------------------------------------------

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        """Encode a value as a document of the schema.

        Args:
            value: a value with a form in JSON.
            ctx: its record.

        Returns:
            The schema's id as the framing has it, and the document.

        Raises:
            ValueError: the document is not valid, or JSON has no form of a value.
            TypeError: JSON has no form of the value.
            UnknownSchemaError: the subject does not have the schema, and `register` is False.
            SchemaRegistryError: the registry cannot be reached in time.
        """
        schema_id, validator = self._writer(ctx)
        payload = json_values.encode(value)
        if validator is not None:
            self._check(validator, payload, json_values.decode(payload))
        return self._framing.write(schema_id, payload, ctx)

    def _writer(self, ctx: SerializationContext) -> tuple[Any, Any]:
        """Return the id of the schema of a record, and its validator; from the second call on without a request."""
        if self._own is None:
            key = subject_of(self._subject, ctx, "")
        else:
            title = self._own.get("title") if isinstance(self._own, dict) else None
            key = subject_of(self._subject, ctx, title if isinstance(title, str) else "")
        found = self._written.get(key)
        if found is None:
            self._before_request(ctx)
            found = self._written[key] = self._found_writer(key)
        return found

    def _found_writer(self, subject: str) -> tuple[Any, Any]:
        if self._text is None:
            number = self._latest_of(subject).id
        else:
            number = self._id_of(subject, self._text, self._references)
        validator = self._validator(self._registry.registered(number)) if self._validate else None
        return self._framed_id(number), validator

    def _latest_of(self, subject: str) -> Registered:
        found = self._latest.get(subject)
        if found is None:
            found = self._latest[subject] = self._latest_schema(subject)
        return found

    def _validator(self, registered: Registered) -> Any:
        if registered.schema_type != JSON:
            raise SchemaError(f"schema {registered.id} is a schema of type {registered.schema_type}, not {JSON}")
        origin = f"schema {registered.id}"
        references = [(each.name, each.text) for each in registered.references]
        return validator_of(schema_of(registered.text, origin), references, origin)

    @staticmethod
    def _check(validator: Any, payload: bytes, value: Any) -> None:
        """Raise `ValueError` for a document that is not valid, with the place of the mistake."""
        check_depth(payload, value)
        if not validator.is_valid(value):
            for mistake in validator.iter_errors(value):
                place = "".join(f"[{each!r}]" for each in mistake.instance_path)
                raise ValueError(f"the document is not valid: {mistake.message[:500]}{' at ' if place else ''}{place}")

    # --- reading ----------------------------------------------------------------------------------------------------

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Decode a document.

        Args:
            data: the schema's id and the document.
            ctx: its record.

        Returns:
            The value; None for a bad record.

        Raises:
            DecodeError: the document cannot be read or is not valid, and `on_bad` is "error".
            SchemaRegistryError: the registry cannot be reached in time.
        """
        found = self._read(data, ctx)
        return None if found is None else found[1]

    def _read(self, data: bytes, ctx: SerializationContext) -> tuple[bytes, Any] | None:
        """Return the document and its value; None for a bad record."""
        schema_id = None
        try:
            schema_id, payload = self._framing.read(data, ctx)
            value = json_values.decode(payload)
            if self._validate:
                self._check(self._validator_of(schema_id), payload, value)
        except (ValueError, RecursionError, FramingError, UnknownSchemaError) as error:  # SchemaError is a ValueError
            self.bad(data, ctx, error, schema_id=schema_id)
            return None
        return payload, value

    def _validator_of(self, schema_id: Any) -> Any:
        found = self._validators.get(schema_id)
        if found is None:
            found = self._validators[schema_id] = self._validator(self._registered(schema_id))
        return found

    def _look_up(self, schema_id: SchemaId, ctx: SerializationContext) -> None:
        if self._own is None:  # the type of columns; rows do without
            with contextlib.suppress(Exception):
                self._columns_of(ctx)
        if self._validate:
            self._validator_of(schema_id)

    def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Decode a column of documents.

        Args:
            column: the ids and documents.
            ctx: its topic and rows.

        Returns:
            A struct column, or a string column of the documents.

        Raises:
            DecodeError: a document cannot be read or is not valid, and `on_bad` is "error".
            SchemaRegistryError: the registry cannot be reached in time.
        """
        import pyarrow as pa

        payloads = self._cut(column)
        if payloads is None:
            made: list[bytes | None] = []
            for row, data in enumerate(column.to_pylist()):
                found = None if data is None else self._read(data, ctx.of_row(row))
                made.append(None if found is None else found[0])
            payloads = pa.array(made, pa.binary())
        kind, decoder = self._columns_of(ctx)
        if decoder is None:
            return payloads.cast(kind)
        decoded = decoder.decode(payloads)
        for each in decoded.bad:
            data, where = column[each.row].as_py(), ctx.of_row(each.row)
            self.bad(data, where, each.cause, schema_id=self._framing.read(data, where)[0])
        return decoded.to_struct()

    def _cut(self, column: pa.Array) -> pa.Array | None:
        """Return the documents behind Confluent's prefix, without a look at rows; None if each needs one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._validate or type(self._framing) is not ConfluentPrefix:
            return None
        documents = pc.binary_slice(column, 5, _LONGEST)
        framed = pc.starts_with(column, b"\0")
        is_whole = pc.greater_equal(pc.binary_length(column), 5)
        if not pc.all(pc.and_(framed, is_whole), skip_nulls=True).as_py() and len(column) > column.null_count:
            return None
        try:
            documents.cast(pa.string())
        except pa.ArrowInvalid:
            return None  # the loop names the row
        return documents

    def _columns_of(self, ctx: SerializationContext) -> tuple[pa.DataType, JsonDecoder | None]:
        """Return the type and the decoder of columns, None for text; both are fixed when they are first needed."""
        import pyarrow as pa

        schema = self._own
        key = "" if schema is not None else subject_of(self._subject, ctx, "")
        if key not in self._columns:
            if schema is None:
                latest = self._latest_of(key)
                schema = schema_of(latest.text, f"schema {latest.id}") if latest.schema_type == JSON else True
            kind = arrow_type(schema)
            decoder = None if kind is None else JsonDecoder(pa.schema(list(kind)), on_bad="null")
            self._columns[key] = (pa.string() if kind is None else kind, decoder)
        return self._columns[key]

    def arrow_type(self, ctx: SerializationContext) -> pa.DataType | None:
        """Return the type of a column: that of the schema, or of the latest one of the topic's subject.

        Args:
            ctx: the topic.

        Returns:
            The type; None for several topics without a schema.
        """
        if self._own is None and not ctx.topic:
            return None
        return self._columns_of(ctx)[0]
