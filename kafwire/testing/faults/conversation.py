"""One connection between a client and a broker, as the fault proxy sees it. Pure: no sockets, no clock.

    talk = Conversation(broker=1, number=1, stage=stage)
    talk.open(now)
    talk.from_client(data, now); talk.from_broker(data, now)
    while (piece := talk.to_broker.take(now)) is not None:      # bytes, or an `End`
        ...; talk.to_broker.sent(count, now)
    talk.due, talk.to_broker.wake(), talk.to_client.wake()      # when to call `tick` and `take` again

The conversation cuts the bytes into frames, and passes a frame on when it is whole. Responses find their requests by
correlation id, in order, so a request without a response (Produce with acks=0) does no harm. Bytes that are not frames,
such as TLS, pass unchanged, and faults of frames do not apply to them.
"""

import math
import struct
from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol

from kafwire.errors import ProtocolError
from kafwire.protocol import Request, Response
from kafwire.protocol.dump import requests_by_key
from kafwire.protocol.header import RequestHeader
from kafwire.protocol.spec import MAX_MEMORY
from kafwire.protocol.stream import SIZE_BYTES, FrameStream
from kafwire.testing.faults.kinds import (
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Fault,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Throttle,
)
from kafwire.testing.faults.line import End, Line
from kafwire.testing.faults.record_spans import record_spans
from kafwire.testing.faults.script import CONNECT, Decision, Occasion

__all__ = ["Conversation", "Stage"]

# A request without a response is forgotten after this many requests behind it.
REMEMBERED = 65536
_CORRELATION_ID = struct.Struct(">i")
# The first byte of the sequence, within the bytes that the checksum of a record batch covers.
_SEQUENCE = 32


