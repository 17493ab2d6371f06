"""A stateful test of the client's side of a connection: of code that frames requests and assigns responses to them.

    class Mine(ConnectionMachine):
        def connect(self) -> ConnectionAdapter:
            return MyAdapter(self.max_frame)

    TestMine = Mine.TestCase             # pytest and unittest collect this

Hypothesis plays the client's user on one side and a broker, honest or not, on the other. The machine compares the
results with a small model. Write a `ConnectionAdapter` for the client under test.
"""

import enum
import struct
import sys
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kafwire.errors import ProtocolError
from kafwire.protocol.header import RequestHeader

__all__ = ["ConnectionAdapter", "ConnectionMachine", "Fault"]

_MAX_ID = (1 << 31) - 1
# Sizes around those at which readers change from one buffer to another.
_SIZES = st.integers(0, 20) | st.sampled_from([1_000, 4_096, 16_380, 16_384, 65_528, 65_536, 70_000])
_ALL = 1 << 30
_PATTERN = struct.pack(">20000I", *range(20_000))
_COUNTS = st.just(_ALL) | st.integers(1, 4) | st.sampled_from([5, 7, 8, 9, 12, 100, 16_384, 65_536])


class ConnectionAdapter(ABC):
    """A connection under `ConnectionMachine` that moves no bytes by itself. Subclass it for your client.

    Example:
        >>> from kafwire.testing.strategies import ConnectionAdapter
        >>> sorted(ConnectionAdapter.__abstractmethods__)
        ['close', 'completions', 'feed', 'queue', 'take']
    """

    refusals: ClassVar[tuple[type[Exception], ...]] = (ProtocolError,)
    """The errors that `feed` raises for bytes that break the protocol; any other error is a failure."""

    @abstractmethod
    def queue(self, token: int, correlation_id: int, request: bytes, *, expects_response: bool) -> None:
        """Take a request to be sent: header and body, without the size prefix.

        Args:
            token: identifies the request in `completions`.
            correlation_id: the id in the header.
            request: the bytes.
            expects_response: False for a request without a response: Produce with acks=0.
        """

    @abstractmethod
    def take(self, limit: int) -> bytes:
        """Return the next bytes to send: at least one if there are any; none after a refusal.

        Args:
            limit: the most bytes.

        Returns:
            The bytes.
        """

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Receive bytes.

        An adapter checks a frame's size by its four bytes, and the correlation id once it has arrived, at the latest
        when the frame is complete.

        Args:
            data: the bytes.

        Raises:
            Exception: one of `refusals`, if the bytes break the protocol, and on every later call.
        """

    @abstractmethod
    def completions(self) -> list[tuple[int, bytes | None]]:
        """Return the requests that have completed since the last call, in that order.

        Returns:
            For each request its token, and the frame after its size prefix; None for a request without a response that
            was taken whole.
        """

    @abstractmethod
    def close(self) -> list[int]:
        """End the connection.

        Returns:
            The tokens that have not completed, oldest first.
        """


class Fault(enum.Enum):
    """The faults of a broken broker.

    Example:
        >>> from kafwire.testing.strategies import Fault
        >>> Fault.TOO_LARGE.value
        'a frame above the limit'
    """

    UNKNOWN_ID = "an id that no request has had"
    REPEATED_ID = "a second response to a request"
    LATER_ID = "the response to a later request than the oldest one"
    EARLY = "the response to a request that has not left in full"
    TOO_LARGE = "a frame above the limit"
    TOO_SMALL = "a frame that has no room for a correlation id, or of negative size"


class _Request(NamedTuple):
    token: int
    correlation_id: int
    size: int  # on the wire
    expects_response: bool


class _Incoming(NamedTuple):
    """One frame in transit to the client: the token of its request, or the byte counts that allow a refusal."""

    data: bytes
    token: int | None
    may_refuse: int = 0
    must_refuse: int = 0


class ConnectionMachine(RuleBasedStateMachine):
    """A stateful test of the client's side of a connection.

    Requests are pipelined, their responses come in pieces of any size, and connections end anywhere. Responses may
    break the protocol. Subclasses define `connect`, and may set `max_frame` (bytes after the size prefix, the largest
    that the adapter takes) and `faults`, the kinds of broken responses to try: leave out those that your client does
    not promise to refuse. A failure is an AssertionError with the expected value. Hypothesis prints the fewest steps
    that lead to it. Hypothesis creates the machine.

    Example:
        >>> from kafwire.testing.strategies import ConnectionMachine, Fault
        >>> class MyConnections(ConnectionMachine):
        ...     faults = frozenset({Fault.TOO_LARGE})
        ...     def connect(self):
        ...         return MyAdapter()
        >>> MyTest = MyConnections.TestCase
    """

    max_frame: ClassVar[int] = 1 << 20
    faults: ClassVar[frozenset[Fault]] = frozenset(Fault)

    def connect(self) -> ConnectionAdapter:
        """Return a fresh connection. Subclasses define it.

        Returns:
            A `ConnectionAdapter`.

        Raises:
            NotImplementedError: the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define connect()")

    def __init__(self) -> None:
        super().__init__()
        self._token = 0
        self._next_id = 0
        self._open()

    def _open(self) -> None:
        self._adapter = self.connect()
        self._unsent: list[_Request] = []  # the first of them may be partly sent
        self._out = bytearray()  # bytes that the adapter still has to send
        self._owed: list[_Request] = []  # requests at the broker without a response yet
        self._waiting: list[_Request] = []  # requests that were sent and have not completed
        self._incoming: list[_Incoming] = []
        self._into = 0  # bytes of the first of `_incoming` that were delivered
        self._completed: list[tuple[int, bytes | None]] = []
        self._response_ids: list[int] = []
        self._broken = False  # the broker has sent bytes that break the protocol
        self._refused = False

    # --- the client's user ---

    @initialize(first_id=st.integers(0, 3) | st.sampled_from([_MAX_ID - 1, _MAX_ID]))
    def number_from(self, first_id: int) -> None:
        """Start with this correlation id."""
        self._next_id = first_id

    @rule(size=_SIZES, expects_response=st.sampled_from([True, True, True, False]), skipped_ids=st.integers(0, 2))
    def queue(self, size: int, expects_response: bool, skipped_ids: int) -> None:
        """Queue a request with a body of `size` bytes."""
        correlation_id = self._next_id + skipped_ids
        if correlation_id > _MAX_ID:
            correlation_id = skipped_ids
        self._next_id = correlation_id + 1 if correlation_id < _MAX_ID else 0
        self._token += 1
        header = RequestHeader(request_api_key=0, request_api_version=0, correlation_id=correlation_id, client_id="c")
        payload = header.encode(1) + _body(size, self._token)
        self._adapter.queue(self._token, correlation_id, payload, expects_response=expects_response)
        request = _Request(self._token, correlation_id, 4 + len(payload), expects_response)
        self._unsent.append(request)
        self._out += struct.pack(">i", len(payload)) + payload

    @rule(sizes=st.lists(_SIZES, min_size=1, max_size=3))
    def send(self, sizes: list[int]) -> None:
        """Queue requests with bodies of these sizes and let the adapter send all bytes."""
        for size in sizes:
            self.queue(size, expects_response=True, skipped_ids=0)
        while self._out and not self._refused:
            self.take(_ALL)

    @rule(limit=_COUNTS)
    def take(self, limit: int) -> None:
        """Let the adapter send at most `limit` bytes."""
        data = self._adapter.take(limit)
        if self._refused:
            assert not data, f"{len(data)} bytes were sent on a connection that is broken"
            return
        assert len(data) <= limit, f"take({limit}) gave {len(data)} bytes"
        assert data or not self._out, f"take({limit}) gave nothing; {len(self._out)} bytes have not left"
        wanted = bytes(self._out[: len(data)])
        assert data == wanted, f"take({limit}) gave {_shown(data)}, expected {_shown(wanted)}"
        del self._out[: len(data)]
        while self._unsent and sum(request.size for request in self._unsent[1:]) >= len(self._out):
            request = self._unsent.pop(0)
            if request.expects_response:
                self._owed.append(request)
                self._waiting.append(request)
            else:
                self._completed.append((request.token, None))

    @rule()
    def collect(self) -> None:
        """Compare the completed requests with the model."""
        found = self._adapter.completions()
        assert found == self._completed, f"completed: {_listed(found)}; expected: {_listed(self._completed)}"
        self._completed = []

    @precondition(lambda self: self._refused or self._into)
    @rule()
    def reconnect(self) -> None:
        """End the connection, after a refusal or in the middle of a frame, and open another one."""
        self._end()
        self._open()

    def _end(self) -> None:
        self.collect()
        lost = list(self._adapter.close())
        expected = [request.token for request in (*self._waiting, *self._unsent)]
        assert lost == expected, f"close() says that {lost} have not completed; expected {expected}"

    # --- the broker ---

    @precondition(lambda self: self._owed and not self._broken)
    @rule(sizes=st.lists(_SIZES, min_size=1, max_size=3))
    def respond(self, sizes: list[int]) -> None:
        """Send responses to the oldest requests with bodies of these sizes; they are in transit then."""
        for size, request in zip(sizes, self._owed[: len(sizes)], strict=False):
            body = struct.pack(">i", request.correlation_id) + _body(size, ~request.token)
            self._incoming.append(_Incoming(struct.pack(">i", len(body)) + body, request.token))
            self._response_ids.append(request.correlation_id)
        del self._owed[: len(sizes)]

    @precondition(lambda self: self._incoming)
    @rule(counts=st.lists(_COUNTS, min_size=1, max_size=6))
    def deliver(self, counts: list[int]) -> None:
        """Deliver bytes in transit in pieces of at most these sizes."""
        for count in counts:
            if self._incoming:
                self._deliver(count)

    def _deliver(self, count: int) -> None:
        stream = b"".join(frame.data for frame in self._incoming)
        piece = stream[self._into : self._into + count]
        may = must = False
        self._into += len(piece)
        while self._incoming:
            frame = self._incoming[0]
            if frame.token is None:
                may = self._into >= frame.may_refuse
                must = self._into >= frame.must_refuse
                break
            if self._into < len(frame.data):
                break
            self._into -= len(frame.data)
            self._incoming.pop(0)
            self._waiting = [request for request in self._waiting if request.token != frame.token]
            self._completed.append((frame.token, frame.data[4:]))
        error = self._feed(piece)
        assert may or error is None, f"feed({_shown(piece)}) raised {error!r}, and nothing is wrong with those bytes"
        assert error or not must, f"feed({_shown(piece)}) took bytes that break the protocol"
        if error:
            self._refused = True
            self._incoming, self._into = [], 0

    @precondition(lambda self: self._refused)
    @rule(data=st.binary(min_size=1, max_size=8))
    def deliver_to_the_broken(self, data: bytes) -> None:
        """Deliver more bytes after a refusal: the adapter must refuse these too."""
        assert self._feed(data), f"feed({_shown(data)}) took bytes after it had refused some"

    def _feed(self, data: bytes) -> Exception | None:
        try:
            self._adapter.feed(data)
        except self._adapter.refusals as error:
            return error
        return None

    @precondition(lambda self: not self._broken and self._possible_faults())
    @rule(data=st.data(), size=st.just(0) | st.integers(0, 20), by=st.integers(0, 3))
    def break_rules(self, data: st.DataObject, size: int, by: int) -> None:
        """Send bytes that break the protocol in a way that is possible now; the broker sends nothing after them."""
        fault = data.draw(st.none() | st.sampled_from(self._possible_faults()), "fault")
        if fault is None:
            return  # an honest broker
        body = _body(size, 0)
        if fault is Fault.TOO_LARGE:
            self._send_fault(self.max_frame + 1 + by * 0x1FFFFFFF, body, 4)
        elif fault is Fault.TOO_SMALL:
            self._send_fault((3, 0, -1, -(1 << 31))[by], body, 4)
        else:
            wrong_id = {
                Fault.UNKNOWN_ID: lambda: -1 - by,
                Fault.REPEATED_ID: lambda: self._response_ids[-1],
                Fault.LATER_ID: lambda: self._owed[1].correlation_id,
                Fault.EARLY: lambda: self._unsent[0].correlation_id,
            }[fault]()
            self._send_fault(4 + size, struct.pack(">i", wrong_id) + body, 8)
        if fault is Fault.EARLY:
            self._deliver(_ALL)  # at once, while the request has not left in full

    def _possible_faults(self) -> list[Fault]:
        impossible = set(Fault) - self.faults
        if not self._response_ids:
            impossible.add(Fault.REPEATED_ID)
        if len(self._owed) < 2:
            impossible.add(Fault.LATER_ID)
        if not self._unsent:
            impossible.add(Fault.EARLY)
        return [fault for fault in Fault if fault not in impossible]

    def _send_fault(self, size: int, body: bytes, may_refuse: int) -> None:
        data = struct.pack(">i", size) + body
        must_refuse = len(data) if may_refuse == 8 else 4
        self._incoming.append(_Incoming(data, None, may_refuse, must_refuse))
        self._broken = True

    def teardown(self) -> None:
        """Send and deliver the rest, and compare all, unless a step has failed."""
        if sys.exc_info()[1] is None:
            while self._out and not self._refused:
                self.take(_ALL)
            if self._incoming:
                self._deliver(_ALL)
            self._end()


def _body(size: int, seed: int) -> bytes:
    """Return bytes that show if a piece is mixed up, shifted or repeated."""
    start = seed % 251
    return _PATTERN[start : start + size]


def _shown(data: bytes) -> str:
    return repr(data) if len(data) <= 40 else f"{data[:32]!r}... ({len(data)} bytes)"


def _listed(completions: list[tuple[int, bytes | None]]) -> str:
    shown = [f"{token}: {'sent' if frame is None else _shown(frame)}" for token, frame in completions]
    return "{" + ", ".join(shown) + "}"
