"""Sockets around a `ClusterState`: one thread, one selector, no decision.

A connection's requests are handled one after the other, as in Kafka: the next one is handled after the response to the
last one, and not before a throttle time has passed (KIP-219).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kafwire.broker import dispatch
from kafwire.broker.error_responses import ErrorPlace, error_response
from kafwire.broker.frames import has_long_text, read_request, write_pieces
from kafwire.broker.log.log import FileSpan
from kafwire.broker.request import HANG_UP, NO_RESPONSE, ClientConnection, Request, Response
from kafwire.broker.security.principals import DEFAULT_RULES, principal_of
from kafwire.broker.security.server_tls import (
    HANDSHAKE_MS,
    Step,
    begins_tls,
    has_ended,
    next_plaintext,
    refuse_plaintext,
    shake_hands,
)
from kafwire.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    import ssl

    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer

_T = TypeVar("_T")
_log = logging.getLogger("kafwire.broker")

SIZE_BYTES = 4
SCRATCH_BYTES = 256 << 10
FRAME_BYTES = 1 << 20  # the first size of a frame's buffer, which grows with the received bytes
TURN_BYTES = 8 << 20  # bytes read from one connection before others have their turn
BACKLOG = 2  # requests that are read ahead of the present one
SLICES = 64  # buffers of one sendmsg


@dataclass(frozen=True)
class Listener:
    """A port of a broker, its name, and the authentication of its clients."""

    node: int
    name: str
    host: str
    port: int
    context: ssl.SSLContext | None = None
    is_secured: bool = False  # True if clients must authenticate by SASL
    principal_rules: str = DEFAULT_RULES  # mapping of names in clients' certificates


@dataclass(eq=False)
class _Peer:
    """The server's end of a client's connection."""

    socket: Any
    connection: ClientConnection
    listener: Listener
    active_ms: float  # the time of its last bytes
    idle: Timer | None = None  # closes it if no more come
    handshake: Timer | None = None  # the deadline of a TLS handshake in progress
    has_greeted: bool = False  # the client's first bytes are TLS
    is_refused: bool = False  # they are not: the server waits for the client's end
    wants_to_write: bool = False  # for the handshake
    head: bytearray = field(default_factory=bytearray)  # the size of the next frame, as far as received
    frame: bytearray | None = None  # the frame in progress
    filled: int = 0
    size: int = 0  # its announced size
    backlog: deque[bytearray] = field(default_factory=deque)
    is_busy: bool = False
    muted_until: float = 0.0
    outgoing: deque[memoryview | FileSpan] = field(default_factory=deque)
    ends: bool = False  # the connection closes when all is sent
    events: int = 0


class SocketServer:
    """Serves a state to real clients, in its own thread.

    Args:
        state: the served state. Only this thread uses it; other threads call `ask`.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.problems: list[BaseException] = []
        self._listeners: dict[int, tuple[socket.socket, Listener]] = {}
        self._silenced: list[Listener] = []
        self._peers: dict[ClientConnection, _Peer] = {}
        self._unread: dict[_Peer, None] = {}  # connections with decrypted bytes that no selector reports
        self.handshake_ms = HANDSHAKE_MS
        self._selector = selectors.DefaultSelector()
        self._wake_receive, self._wake_send = socket.socketpair()
        self._wake_receive.setblocking(False)
        self._selector.register(self._wake_receive, selectors.EVENT_READ, self._on_wake)
        self._asked: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._asking = threading.Lock()  # a call is queued while the thread still empties the queue
        self._is_closed = False
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._began = time.monotonic()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="kafwire broker", daemon=True)

    # --- from any thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Close all ports and connections, and end the thread."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # an error ends it meanwhile
                self.ask(self._end)
            self._thread.join()
        else:
            self._close_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the thread ends, at most this many seconds. Return True if it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def ask(self, function: Callable[[], _T]) -> _T:
        """Call `function` in the server's thread, where it may use the state, and return its result."""
        if threading.current_thread() is self._thread:
            return function()
        future: Future[_T] = Future()
        with self._asking:
            if self._is_closed or not self._thread.is_alive():
                raise RuntimeError("the broker is closed")
            self._asked.append((function, future))
            self._wake_send.send(b"\0")
        return future.result()

    def listen(self, listener: Listener) -> tuple[str, int]:
        """Open a port, before `start` or in the server's thread. Return its host and port."""
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        both = listener.host == "::" and socket.has_dualstack_ipv6()
        try:
            opened = socket.create_server(
                (listener.host, listener.port), family=family, backlog=1024, dualstack_ipv6=both
            )
        except OSError as error:
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else "no address of this machine"
            where = f"listener {listener.name} cannot listen on {listener.host} port {listener.port}"
            raise OSError(error.errno, f"{where}: {why}") from None
        opened.setblocking(False)
        self._listeners[opened.fileno()] = opened, listener
        self._selector.register(opened, selectors.EVENT_READ, lambda: self._on_client(opened, listener))
        host, port = opened.getsockname()[:2]
        return host, port

    def silence(self, node: int) -> None:
        """Close the ports of a broker and the connections to it."""
        for number, (opened, listener) in list(self._listeners.items()):
            if listener.node == node:
                self._silenced.append(replace(listener, port=opened.getsockname()[1]))
                self._selector.unregister(opened)
                opened.close()
                del self._listeners[number]
        self.break_off(node)

    def listen_again(self, node: int) -> None:
        """Open the ports of a broker that were closed by `silence`."""
        for listener in [each for each in self._silenced if each.node == node]:
            self.listen(listener)
            self._silenced.remove(listener)

    def break_off(self, node: int | None = None) -> None:
        """Close all connections to a broker, or to all."""
        for peer in list(self._peers.values()):
            if node is None or peer.connection.node == node:
                self._close(peer)

    @property
    def now_ms(self) -> float:
        """Monotonic milliseconds since the server was created."""
        return (time.monotonic() - self._began) * 1000.0

    # --- the thread

    def _run(self) -> None:
        try:
            self._serve_all()
        except Exception as error:  # noqa: BLE001 - `problems` reports it to the owner of the brokers
            self.problems.append(error)
            _log.exception("an error ended the brokers")
        finally:
            self._close_all()

    def _serve_all(self) -> None:
        while not self._ends:
            due = self.state.next_due_ms
            timeout = None if due is None else max(0.0, (due - self.now_ms) / 1000.0)
            unread, self._unread = self._unread, {}
            for key, events in self._selector.select(0.0 if unread else timeout):
                if isinstance(key.data, _Peer):
                    self._on_ready(key.data, events)
                else:
                    key.data()
            for peer in unread:
                if peer.events & selectors.EVENT_READ:
                    self._on_ready(peer, selectors.EVENT_READ)
            self.state.advance(self.now_ms)
            self._send_replies()

    def _on_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_receive.recv(4096)
        while self._asked:
            self.state.advance(self.now_ms)  # after an error the call stays in the queue, and fails as the thread ends
            function, future = self._asked.popleft()
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

    def _end(self) -> None:
        self._ends = True

    def _close_all(self) -> None:
        for peer in list(self._peers.values()):
            self._close(peer)
        for opened, _ in self._listeners.values():
            opened.close()
        self._listeners.clear()
        self._selector.close()
        with self._asking:
            self._is_closed = True
            self._wake_receive.close()
            self._wake_send.close()
        while self._asked:
            self._asked.popleft()[1].set_exception(RuntimeError("the broker is closed"))

    def _on_client(self, opened: socket.socket, listener: Listener) -> None:
        try:
            accepted, address = opened.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                _log.warning("no connection can be accepted: %s", error)
                time.sleep(0.01)  # the port stays readable
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self.state.connect(listener.node, listener.name, address[0], secured=listener.is_secured)
        peer = _Peer(accepted, connection, listener, self.now_ms)
        if listener.context is not None:
            try:
                peer.socket = listener.context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            except (OSError, ValueError):  # the client has gone already, or has sent other bytes first
                accepted.close()
                self.state.disconnect(connection)
                return
            peer.handshake = self.state.timers.at(self.now_ms + self.handshake_ms, lambda: self._close(peer))
        self._peers[connection] = peer
        self._close_when_idle(peer)
        self._watch(peer)

    def _close_when_idle(self, peer: _Peer) -> None:
        """Close the connection when `connections.max.idle.ms` have passed without bytes and without a request."""
        idle_ms = self.state.config_int("connections.max.idle.ms")
        if idle_ms < 0:
            return
        left_ms = peer.active_ms + idle_ms - self.now_ms
        if left_ms > 0 or peer.is_busy:
            after_ms = idle_ms if peer.is_busy else left_ms
            peer.idle = self.state.timers.at(self.now_ms + after_ms, lambda: self._close_when_idle(peer))
        else:
            self._close(peer)

    def _watch(self, peer: _Peer) -> None:
        """Register the events that this connection can handle now."""
        wanted = 0
        if len(peer.backlog) < BACKLOG and not peer.ends:
            wanted |= selectors.EVENT_READ
        if peer.outgoing or peer.wants_to_write:
            wanted |= selectors.EVENT_WRITE
        if peer.listener.context is not None and wanted & selectors.EVENT_READ and peer.socket.pending():
            self._unread[peer] = None
        if wanted == peer.events:
            return
        if peer.events and wanted:
            self._selector.modify(peer.socket, wanted, peer)
        elif wanted:
            self._selector.register(peer.socket, wanted, peer)
        else:
            self._selector.unregister(peer.socket)
        peer.events = wanted

    def _close(self, peer: _Peer) -> None:
        if self._peers.pop(peer.connection, None) is None:
            return
        if peer.events:
            self._selector.unregister(peer.socket)
            peer.events = 0
        if peer.idle is not None:
            peer.idle.cancel()
        if peer.handshake is not None:
            peer.handshake.cancel()
        elif peer.listener.context is not None:
            with contextlib.suppress(OSError, ValueError):  # sends close_notify, without waiting for the client's
                peer.socket.unwrap()
        peer.socket.close()
        self.state.disconnect(peer.connection)

    def _on_ready(self, peer: _Peer, events: int) -> None:
        try:
            if peer.handshake is not None:
                self._shake_hands(peer)
            elif events & selectors.EVENT_WRITE:
                self._send(peer)
                self._serve(peer)
            if peer.handshake is None and events & selectors.EVENT_READ and peer.connection.is_open:
                self._receive(peer)
        except OSError:
            self._close(peer)
            return
        if peer.connection.is_open:
            self._watch(peer)

    def _shake_hands(self, peer: _Peer) -> None:
        if peer.is_refused:
            if has_ended(peer.socket):
                self._close(peer)
            return
        if not peer.has_greeted:
            peer.has_greeted = begins_tls(peer.socket)
            if not peer.has_greeted:
                _log.info("a connection from %s ends: the client speaks no TLS", peer.connection.peer)
                refuse_plaintext(peer.socket)
                peer.is_refused = True
                return
        step = shake_hands(peer.socket)
        peer.wants_to_write = step is Step.WRITE
        if step is not Step.DONE:
            return
        if peer.handshake is not None:
            peer.handshake.cancel()
            peer.handshake = None
        if not peer.listener.is_secured:
            try:
                peer.connection.principal = principal_of(peer.socket.getpeercert(True), peer.listener.principal_rules)
            except (ValueError, IndexError) as error:
                raise OSError(f"a certificate has no principal: {error}") from error

    # --- receiving

    def _receive(self, peer: _Peer) -> None:
        taken = 0
        while taken < TURN_BYTES and len(peer.backlog) < BACKLOG:
            into = self._scratch if peer.frame is None else memoryview(peer.frame)[peer.filled :]
            try:
                size = peer.socket.recv_into(into)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                    break
                raise
            if not size:
                self._close(peer)
                return
            taken += size
            peer.active_ms = self.now_ms
            if peer.frame is not None:
                peer.filled += size
                self._end_frame(peer)
            elif not self._cut(peer, into[:size]):
                return
            self._serve(peer)
            if not peer.connection.is_open:
                return

    def _cut(self, peer: _Peer, data: memoryview) -> bool:
        """Cut received bytes into frames. Return False if the connection was closed."""
        position = 0
        while position < len(data):
            if peer.frame is None:
                step = min(SIZE_BYTES - len(peer.head), len(data) - position)
                peer.head += data[position : position + step]
                position += step
                if len(peer.head) < SIZE_BYTES:
                    break
                size = int.from_bytes(peer.head, "big", signed=True)
                peer.head.clear()
                if not 0 < size <= self._max_frame(peer):
                    _log.info("a connection from %s is closed: a request of %d bytes", peer.connection.peer, size)
                    self._close(peer)
                    return False
                peer.frame, peer.filled, peer.size = bytearray(min(size, FRAME_BYTES)), 0, size
                continue
            step = min(len(peer.frame) - peer.filled, len(data) - position)
            peer.frame[peer.filled : peer.filled + step] = data[position : position + step]
            peer.filled += step
            position += step
            self._end_frame(peer)
        return True

    def _max_frame(self, peer: _Peer) -> int:
        return self.state.config_int("socket.request.max.bytes") if peer.connection.is_ready else 512 << 10

    def _end_frame(self, peer: _Peer) -> None:
        if peer.frame is None or peer.filled < len(peer.frame):
            return
        if peer.filled < peer.size:
            # A new buffer: the receive loop holds a view of this one, so it cannot grow.
            peer.frame = peer.frame + bytes(min(peer.filled, peer.size - peer.filled))
        else:
            peer.backlog.append(peer.frame)
            peer.frame = None

    def _serve(self, peer: _Peer) -> None:
        """Handle requests, until one waits for its response, or a response waits for the client to read."""
        while peer.backlog and not peer.is_busy and not peer.outgoing and peer.connection.is_open and not peer.ends:
            now_ms = self.now_ms
            if peer.muted_until > now_ms:
                return
            frame = peer.backlog.popleft()
            try:
                request = read_request(peer.connection, frame)
            except ProtocolError as error:
                _log.info("a connection from %s is closed: %s", peer.connection.peer, error)
                self._close(peer)
                return
            peer.is_busy = True
            try:
                dispatch.receive(self.state, request, now_ms)
            except Exception as error:  # noqa: BLE001 - its connection ends, as in Kafka
                self.problems.append(error)
                _log.exception("%s of version %d failed", request.name, request.version)
                self._close(peer)
                return
            self._send_replies()

    # --- sending

    def _send_replies(self) -> None:
        while replies := self.state.take_replies():
            for request, response in replies:
                peer = self._peers.get(request.connection)
                if peer is not None:
                    try:
                        self._response(peer, request, response)
                    except OSError:
                        self._close(peer)
                    except ProtocolError as error:  # the handler's response does not fit the version
                        self.problems.append(error)
                        _log.exception("the response of %s version %d cannot be encoded", request.name, request.version)
                        self._close(peer)

    def _response(self, peer: _Peer, request: Request, response: Response) -> None:
        if response is HANG_UP:
            self._close(peer)
            return
        peer.is_busy = False
        if response is not NO_RESPONSE:
            self._queue(peer, request, response)
            peer.ends = peer.ends or peer.connection.closes
            throttle_ms = getattr(response, "throttle_time_ms", 0)
            if throttle_ms > 0:
                peer.muted_until = self.now_ms + throttle_ms
                self.state.after(throttle_ms + 1, lambda: self._resume(peer))
        self._send(peer)
        if peer.connection.is_open:
            self._watch(peer)
            if peer.backlog:
                self.state.after(0, lambda: self._resume(peer))

    def _queue(self, peer: _Peer, request: Request, response: Any) -> None:
        try:
            written = write_pieces(request, response)
        except ProtocolError:
            if not has_long_text(response):
                raise
            failed: Any = error_response(self.state, request, ErrorPlace(ErrorCode.UNKNOWN_SERVER_ERROR))
            if failed is HANG_UP:
                raise OSError("a text of a response is too long") from None
            written = write_pieces(request, failed)
        pieces = [each for each in written if each != b""]  # a SASL token may be empty
        size = sum(each.size if isinstance(each, FileSpan) else len(each) for each in pieces)
        peer.outgoing.append(memoryview(size.to_bytes(SIZE_BYTES, "big")))
        peer.outgoing.extend(each if isinstance(each, FileSpan) else memoryview(each) for each in pieces)

    def _resume(self, peer: _Peer) -> None:
        if peer.connection.is_open:
            self._serve(peer)
            if peer.connection.is_open:
                self._watch(peer)

    def _send(self, peer: _Peer) -> None:
        while peer.outgoing:
            try:
                sent = self._send_some(peer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                    return
                raise
            peer.active_ms = self.now_ms
            while sent > 0:
                first = peer.outgoing[0]
                size = first.size if isinstance(first, FileSpan) else len(first)
                if sent >= size:
                    peer.outgoing.popleft()
                elif isinstance(first, FileSpan):
                    peer.outgoing[0] = replace(first, position=first.position + sent, size=size - sent)
                else:
                    peer.outgoing[0] = first[sent:]
                sent -= min(sent, size)
        if peer.ends:
            self._close(peer)

    def _send_some(self, peer: _Peer) -> int:
        first = peer.outgoing[0]
        if peer.listener.context is not None:
            return int(peer.socket.send(next_plaintext(peer.outgoing)))
        if isinstance(first, FileSpan):
            sent = os.sendfile(peer.socket.fileno(), first.descriptor, first.position, first.size)
            if not sent:
                raise OSError("a file has become shorter than the part to send")
            return sent
        slices: list[memoryview] = []
        for each in peer.outgoing:
            if isinstance(each, FileSpan) or len(slices) == SLICES:
                break
            slices.append(each)
        return int(peer.socket.sendmsg(slices))