class Stage(Protocol):
    """The owner of a conversation: decides on faults and records them."""

    def decide(self, occasion: Occasion, now: float) -> Decision | None:
        """Return the decision for this request or connection; None: let it pass."""

    def give_back(self, decision: Decision) -> None:
        """Note that the fault could not be applied."""

    def played(self, occasion: Occasion, fault: Fault, now: float) -> None:
        """Note that the fault took effect."""

    def spread(self, fault: Fault, broker: int, now: float) -> None:
        """Apply a fault to the whole broker."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """A request without its response yet, and the fault for the response.

    `again`: the request was delivered twice, and the client does not expect this response.
    """

    occasion: Occasion
    request_class: type[Request[Response]]
    decision: Decision | None
    again: bool = False


class Conversation:
    """Frames in from both sides, faults applied, bytes out on two lines."""

    def __init__(self, broker: int, number: int, stage: Stage, *, frames: bool = True) -> None:
        """Start a connection to a broker; without `frames`, bytes pass as they come, without faults of frames."""
        self.broker = broker
        self.number = number
        self.to_broker = Line()
        self.to_client = Line()
        self._stage = stage
        self._requests: FrameStream | None = FrameStream() if frames else None  # None: the bytes are not frames
        self._responses: FrameStream | None = FrameStream() if frames else None
        self._owed: deque[_Owed] = deque()
        self._kept: tuple[bytes, _Owed, Reorder, float] | None = None  # a response that the next one overtakes
        self._silenced = False  # a fault has ended the connection: the client's bytes are ignored

    # -- events

    def open(self, now: float) -> None:
        """Note that the client has connected."""
        occasion = Occasion(self.broker, self.number, CONNECT)
        decision = self._stage.decide(occasion, now)
        if decision is None:
            return
        self._stage.played(occasion, decision.fault, now)
        if isinstance(decision.fault, Reset):
            self._hang_up()
        else:
            self.impose(decision.fault, now)

    def from_client(self, data: bytes, now: float) -> None:
        """Take bytes that the client sent."""
        if self._silenced:
            return
        if self._requests is not None:
            self._requests.buffer += data
            while not self._silenced and (frame := self._next(self._requests)) is not None:
                self._on_request(frame, now)
            if self._silenced or not _is_broken(self._requests):
                return
            data, self._requests = bytes(self._requests.buffer), None
        self.to_broker.put(data)

    def from_broker(self, data: bytes, now: float) -> None:
        """Take bytes that the broker sent."""
        if self.to_client.ended:
            return
        if self._responses is not None:
            self._responses.buffer += data
            while not self.to_client.ended and (frame := self._next(self._responses)) is not None:
                self._on_response(frame, now)
            if self.to_client.ended or not _is_broken(self._responses):
                return
            data, self._responses = bytes(self._responses.buffer), None
        self.to_client.put(data)

    def client_ended(self, *, gone: bool) -> None:
        """Note that the client sends nothing more; `gone`: nor reads. Bytes in transit still reach the broker."""
        if self._requests is not None and not self._silenced:
            self.to_broker.put(bytes(self._requests.buffer))
        self._silenced = True
        self.to_broker.end()
        if gone:
            self.to_client.drop()
            self._forget()

    def broker_ended(self, how: End) -> None:
        """Note that the broker closed or refused the connection. Bytes in transit still reach the client."""
        if self._kept is not None:
            frame, owed, *_ = self._kept
            self._kept = None
            self._give_back(owed)
            self.to_client.put(frame)
        if self._responses is not None:
            self.to_client.put(bytes(self._responses.buffer))
        self.to_client.end(how)
        self.to_broker.drop()
        self._silenced = True
        self._forget()

    def tick(self, now: float) -> None:
        """Deliver a kept response whose time has passed."""
        if self._kept is not None and self._kept[3] <= now:
            frame, owed, fault, _ = self._kept
            self._kept = None
            self.to_client.put(frame)
            self._stage.played(owed.occasion, Delay(fault.seconds), now)

    @property
    def over(self) -> bool:
        """True if the client gets nothing more but the bytes in transit to it."""
        return self.to_client.ended

    @property
    def due(self) -> float | None:
        """The next time at which `tick` has work, or None."""
        return self._kept[3] if self._kept is not None else None

    def impose(self, fault: Fault, now: float, *, behind: bool = False) -> None:
        """Apply a Reset, BlackHole or Throttle to the connection at once. The stage applies faults of the broker.

        `behind`: bytes in transit still pass a black hole.
        """
        match fault:
            case Reset():
                self._hang_up()
            case Refuse() | BlackHole(scope="broker") | Throttle(scope="broker"):
                self._stage.spread(fault, self.broker, now)
            case BlackHole() | Throttle():
                self.condition(fault, now, math.inf if fault.seconds is None else now + fault.seconds, behind=behind)
            case _:
                message = f"{fault!r} is for a request or response: aim it with a Rule"
                raise TypeError(message)

    def condition(self, fault: BlackHole | Throttle, now: float, until: float, *, behind: bool = False) -> None:
        """Put one line, or both, under a black hole or throttle until a time."""
        for way, line in (("request", self.to_broker), ("response", self.to_client)):
            if fault.way in (way, "both"):
                if isinstance(fault, BlackHole):
                    line.darken(now, until, behind=behind)
                else:
                    line.throttle(fault.bytes_per_second, until)

    def heal(self) -> None:
        """End all black holes and throttles."""
        self.to_broker.heal()
        self.to_client.heal()

    def pardon(self) -> None:
        """Let a kept response, and those still to come, pass without faults."""
        if self._kept is not None:
            self.to_client.put(self._kept[0])
            self._kept = None
        self._owed = deque(replace(owed, decision=None) for owed in self._owed)

    # -- frames

    def _on_request(self, frame: bytes, now: float) -> None:
        head = _read_head(frame)
        if head is None:
            self.to_broker.put(frame)
            return
        header, request_class = head
        occasion = Occasion(
            self.broker,
            self.number,
            request_class.__name__.removesuffix("Request"),
            header.request_api_version,
            header.correlation_id,
            header.client_id,
        )
        decision = self._stage.decide(occasion, now)
        if decision is not None and _is_of_response(decision.fault):
            self._owe(_Owed(occasion, request_class, decision))
            self.to_broker.put(frame)
            return
        self._owe(_Owed(occasion, request_class, None))
        if decision is None:
            self.to_broker.put(frame)
        elif self._play_on_request(frame, decision.fault, request_class, occasion, now):
            self._stage.played(occasion, decision.fault, now)
        else:
            self._stage.give_back(decision)
            self.to_broker.put(frame)

    def _play_on_request(
        self, frame: bytes, fault: Fault, request_class: type[Request[Response]], occasion: Occasion, now: float
    ) -> bool:
        match fault:
            case Delay():
                self.to_broker.put(frame, now + fault.duration)
            case Hold():
                self.to_broker.put(frame, now + fault.duration)
                self._hang_up()
            case Reset():
                self._hang_up()
            case Cut():
                self.to_broker.put(_part(frame, fault))
                self._hang_up(End.RESET if fault.reset else End.CLOSE)
            case Corrupt():
                changed = _corrupted(frame, fault, request_class, occasion.version)
                if changed is None:
                    return False
                self.to_broker.put(changed)
            case Duplicate():
                self._owe(_Owed(occasion, request_class, None, again=True))
                self.to_broker.put(frame)
                self.to_broker.put(frame)
            case _:
                self.impose(fault, now, behind=True)
                self.to_broker.put(frame)
        return True

    def _on_response(self, frame: bytes, now: float) -> None:
        owed = self._take_owed(frame)
        if owed is not None and owed.again:
            return
        before, self._kept = self._kept, None
        if owed is None or owed.decision is None:
            self.to_client.put(frame)
        elif self._play_on_response(frame, owed, owed.decision.fault, now, alone=before is None):
            if self._kept is None:
                self._stage.played(owed.occasion, owed.decision.fault, now)
        else:
            self._give_back(owed)
            self.to_client.put(frame)
        if before is not None and self.to_client.ended:
            self._give_back(before[1])
        elif before is not None:
            self.to_client.put(before[0])
            self._stage.played(before[1].occasion, before[2], now)

    def _play_on_response(self, frame: bytes, owed: _Owed, fault: Fault, now: float, *, alone: bool) -> bool:
        match fault:
            case Delay():
                self.to_client.put(frame, now + fault.duration)
            case DropResponse():
                if fault.reset:
                    self._hang_up()
            case Cut():
                self.to_client.put(_part(frame, fault))
                self.to_client.end(End.RESET if fault.reset else End.CLOSE)
                self._silence()
            case Corrupt():
                changed = _corrupted(frame, fault, owed.request_class.response, owed.occasion.version)
                if changed is None:
                    return False
                self.to_client.put(changed)
            case Duplicate():
                self.to_client.put(frame)
                self.to_client.put(frame)
            case Reorder():
                if not alone:
                    return False
                self._kept = (frame, owed, fault, now + fault.duration)
            case _:
                return False
        return True

    def _next(self, stream: FrameStream) -> bytes | None:
        """Return the next whole frame with its size; None if there is none, or if the bytes are not frames."""
        try:
            data = stream.peek()
        except ProtocolError:
            return None
        if data is None:
            return None
        stream.skip()
        return len(data).to_bytes(SIZE_BYTES, "big") + data

    # -- responses to come

    def _owe(self, owed: _Owed) -> None:
        self._owed.append(owed)
        if len(self._owed) > REMEMBERED:
            self._give_back(self._owed.popleft())

    def _take_owed(self, frame: bytes) -> _Owed | None:
        if len(frame) < SIZE_BYTES + _CORRELATION_ID.size:
            return None
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, SIZE_BYTES)
        if all(owed.occasion.correlation_id != correlation_id for owed in self._owed):
            return None
        while (owed := self._owed.popleft()).occasion.correlation_id != correlation_id:
            self._give_back(owed)
        return owed

    def _give_back(self, owed: _Owed) -> None:
        if owed.decision is not None:
            self._stage.give_back(owed.decision)

    def _forget(self) -> None:
        """Give back the faults of responses that no longer come, or no longer have a client."""
        if self._kept is not None:
            self._give_back(self._kept[1])
            self._kept = None
        while self._owed:
            self._give_back(self._owed.popleft())

    # -- ends

    def _hang_up(self, how: End = End.RESET) -> None:
        """End the connection for the client at once. Bytes in transit still reach the broker, and then the end."""
        self.to_client.drop(how)
        self._silence()

    def _silence(self) -> None:
        self._silenced = True
        self.to_broker.end()
        self._forget()


def _is_of_response(fault: Fault) -> bool:
    match fault:
        case DropResponse() | Reorder():
            return True
        case Delay() | Cut() | Corrupt() | Duplicate():
            return fault.way == "response"
    return False


def _is_broken(stream: FrameStream) -> bool:
    try:
        stream.size()
    except ProtocolError:
        return True
    return False


def _read_head(frame: bytes) -> tuple[RequestHeader, type[Request[Response]]] | None:
    """Return the header of a request and its class; None for other bytes, such as a SASL token."""
    try:
        # The fields that flexible versions add come after these.
        header, _ = RequestHeader.plan(1).decode_prefix(memoryview(frame)[SIZE_BYTES:], MAX_MEMORY)
    except ProtocolError:
        return None
    request_class = requests_by_key().get(header.request_api_key)
    return (header, request_class) if request_class is not None else None


def _part(frame: bytes, fault: Cut) -> bytes:
    assert fault.part is not None
    return frame[: max(1, int(len(frame) * fault.part))]


def _corrupted(
    frame: bytes, fault: Corrupt, message_class: type[Request[Response]] | type[Response], version: int
) -> bytes | None:
    """Return the frame with a byte changed; None if it has no byte that may be changed."""
    assert fault.spot is not None
    assert fault.mask is not None
    if fault.where == "anywhere":
        spans = [(SIZE_BYTES, len(frame))] if len(frame) > SIZE_BYTES else []
    else:
        body = memoryview(frame)[SIZE_BYTES:]
        spans = [(SIZE_BYTES + start, SIZE_BYTES + end) for start, end in record_spans(body, message_class, version)]
    left = int(fault.spot * sum(end - start for start, end in spans))
    for start, end in spans:
        if left < end - start:
            mask = fault.mask
            if fault.where == "records" and fault.way == "request" and left == _SEQUENCE:
                mask = mask & 0x7F or 1
            changed = bytearray(frame)
            changed[start + left] ^= mask
            return bytes(changed)
        left -= end - start
    return None
