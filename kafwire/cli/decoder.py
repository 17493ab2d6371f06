"""The output of `kafwire decode` for frames, messages and connections; `log_decoder` handles a partition's files."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.findings import Findings
from kafwire.cli.log_decoder import LogDecoder, at_byte
from kafwire.cli.source import Frame, opened
from kafwire.errors import ProtocolError
from kafwire.protocol import Data, Message, Request, Response, decode_versioned
from kafwire.protocol.coordinator_record import CoordinatorKey, decode_key
from kafwire.protocol.dump import (
    CLIENT,
    SERVER,
    Dump,
    Event,
    Incomplete,
    RequestFrame,
    ResponseFrame,
    Token,
    WithoutResponse,
    read_request,
    read_response,
)
from kafwire.protocol.framing import decode_response_body
from kafwire.protocol.header import RequestHeader, ResponseHeader
from kafwire.protocol.kafka_json import UNKNOWN_TAGGED_FIELDS, RecordsForm, to_json
from kafwire.protocol.lazy_json import BytesForm, Elements, Text
from kafwire.protocol.log import split_batches
from kafwire.secret import HIDDEN

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Decoder"]

_CHUNK = 1 << 16
_VERSION_BYTES = 2
_FETCH_SNAPSHOT = 59  # its records are a piece of a file with arbitrary bounds
_VERSION_IS_A_FIELD = {
    "LeaderChangeMessage",
    "SnapshotHeaderRecord",
    "SnapshotFooterRecord",
    "KRaftVersionRecord",
    "VotersRecord",
}


class Decoder:
    """Prints decoded values, and notes problems."""

    def __init__(
        self,
        findings: Findings,
        *,
        records: bool,
        raw_records: bool,
        bytes_form: BytesForm,
        show_secrets: bool = False,
    ) -> None:
        self._findings = findings
        self._logs = LogDecoder(findings, records=records, bytes_form=bytes_form)
        self._raw_records = raw_records
        self._show_secrets = show_secrets

    # --- frames ---

    def requests(self, frames: list[Frame]) -> None:
        """Decode requests with their headers."""
        for frame in frames:
            self._frame(read_request(frame.data, frame.position), frame)

    def responses(self, frames: list[Frame], request_class: type[Request[Response]], version: int) -> None:
        """Decode responses to requests of one API and version, with their headers."""
        for frame in frames:
            self._frame(read_response(frame.data, request_class, version, frame.position), frame)

    def _frame(self, event: RequestFrame | ResponseFrame, frame: Frame) -> None:
        if frame.missing:
            self._findings.problem(
                f"the frame at byte {frame.position} is truncated: {frame.missing} bytes are missing"
            )
            self._findings.write(
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
                    self._findings.problem(f"{name}: {at_byte(error)}")
                    return
                self._findings.flush()

    def _event(self, event: Event) -> None:
        match event:
            case RequestFrame():
                self._request(event)
            case ResponseFrame():
                self._response(event)
            case Token():
                self._findings.write(
                    {
                        "type": "token",
                        "side": event.side,
                        "position": event.position,
                        "size": len(event.data),
                        "data": Text(event.data, "base64") if self._show_secrets else HIDDEN,
                    }
                )
            case WithoutResponse():
                self._findings.write(
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
                self._findings.write(
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
            self._findings.problem(f"the {head['type']} at byte {frame.position}: {frame.error}")
            head["error"] = str(frame.error)
        if frame.error is not None or version is None:
            head["hex"] = self._hex(frame.data, _class_of(frame))
        self._findings.write(head)

    def _hex(self, data: bytes, cls: type[Message] | None) -> Text | str:
        """Return undecoded bytes as hex, or HIDDEN if the message may contain a secret."""
        if self._show_secrets or cls is None or not cls.may_hide():
            return Text(data, "hex")
        return HIDDEN

    # --- messages ---

    def message(self, cls: type[Message], version: int | None, data: bytes) -> None:
        """Decode a message without a header. Without `version`, the first two bytes are the version."""
        name = cls.__name__
        if version is None:
            if len(data) < _VERSION_BYTES:
                raise click.ClickException(
                    f"{name} begins with a version of {_VERSION_BYTES} bytes, but there are only {len(data)} bytes"
                )
            shown = 0 if issubclass(cls, CoordinatorKey) else int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
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
        """Decode a response without its header."""
        try:
            found, message = decode_response_body(request_class, data, version)
        except ProtocolError as error:
            self._bare_error(request_class.response, version, error, data)
        else:
            self._bare(message, found)

    def _bare(self, message: Message, version: int | None) -> None:
        body = self._body(message, version)
        self._findings.write({"type": "message", "message": type(message).__name__, "version": version, "body": body})

    def _bare_error(self, cls: type[Message], version: int, error: ProtocolError, data: bytes) -> None:
        self._findings.problem(str(error))
        shown = self._hex(data, cls)
        self._findings.write(
            {"type": "message", "message": cls.__name__, "version": version, "error": str(error), "hex": shown}
        )

    def _body(self, message: Message, version: int | None) -> dict[str, Any]:
        """Return the message as JSON; without a version, or with one above ours, in our highest version."""
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
                yield self._logs.batch(entry)
        except ProtocolError as error:
            self._findings.problem(f"records: {at_byte(error)}")
            yield {"error": error.message, "position": error.offset}

    # --- logs ---

    def log(self, name: str, topic: str | None) -> None:
        """Decode a file of a partition."""
        self._logs.file(name, topic)


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
    if issubclass(cls, CoordinatorKey):
        return decode_key(cls, data)
    if issubclass(cls, Data) and cls.__name__ not in _VERSION_IS_A_FIELD:
        return decode_versioned(cls, data)[1]
    at = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    return cls.decode(data if cls.__name__ in _VERSION_IS_A_FIELD else data[_VERSION_BYTES:], at)


def _header_tags(header: RequestHeader | ResponseHeader | None, version: int) -> dict[str, Any]:
    """Return the header's tagged fields, if it has any; no version of it declares one."""
    if header is None or not header.unknown_tagged_fields:
        return {}
    return {"headerTaggedFields": to_json(header, version)[UNKNOWN_TAGGED_FIELDS]}
