"""One case on the wire: the bytes sent, and the response to each request. `judge` judges them."""

import secrets
import struct
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

from kafwire import protocol
from kafwire.errors import KafkaConnectionError, ProtocolError
from kafwire.protocol.spec import Request, Struct
from kafwire.records.batches import HEADER_SIZE
from kafwire.testing.fuzzer import case as cases
from kafwire.testing.fuzzer import damage, paths
from kafwire.testing.fuzzer.anatomy import dissect
from kafwire.testing.fuzzer.case import Bind, Case, Step
from kafwire.testing.fuzzer.connection import CLIENT_ID, BadSizeError, ClosedError, Target, TargetConnection
from kafwire.testing.fuzzer.generate import FRESH
from kafwire.testing.fuzzer.oddities import stamp
from kafwire.testing.fuzzer.safety import frames_of, permits, read_request, request_class, unfinished

RESPONDED, CLOSED, SILENT, WAITING, NONE, REFUSED, BAD_SIZE = (
    "answered", "closed", "silent", "waiting", "none", "refused", "bad size",
)  # fmt: skip
_PATIENCE = 0.3
_FIRST_CORRELATION_ID = 1000


class ForbiddenError(Exception):
    """The case's bytes hold a request that may not be sent."""


@dataclass
class Exchange:
    """The outcome of one step.

    `status`: answered; closed; silent (no response in time); waiting (no response in time, which is allowed); none (no
    response expected, and none came); refused (no connection); bad size. `request` and `version` are as the server sees
    them; None if kafwire cannot decode the damaged request.
    """

    step: int
    status: str = NONE
    sent: bytes = b""
    received: bytes = b""
    api: str = ""
    version: int = -1
    request: Any = None
    response: Any = None
    error: str = ""
    asked_id: int | None = None
    response_id: int | None = None
    seconds: float = 0.0
    waits: float = 0.0
    extra: int = 0


@dataclass
class Transcript:
    """A case and its outcomes."""

    case: Case
    exchanges: list[Exchange] = field(default_factory=list)


def execute(target: Target, case: Case, *, destructive: bool, topics: dict[str, UUID] | None = None) -> Transcript:
    """Send the case. `topics` are the server's ids by name, if they may differ from those in the case.

    Raises `ForbiddenError` before any harmful byte is sent, `damage.NotApplicableError` if the request lacks a place.
    """
    run = _Run(target, case, destructive, _renamed(case.topics, topics))
    try:
        if case.delivery == cases.TURNS:
            run.in_turns()
        else:
            run.at_once()
    finally:
        run.close()
    return Transcript(case, run.exchanges)


def _renamed(then: dict[str, UUID], now: dict[str, UUID] | None) -> dict[UUID, UUID]:
    if now is None:
        return {}
    return {topic_id: now[name] for name, topic_id in then.items() if name in now and now[name] != topic_id}


