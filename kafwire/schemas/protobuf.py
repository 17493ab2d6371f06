"""`Protobuf`: keys and values as Protobuf messages, with the schemas of a registry or without."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, FramingError, SchemaError, UnknownSchemaError
from kafwire.protobuf.decoder import ProtobufDecoder
from kafwire.protobuf.encoder import ProtobufEncoder
from kafwire.protobuf.program import Enums, descriptor_of, indexes_of, varint
from kafwire.protobuf.recursive import Malformed, Splice, as_text, from_text, recursive_types
from kafwire.registry.framing import ApicurioHeader, ApicurioPrefix, ConfluentPrefix, Framing, GluePrefix, SchemaId
from kafwire.registry.registered import PROTOBUF, Reference
from kafwire.schemas.format import OnBadRecord
from kafwire.schemas.registry_format import RegistryFormat
from kafwire.schemas.schema_lookups import SchemaLookups
from kafwire.schemas.subjects import Subject, subject_of
from kafwire.serialization import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.registry.client import SchemaRegistry

__all__ = ["Protobuf"]

# The indexes of a file's first message, in short and as a list; of Apicurio's, a reference without a name.
FIRST_MESSAGE, FIRST_MESSAGE_LISTED = b"\0", b"\2\0"
NO_NAME = b"\0"


class _Writing(NamedTuple):
    """The schema id of one subject, and the encoder with its prefix."""

    schema_id: SchemaId
    columns: ProtobufEncoder
    has_prefix: bool


class Protobuf(RegistryFormat):
    """The format of Protobuf messages. Rows are messages of a generated class, columns structs of its fields.

    Records have the id of the message's schema and the indexes of the message in it, as Confluent's serializers write
    them, or the message's name, as those of Apicurio 2 do with Apicurio's framings. Without a registry they have
    neither. A record of another message of the schema is bad.

    Args:
        registry: the registry, a `SchemaRegistry`; None: records are messages alone.
        message: the generated class.
        subject: "topic" (`flights-value`), "record", "topic-record", or a function (ctx, message name).
        framing: the place of the schema id; None: Confluent's prefix. AWS Glue's numbers messages in a way of its own,
            and is refused.
        register: True: the first write registers the schema of the class and the files that it imports, but for
            Google's, each in the subject of its name. False: it is an error if the registry does not have them.
        references: the imported files as versions of subjects; without it, the subject of a file is its name.
        on_bad: the outcome of bytes that cannot be decoded: "error", "null", or a function of a `BadRecord`.
        enums: "string", "dictionary" or "number", for columns.
        times: the unit of Timestamp and Duration in columns, "us" or "ns".
        recursive: "json": columns have a field whose message type contains itself, such as google.protobuf.Struct, as
            text in Protobuf's JSON form; row by row. "error": such columns are an error.

    Raises:
        SchemaError: the message has no fields.
        ConfigError: an argument is wrong.

    Example:
        >>> from google.protobuf.wrappers_pb2 import Int64Value
        >>> numbers = kafwire.Protobuf(kafwire.SchemaRegistry("http://localhost:8081"), Int64Value, register=True)
        >>> kafwire.Producer("localhost:9092", value=numbers).close()
    """

    __module__ = "kafwire"
    schema_type = PROTOBUF

    def __init__(
        self,
        registry: SchemaRegistry | None,
        message: Any,
        *,
        subject: Subject = "topic",
        framing: Framing | None = None,
        register: bool = False,
        references: Iterable[Reference] = (),
        on_bad: OnBadRecord = "error",
        enums: Enums = "string",
        times: Literal["us", "ns"] = "us",
        recursive: Literal["error", "json"] = "error",
    ) -> None:
        self._message = message
        self._descriptor = descriptor_of(message)
        if not callable(getattr(message, "FromString", None)):
            raise ConfigError("message is a generated Protobuf class, not a descriptor: rows are its messages")
        if registry is None and (framing is not None or register):
            raise ConfigError("framing and register need a registry")
        if isinstance(framing, GluePrefix):
            raise ConfigError(f"framing={framing!r} has another number of a message than Protobuf's serializers write")
        if recursive not in ("error", "json"):
            raise ConfigError(f"recursive is 'error' or 'json', not {recursive!r}")
        self._has_registry = registry is not None
        super().__init__(
            registry,  # type: ignore[arg-type] # not used without one
            _text_of(self._descriptor.file),
            subject=subject,
            framing=framing,
            register=register,
            references=references,
            on_bad=on_bad,
        )
        self._enums: Enums = enums
        self._times: Literal["us", "ns"] = times
        # The bytes between the schema id and the message; the first form is written, all are read.
        self._markers = self._markers_of(self._descriptor)
        found = recursive_types(self._descriptor)
        self._texts = found if recursive == "json" else frozenset[str]()
        self._forget()
        if self._texts or not found:
            self._decoder(framed=False)  # mistakes show here

    def _markers_of(self, descriptor: Any) -> list[bytes]:
        if isinstance(self._framing, ApicurioHeader | ApicurioPrefix):
            name = descriptor.name.encode()
            named = b"\x0a" + varint(len(name)) + name
            return [varint(len(named)) + named, NO_NAME]
        indexes = indexes_of(descriptor)
        return [indexes, FIRST_MESSAGE_LISTED] if indexes == FIRST_MESSAGE else [indexes]

    def _forget(self) -> None:
        self._writings: dict[str, _Writing] = {}  # by subject
        self._decoders: dict[bool, ProtobufDecoder] = {}  # by whether values are framed
        self._splice: Splice | None = None  # of read messages

    def __getstate__(self) -> dict[str, Any]:
        made = ("_writings", "_decoders", "_descriptor", "_splice")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._descriptor = descriptor_of(self._message)
        self._forget()

    # --- schemas ----------------------------------------------------------------------------------------------------

    def _writing(self, ctx: SerializationContext) -> _Writing:
        """Return the id of the schema, looked up at the first record of its subject."""
        subject = subject_of(self._subject, ctx, self._descriptor.full_name) if self._has_registry else ""
        found = self._writings.get(subject)
        if found is None:
            if self._has_registry:
                self._before_request(ctx)
            found = self._writings[subject] = self._found_writing(subject)
        return found

    def _found_writing(self, subject: str) -> _Writing:
        if not self._has_registry:
            return _Writing(0, ProtobufEncoder(self._message, texts=self._texts), has_prefix=not self._texts)
        if not self._references:
            self._references = tuple(self._imported(self._descriptor.file, {}))
        number = self._id_of(subject, _text_of(self._descriptor.file), self._references)
        schema_id = self._framed_id(number)
        prefix = self._framing.prefix(schema_id)
        if self._texts:  # a spliced value is framed afterwards
            return _Writing(schema_id, ProtobufEncoder(self._message, texts=self._texts), has_prefix=False)
        before = b"" if prefix is None else prefix + self._markers[0]
        return _Writing(schema_id, ProtobufEncoder(self._message, prefix=before), prefix is not None)

    def _imported(self, file: Any, found: dict[str, Reference]) -> list[Reference]:
        """Return references to the files that a file imports, each registered or looked up in the subject of its name.

        Google's own are part of every implementation.
        """
        made = []
        for each in file.dependencies:
            if each.name.startswith("google/protobuf/"):
                continue
            if each.name not in found:
                text, references = _text_of(each), self._imported(each, found)
                self._id_of(each.name, text, references)
                version = self._registry.version_of(each.name, text, PROTOBUF, references)
                found[each.name] = Reference(each.name, each.name, version)
            made.append(found[each.name])
        return made

    @property
    def schema_lookups(self) -> SchemaLookups | None:
        """The requests to the registry; None without one."""
        return self._lookups if self._has_registry else None

    def _look_up(self, schema_id: SchemaId, ctx: SerializationContext) -> None:
        del ctx
        self._check(schema_id)

    def _check(self, schema_id: SchemaId) -> None:
        """Raise `SchemaError` for the id of a schema that is none of Protobuf. The registry's client keeps schemas."""
        found = self._registered(schema_id)
        if found.schema_type != PROTOBUF:
            raise SchemaError(f"it is a schema of type {found.schema_type}, not {PROTOBUF}")

    # --- rows -------------------------------------------------------------------------------------------------------

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        """Encode a message.

        Args:
            value: the message.
            ctx: its record.

        Returns:
            The framed bytes.

        Raises:
            TypeError: the value is another message, or none.
            UnknownSchemaError: the subject does not have the schema, and `register` is False.
            SchemaRegistryError: the registry does not respond, or refuses the schema.
        """
        if not isinstance(value, self._message):
            raise TypeError(f"a {self._descriptor.full_name} is needed, not {type(value).__name__}")
        payload: bytes = value.SerializeToString()
        if not self._has_registry:
            return payload
        return self._framed(payload, self._writing(ctx), ctx)

    def _framed(self, payload: bytes, writing: _Writing, ctx: SerializationContext) -> bytes:
        if not isinstance(self._framing, ApicurioHeader):
            return self._framing.write(writing.schema_id, payload, ctx, indexes=self._markers[0])
        header = _name_header(ctx)
        ctx.headers[:] = [each for each in ctx.headers if each[0] != header]
        ctx.headers.append((header, self._descriptor.name.encode()))
        return self._framing.write(writing.schema_id, payload, ctx)

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Decode a message.

        Args:
            data: the framed bytes.
            ctx: their record.

        Returns:
            The message; None for a bad record.

        Raises:
            DecodeError: the bytes cannot be decoded, and `on_bad` is "error".
            SchemaRegistryError: the registry does not respond.
        """
        from google.protobuf.message import DecodeError as ParseError

        schema_id: SchemaId | None = None
        try:
            schema_id, payload = self._unframed(data, ctx)
            if schema_id is not None:
                self._check(schema_id)
            return self._message.FromString(payload)
        except (FramingError, SchemaError, UnknownSchemaError, ParseError) as error:
            self.bad(data, ctx, error, schema_id=schema_id)
            return None

    def _unframed(self, data: bytes, ctx: SerializationContext) -> tuple[SchemaId | None, bytes]:
        """Return the id, and the message behind the indexes."""
        if not self._has_registry:
            return None, data
        schema_id, payload = self._framing.read(data, ctx)
        if isinstance(self._framing, ApicurioHeader) and len(payload) == len(data):  # the id is in a header
            named = [value for key, value in ctx.headers if key == _name_header(ctx)]
            if named[-1:] in ([], [self._descriptor.name.encode()]):
                return schema_id, payload
        else:
            for marker in self._markers:
                if payload.startswith(marker):
                    return schema_id, payload[len(marker) :]
        raise FramingError(f"the value is another message of schema {schema_id} than {self._descriptor.full_name}")

    # --- columns ----------------------------------------------------------------------------------------------------

    def serialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Encode a column.

        Args:
            column: a struct column of the message's fields.
            ctx: its topic.

        Returns:
            A binary column.

        Raises:
            SchemaError: the column's type does not fit the message.
            ConfigError: a value does not fit the message; the error names row and field.
            UnknownSchemaError: the subject does not have the schema, and `register` is False.
            SchemaRegistryError: the registry does not respond, or refuses the schema.
        """
        import pyarrow as pa

        writing = self._writing(ctx)
        made = writing.columns.encode(column).to_arrow()
        if writing.has_prefix:
            return made
        values: list[bytes | None] = []
        splice = Splice(self._descriptor, from_text) if self._texts else None
        for row, each in enumerate(made.to_pylist()):
            try:
                payload = each if each is None or splice is None else splice.spliced(each)
            except Malformed as problem:
                raise ConfigError(f"row {row}: {problem}") from None
            framed = payload is not None and self._has_registry
            values.append(self._framed(payload, writing, ctx) if framed else payload)
        return pa.array(values, pa.binary())

    def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Decode a column.

        Args:
            column: the framed bytes.
            ctx: its topic and rows.

        Returns:
            A struct column.

        Raises:
            DecodeError: bytes cannot be decoded, and `on_bad` is "error".
            SchemaRegistryError: the registry does not respond.
        """
        if self._texts:
            made, bad = self._by_rows(column, ctx)
        elif not self._has_registry:
            made, bad = self._decoder(framed=False).to_column(column)
        else:
            made, bad = None, []
            if type(self._framing) is ConfluentPrefix:
                made, bad = self._decoder(framed=True).to_column(column)
            # A GUID after a one, which the decoder does not read.
            if made is None or any(column[each.row].as_py()[:1] == b"\1" for each in bad):
                made, bad = self._by_rows(column, ctx)
        self.report(bad, column, ctx)
        return made

    def _by_rows(self, column: pa.Array, ctx: SerializationContext) -> tuple[pa.Array, list[BadRecord]]:
        """Decode a column of any framing."""
        values: list[bytes | None] = []
        ids: list[SchemaId | None] = []
        bad: list[BadRecord] = []
        for row, data in enumerate(column.to_pylist()):
            schema_id, payload = None, None
            if data is not None:
                try:
                    schema_id, payload = self._unframed(data, ctx.of_row(row))
                    if schema_id is not None:
                        self._check(schema_id)
                    payload = self._without_recursion(payload)
                except (FramingError, SchemaError, UnknownSchemaError, Malformed) as error:
                    payload = None
                    bad.append(BadRecord(row, str(error), schema_id))
            values.append(payload)
            ids.append(schema_id)
        made, found = self._decoder(framed=False).to_column(values)
        bad += [each._replace(schema_id=ids[each.row]) for each in found]
        return made, sorted(bad, key=lambda each: each.row)

    def _without_recursion(self, payload: bytes) -> bytes:
        """Return a message with texts for fields that contain themselves. Raises `Malformed`."""
        if not self._texts:
            return payload
        from google.protobuf.message import DecodeError as ParseError

        try:
            whole = self._message.FromString(payload).SerializeToString()  # pieces of a message are merged
        except ParseError as problem:
            raise Malformed(str(problem)) from None
        if self._splice is None:
            self._splice = Splice(self._descriptor, as_text)
        return self._splice.spliced(whole)

    def _decoder(self, *, framed: bool) -> ProtobufDecoder:
        found = self._decoders.get(framed)
        if found is None:
            found = self._decoders[framed] = ProtobufDecoder(
                self._message,
                framed=framed,
                check_id=self._check if framed else None,
                on_bad="null",
                enums=self._enums,
                times=self._times,
                texts=self._texts,
            )
        return found

    def arrow_type(self, ctx: SerializationContext) -> pa.DataType:  # noqa: ARG002 - one type for all topics
        """Return the type of a column: a struct of the message's fields.

        Args:
            ctx: the topic.

        Returns:
            The pyarrow.StructType.
        """
        import pyarrow as pa

        return pa.struct(list(pa.schema(self._decoder(framed=False))))


def _name_header(ctx: SerializationContext) -> str:
    """Return the header of Apicurio's serializers that has a message's name."""
    return "apicurio.protobuf.type.key" if ctx.field == "key" else "apicurio.protobuf.type"


def _text_of(file: Any) -> str:
    """Return a `.proto` file in the form that a registry takes beside its text: the descriptor in base64."""
    return base64.b64encode(file.serialized_pb).decode()
