"""What `kafwire decode` writes for frames, messages, connections and logs, and what it has to complain about."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.output import JsonWriter
from kafwire.cli.source import Frame, opened
from kafwire.errors import ProtocolError
from kafwire.protocol import Data, Message, Request, Response, decode_versioned
from kafwire.protocol.batch_json import batch_json, records_json
from kafwire.protocol.dump import (
    CLIENT,
    SERVER,
    Dump,
    Event,
    Incomplete,
    RequestFrame,
    ResponseFrame,
    Token,
    Unanswered,
    read_request,
    read_response,
)
from kafwire.protocol.framing import decode_response_body
from kafwire.protocol.header import RequestHeader, ResponseHeader
from kafwire.protocol.kafka_json import UNKNOWN_TAGGED_FIELDS, RecordsForm, to_json
from kafwire.protocol.lazy_json import BytesForm, Elements, Text
from kafwire.protocol.log import LogBatch, LogReader, split_batches
from kafwire.protocol.transaction_index import ENTRY_BYTES, aborted_transactions
from kafwire.secret import HIDDEN

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Decoder"]

_CHUNK = 1 << 16
_VERSION_BYTES = 2
_TRANSACTION_INDEX = ".txnindex"
_FETCH_SNAPSHOT = 59  # its records are a piece of a file, cut anywhere
_VERSION_IS_A_FIELD = {
    "LeaderChangeMessage",
    "SnapshotHeaderRecord",
    "SnapshotFooterRecord",
    "KRaftVersionRecord",
    "VotersRecord",
}
_NO_LOGS = {
    ".index": "an index of offsets",
    ".timeindex": "an index of timestamps",
    ".snapshot": "what a broker remembers of producers",
}


class Decoder:
    """Writes values as they are decoded, and remembers what was wrong; `finish` tells, and gives the exit code."""

    def __init__(
        self,
        writer: JsonWriter,
        *,
        records: bool,
        raw_records: bool,
        bytes_form: BytesForm,
        show_secrets: bool = False,
    ) -> None:
        self._writer = writer
        self._records = records
        self._raw_records = raw_records
        self._bytes_form = bytes_form
        self._show_secrets = show_secrets
        self._problems = 0
        self._first = ""

    def finish(self) -> int:
        """Say on standard error how much was wrong; the exit code."""
        self._writer.flush()
        if not self._problems:
            return 0
        more = f" (and {self._problems - 1} more)" if self._problems > 1 else ""
        raise click.ClickException(self._first + more)

    # --- frames ---

    def requests(self, frames: list[Frame]) -> None:
        """Decode requests with their headers."""
        for frame in frames:
            self._frame(read_request(frame.data, frame.position), frame)

    def responses(self, frames: list[Frame], request_class: type[Request[Response]], version: int) -> None:
        """Decode answers to requests of one API and version, with their headers."""
        for frame in frames:
            self._frame(read_response(frame.data, request_class, version, frame.position), frame)

    def _frame(self, event: RequestFrame | ResponseFrame, frame: Frame) -> None:
        if frame.missing:
            self._problem(f"the frame at byte {frame.position} is cut off: {frame.missing} bytes of it are missing")
            self._writer.write(
                {
                    "type": "incomplete",
                    "position": frame.position,
                    "size": len(frame.data),
                    "missing": frame.missing,
                    "hex": self._hex(frame.data, _class_of(event)),
                }
            )
        else:
            self._event(event)

    def connection(self, client: str, server: str, max_frame_bytes: int) -> None:
        """Decode the two directions of a connection."""
        dump = Dump(max_frame_bytes=max_frame_bytes)
        with ExitStack() as files:
            streams = {CLIENT: files.enter_context(opened(client)), SERVER: files.enter_context(opened(server))}
            while dump.wanted is not None:
                side = dump.wanted
                data = streams[side].read1(_CHUNK)
                if data:
                    dump.feed(side, data)
                else:
                    dump.end(side)
                try:
                    for event in dump.events():
                        self._event(event)
                except ProtocolError as error:
                    name = client if dump.wanted == CLIENT else server
                    self._problem(f"{name}: {_at_byte(error)}")
                    return
                self._writer.flush()

    def _event(self, event: Event) -> None:
        match event:
            case RequestFrame():
                self._request(event)
            case ResponseFrame():
                self._response(event)
            case Token():
                self._writer.write(
                    {
                        "type": "token",
                        "side": event.side,
                        "position": event.position,
                        "size": len(event.data),
                        "data": Text(event.data, "base64") if self._show_secrets else HIDDEN,
                    }
                )
            case Unanswered():
                self._writer.write(
                    {
                        "type": "unanswered",
                        "position": event.request.position,
                        "api": _api_name(event.request.request_class),
                        "apiKey": event.request.api_key,
                        "version": event.request.version,
                        "correlationId": event.request.correlation_id,
                    }
                )
            case Incomplete():
                missing = None if event.expected is None else event.expected - event.size
                self._writer.write(
                    {
                        "type": "incomplete",
                        "side": event.side,
                        "position": event.position,
                        "size": event.size,
                        "missing": missing,
                    }
                )

    def _request(self, frame: RequestFrame) -> None:
        head = {
            "type": "request",
            "position": frame.position,
            "size": len(frame.data),
            "api": _api_name(frame.request_class),
            "apiKey": frame.api_key,
            "version": frame.version,
            "correlationId": frame.correlation_id,
            "clientId": frame.header and frame.header.client_id,
            **_header_tags(frame.header, 2),
        }
        self._write_frame(head, frame, frame.version)

    def _response(self, frame: ResponseFrame) -> None:
        request = frame.request
        cls = frame.response_class or (request.request_class if request else None)
        head = {
            "type": "response",
            "position": frame.position,
            "size": len(frame.data),
            "api": _api_name(cls),
            "apiKey": cls.api_key if cls else request and request.api_key,
            "version": frame.version,
            "correlationId": frame.correlation_id,
            **_header_tags(frame.header, 1),
        }
        self._write_frame(head, frame, frame.version)

    def _write_frame(self, head: dict[str, Any], frame: RequestFrame | ResponseFrame, version: int | None) -> None:
        if frame.message is not None:
            head["body"] = self._body(frame.message, version)
        if frame.error is not None:
            self._problem(f"the {head['type']} at byte {frame.position}: {frame.error}")
            head["error"] = str(frame.error)
        if frame.error is not None or version is None:
            head["hex"] = self._hex(frame.data, _class_of(frame))
        self._writer.write(head)

    def _hex(self, data: bytes, cls: type[Message] | None) -> Text | str:
        """Bytes that were not decoded, unless the message may have a secret in it."""
        if self._show_secrets or cls is None or not cls.may_hide():
            return Text(data, "hex")
        return HIDDEN

    # --- messages ---

    def message(self, cls: type[Message], version: int | None, data: bytes) -> None:
        """Decode a message without a header. Without `version` it is in the two bytes in front."""
        name = cls.__name__
        if version is None:
            if len(data) < _VERSION_BYTES:
                raise click.ClickException(
                    f"{name} begins with {_VERSION_BYTES} bytes of version; there are {len(data)} bytes"
                )
            shown = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
        else:
            shown = version
        try:
            message = _decoded(cls, version, data)
        except ProtocolError as error:
            own = version is not None or name in _VERSION_IS_A_FIELD
            self._bare_error(cls, shown, error, data if own else data[_VERSION_BYTES:])
        else:
            self._bare(message, shown)

    def response_body(self, request_class: type[Request[Response]], version: int, data: bytes) -> None:
        """Decode an answer without its header."""
        try:
            found, message = decode_response_body(request_class, data, version)
        except ProtocolError as error:
            self._bare_error(request_class.response, version, error, data)
        else:
            self._bare(message, found)

    def _bare(self, message: Message, version: int | None) -> None:
        body = self._body(message, version)
        self._writer.write({"type": "message", "message": type(message).__name__, "version": version, "body": body})

    def _bare_error(self, cls: type[Message], version: int, error: ProtocolError, data: bytes) -> None:
        self._problem(str(error))
        shown = self._hex(data, cls)
        self._writer.write(
            {"type": "message", "message": cls.__name__, "version": version, "error": str(error), "hex": shown}
        )

    def _body(self, message: Message, version: int | None) -> dict[str, Any]:
        """The message as JSON; of one in no version, or in one above ours, what our own have."""
        shown = 0 if version is None else min(version, message.max_version)
        return to_json(message, shown, records=self._records_form(message), show_secrets=self._show_secrets)

    def _records_form(self, message: Message) -> RecordsForm:
        if self._raw_records:
            return lambda data: Text(memoryview(data), "base64")
        if isinstance(message, Response) and message.api_key == _FETCH_SNAPSHOT:
            return "size"
        return lambda data: Elements(self._batches(data))

    def _batches(self, data: "BytesLike") -> Iterator[dict[str, Any]]:
        try:
            for entry in split_batches(data):
                if isinstance(entry, int):
                    yield {"incompleteBytes": entry}
                    break
                yield self._batch(entry)
        except ProtocolError as error:
            self._problem(f"records: {_at_byte(error)}")
            yield {"error": error.message, "position": error.offset}

    # --- logs ---

    def log(self, name: str) -> None:
        """Decode a log segment, or the transaction index of one."""
        if PurePath(name).suffix == _TRANSACTION_INDEX:
            self._transaction_index(name)
            return
        if (what := _NO_LOGS.get(PurePath(name).suffix)) is not None:
            raise click.ClickException(f"{name}: this is {what}, no log")
        log = LogReader()
        with opened(name) as file:
            try:
                while data := file.read1(_CHUNK):
                    log.feed(data)
                    for entry in log.batches():
                        self._log_batch(entry)
                    self._writer.flush()
            except ProtocolError as error:
                self._problem(f"{name}: {_at_byte(error)}")
                return
        if log.leftover:
            self._problem(
                f"{name}: the last {log.leftover} bytes, from byte {log.position} on, are an incomplete batch: "
                "the file is cut off, or being written"
            )

    def _transaction_index(self, name: str) -> None:
        rest, position = b"", 0
        with opened(name) as file:
            try:
                while data := file.read1(_CHUNK):
                    rest += data
                    for entry in aborted_transactions(rest, position):
                        self._writer.write({"type": "abortedTransaction", "position": position, **to_json(entry, 0)})
                        position += ENTRY_BYTES
                    rest = rest[len(rest) // ENTRY_BYTES * ENTRY_BYTES :]
                    self._writer.flush()
            except ProtocolError as error:
                self._problem(f"{name}: {_at_byte(error)}")
                return
        if rest:
            self._problem(
                f"{name}: the last {len(rest)} bytes, from byte {position} on, are an incomplete entry: "
                "the file is cut off, or being written"
            )

    def _log_batch(self, entry: LogBatch) -> None:
        if not self._records:
            self._writer.write({"type": "batch", **self._batch(entry)})
            return
        for record in self._records_of(entry):
            self._writer.write({"type": "record", **record})

    def _batch(self, entry: LogBatch) -> dict[str, Any]:
        head = batch_json(entry)
        if self._records or entry.batch.is_control:
            head["records"] = Elements(self._records_of(entry))
        return head

    def _records_of(self, entry: LogBatch) -> Iterator[dict[str, Any]]:
        """The records; the batch was decoded, so that what one of them raises is only that it takes too much memory."""
        try:
            yield from records_json(entry, self._bytes_form)
        except ProtocolError as error:
            self._problem(f"the batch at byte {entry.position}: {error.message}")
            yield {"error": error.message}

    def _problem(self, text: str) -> None:
        self._problems += 1
        self._first = self._first or text


def _class_of(frame: RequestFrame | ResponseFrame) -> type[Message] | None:
    if isinstance(frame, RequestFrame):
        return frame.request_class
    return frame.response_class or (
        frame.request.request_class.response if frame.request and frame.request.request_class else None
    )


def _api_name(cls: type[Request[Response]] | type[Response] | None) -> str | None:
    return None if cls is None else cls.name.removesuffix("Request").removesuffix("Response")


def _decoded(cls: type[Message], version: int | None, data: bytes) -> Message:
    if version is not None:
        return cls.decode(data, version)
    if issubclass(cls, Data) and cls.__name__ not in _VERSION_IS_A_FIELD:
        return decode_versioned(cls, data)[1]
    at = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    return cls.decode(data if cls.__name__ in _VERSION_IS_A_FIELD else data[_VERSION_BYTES:], at)


def _header_tags(header: RequestHeader | ResponseHeader | None, version: int) -> dict[str, Any]:
    """The header's tagged fields, if there are any; no version of it declares one."""
    if header is None or not header.unknown_tagged_fields:
        return {}
    return {"headerTaggedFields": to_json(header, version)[UNKNOWN_TAGGED_FIELDS]}


def _at_byte(error: ProtocolError) -> str:
    return error.message if error.offset is None else f"{error.message}, at byte {error.offset}"