class _Run:
    def __init__(self, target: Target, case: Case, destructive: bool, ids: dict[UUID, UUID]) -> None:
        self.target = target
        self.case = case
        self.destructive = destructive
        self.ids = ids
        self.token = secrets.token_hex(len(FRESH) // 2)
        self.exchanges: list[Exchange] = []
        self.connection: TargetConnection | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def _connect(self, exchange: Exchange) -> bool:
        try:
            self.connection = TargetConnection(self.target)
        except KafkaConnectionError as error:
            exchange.status, exchange.error = REFUSED, str(error)
            return False
        return True

    # -- one request after the other

    def in_turns(self) -> None:
        for index, step in enumerate(self.case.steps):
            exchange, stream = self._prepare(index, step)
            self.exchanges.append(exchange)
            if self.connection is None and not self._connect(exchange):
                return
            self._turn(step, exchange, stream)
            if exchange.status != RESPONDED and index + 1 < len(self.case.steps):
                return

    def _turn(self, step: Step, exchange: Exchange, stream: bytes) -> None:
        connection = self.connection
        assert connection is not None
        whole = sum(1 for _ in frames_of(stream))
        rest, _ = unfinished(stream)
        silent = _no_response_expected(exchange.request) and not step.damage
        began = time.monotonic()
        try:
            connection.send(stream)
            if silent:
                self._probe(exchange, connection)
                return
            if rest or not whole:
                connection.finish()
            patience = self.target.timeout + exchange.waits
            if exchange.waits > self.target.timeout or _may_be_silent(step):
                patience = _PATIENCE
            exchange.received = connection.receive(began + patience)
            exchange.seconds = time.monotonic() - began
            exchange.status = RESPONDED
            if not whole:
                exchange.extra = 1
            elif rest:
                self._drain(exchange, connection, whole)
        except ClosedError as error:
            exchange.status, exchange.received = CLOSED, error.rest
        except TimeoutError as error:
            waits = exchange.waits > self.target.timeout or _may_be_silent(step)
            exchange.status, exchange.error = (WAITING if waits else SILENT), str(error)
        except BadSizeError as error:
            exchange.status, exchange.error = BAD_SIZE, str(error)
        exchange.seconds = time.monotonic() - began
        _read(exchange)

    def _drain(self, exchange: Exchange, connection: TargetConnection, whole: int) -> None:
        """Wait for the close: the rest of the stream is no whole request, so the server must close at its end."""
        deadline = time.monotonic() + self.target.timeout + exchange.waits
        count = 1
        try:
            while True:
                connection.receive(deadline)
                count += 1
        except ClosedError:
            exchange.extra = max(0, count - whole)
        except TimeoutError as error:
            exchange.status, exchange.error = SILENT, f"after the end of the stream: {error}"

    def _probe(self, exchange: Exchange, connection: TargetConnection) -> None:
        """Send a probe after a request without acknowledgement: the next response must be the probe's."""
        probe = protocol.encode_request(protocol.ApiVersionsRequest(), 0, 77, CLIENT_ID)
        exchange.status = NONE
        try:
            connection.send(struct.pack(">i", len(probe)) + probe)
            data = connection.receive(time.monotonic() + self.target.timeout)
            if data[:4] != struct.pack(">i", 77):
                exchange.status, exchange.received = RESPONDED, data
                exchange.error = "a response came to a request that has none (acks=0)"
        except ClosedError:
            # A broker closes the connection to report a failure, as it may not respond.
            pass
        except TimeoutError as error:
            exchange.status, exchange.error = SILENT, f"the next request: {error}"
        except BadSizeError as error:
            exchange.status, exchange.error = BAD_SIZE, str(error)

    # -- all requests before the first response

    def at_once(self) -> None:
        streams = []
        for index, step in enumerate(self.case.steps):
            exchange, stream = self._prepare(index, step)
            self.exchanges.append(exchange)
            streams.append(stream)
        # A request that ends early swallows the beginning of the next one, which changes the requests behind it.
        self._permit(b"".join(streams), "the requests, as they follow each other,")
        if not self._connect(self.exchanges[0]):
            return
        connection = self.connection
        assert connection is not None
        began = time.monotonic()
        try:
            self._write(connection, streams)
        except (ClosedError, TimeoutError) as error:
            # Responses that came before are read all the same.
            self.exchanges[-1].error = str(error)
        deadline = began + self.target.timeout
        for exchange in self.exchanges:
            deadline += exchange.waits
            self._read_in_order(connection, exchange, deadline)
            exchange.seconds = time.monotonic() - began
            _read(exchange)
            if exchange.status in (SILENT, BAD_SIZE):
                return
        if self.case.delivery == cases.HALF_CLOSED:
            self._await_end(connection)

    def _read_in_order(self, connection: TargetConnection, exchange: Exchange, deadline: float) -> None:
        try:
            exchange.received = connection.receive(deadline)
            exchange.status = RESPONDED
        except ClosedError as error:
            exchange.status, exchange.received = CLOSED, error.rest
        except TimeoutError as error:
            exchange.status, exchange.error = SILENT, str(error)
        except BadSizeError as error:
            exchange.status, exchange.error = BAD_SIZE, str(error)

    def _await_end(self, connection: TargetConnection) -> None:
        last = self.exchanges[-1]
        try:
            connection.receive(time.monotonic() + self.target.timeout)
            last.extra = 1
        except ClosedError:
            pass
        except (TimeoutError, BadSizeError) as error:
            last.status, last.error = SILENT, f"after the end of the stream: {error}"

    def _write(self, connection: TargetConnection, streams: list[bytes]) -> None:
        data = b"".join(streams)
        if self.case.delivery == cases.PIPELINED:
            pieces = streams
        elif self.case.delivery == cases.BYTEWISE:
            pieces = [data[i : i + 1] for i in range(len(data))]
        elif self.case.delivery == cases.SPLIT:
            cuts = sorted({cut % len(data) for cut in self.case.pieces} | {0, len(data)})
            pieces = [data[a:b] for a, b in pairwise(cuts)]
        else:
            pieces = [data]
        for piece in pieces:
            connection.send(piece)
        if self.case.delivery == cases.HALF_CLOSED:
            connection.finish()

    # -- bytes

    def _permit(self, stream: bytes, what: str) -> None:
        if not permits(stream, destructive=self.destructive):
            never = "at all" if self.destructive else "without --destructive"
            raise ForbiddenError(f"{what} may not be sent {never}")

    def _prepare(self, index: int, step: Step) -> tuple[Exchange, bytes]:
        message = paths.clone(step.message)
        for bind in step.binds:
            _bind(message, bind, self.exchanges)
        _refresh(message, self.token, self.ids)
        correlation_id = _FIRST_CORRELATION_ID + index
        frame = protocol.encode_request(message, step.version, correlation_id, CLIENT_ID)
        exchange = Exchange(index, api=step.api, version=step.version, request=message, asked_id=correlation_id)
        exchange.waits = waits(message)
        if step.damage:
            spans = dissect(request_class(step.api), step.version, frame)
            stream = damage.apply(frame, spans, step.damage)
            _as_seen(exchange, stream)
        else:
            stream = struct.pack(">i", len(frame)) + frame
        self._permit(stream, f"{step.api} version {step.version}")
        exchange.sent = stream
        return exchange, stream


def _as_seen(exchange: Exchange, stream: bytes) -> None:
    """Read damaged bytes as the server reads them."""
    seen = next(frames_of(stream), b"")
    exchange.asked_id = struct.unpack_from(">i", seen, 4)[0] if len(seen) >= 8 else None
    read = read_request(seen)
    if read is None:
        exchange.api, exchange.version, exchange.request = "", -1, None
        return
    exchange.api, exchange.version, exchange.request = read
    exchange.waits = max(exchange.waits, waits(read[2]))


def _bind(message: Any, bind: Bind, exchanges: list[Exchange]) -> None:
    if bind.step >= len(exchanges) or exchanges[bind.step].response is None:
        return
    response = exchanges[bind.step].response
    try:
        if bind.target.endswith("@producer"):
            path = paths.parse(bind.target.removesuffix("@producer"))
            batch = paths.get(message, path)
            if batch is not None and len(batch) > HEADER_SIZE and response.error_code == 0:
                stamped = stamp(bytes(batch), response.producer_id, response.producer_epoch, 0)
                paths.put(message, path, stamped)
            return
        paths.put(message, paths.parse(bind.target), paths.get(response, paths.parse(bind.source)))
    except (LookupError, AttributeError):
        return


def _refresh(message: Struct, token: str, ids: dict[UUID, UUID]) -> None:
    """Replace the suffix of names by this run's, and the case's topic ids by the server's."""
    for each in type(message).__fields__:
        value = getattr(message, each.name)
        if each.struct is not None and value is not None:
            for element in value if each.array else [value]:
                _refresh(element, token, ids)
        elif each.kind == "string":
            if isinstance(value, str) and FRESH in value:
                setattr(message, each.name, value.replace(FRESH, token))
            elif each.array and value:
                setattr(message, each.name, [text.replace(FRESH, token) for text in value])
        elif each.kind == "uuid" and not each.array and value in ids:
            setattr(message, each.name, ids[value])


def waits(message: Any) -> float:
    """Return the seconds for which a server may delay the response to `message`."""
    if message is None:
        return 0.0
    name = type(message).__name__.removesuffix("Request")
    if name in ("Fetch", "ShareFetch"):
        return max(0, int(message.max_wait_ms)) / 1000
    if name == "JoinGroup":
        # A broker gathers a new group's members for a while (group.initial.rebalance.delay.ms), within the time-out.
        longest = max(int(message.rebalance_timeout_ms), int(message.session_timeout_ms), 0) / 1000
        return longest + 3.0
    if name == "SyncGroup":
        return 10.0
    if hasattr(message, "timeout_ms"):
        return max(0, int(message.timeout_ms)) / 1000
    return 0.0


def _may_be_silent(step: Step) -> bool:
    """True if a server may read acks=0 from damaged bytes that kafwire cannot decode: then it must not respond."""
    return bool(step.damage) and step.message.api_key == 0


def _no_response_expected(request: Any) -> bool:
    return isinstance(request, Request) and request.api_key == 0 and getattr(request, "acks", 1) == 0


def _read(exchange: Exchange) -> None:
    """Decode the response."""
    if exchange.status != RESPONDED or exchange.error:
        return
    if len(exchange.received) >= 4:
        (exchange.response_id,) = struct.unpack_from(">i", exchange.received)
    if not exchange.api or not exchange.received:
        return
    try:
        _, exchange.response = protocol.decode_response(
            request_class(exchange.api), exchange.received, exchange.version
        )
    except ProtocolError as error:
        exchange.error = str(error)
