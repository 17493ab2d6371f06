"""A lane: one connection to one broker for one kind of work, opened on demand.

It connects, negotiates versions (ApiVersions first), gives out correlation ids, and times out what is not answered. It
retries nothing: whoever sent a request knows what its loss means.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafwire import __version__, protocol
from kafwire._buffer import Buffer
from kafwire._slices import Feed
from kafwire.config import ClientConfig
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError, broker_error
from kafwire.logic.backoff import delay_ms
from kafwire.net.engine import Engine
from kafwire.net.transport import NativeConnection
from kafwire.protocol.spec import MAX_MEMORY
from kafwire.wire import versions

# Before a broker has proved itself it may not claim more (see docs/design.md, "Hostile bytes").
GREETING_MAX_FRAME = 8 << 20
UNSUPPORTED_VERSION = 35
# Brokers refuse a version with other characters (KIP-511).
SOFTWARE_VERSION = re.sub(r"[^A-Za-z0-9.-]+", "-", __version__).strip("-.")

# What comes of a request: the answer's frame, or the error that took its place; neither when none was expected.
Answered = Callable[[Buffer | None, KafkaError | None], object]

# On the wire a frame has its size before it.
SIZE_PREFIX = 4


class Lane:
    """A connection that comes and goes; the lane stays."""

    def __init__(self, engine: Engine, config: ClientConfig, host: str, port: int, role: str, node: int) -> None:
        self._engine = engine
        self._config = config
        self.host = host
        self.port = port
        self.role = role
        self.node = node
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: tuple[int, dict[str, int]] = (-1, {})  # finalised ones, and the epoch of that news (KIP-584)
        self.muted_until_ms = 0.0
        self._connection: NativeConnection | None = None
        self._events: _Events | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._pending: dict[int, tuple[Answered, asyncio.TimerHandle | None, float]] = {}
        self._correlation = 0
        self.failures = 0  # to connect, since the last success
        # Addresses of the host that failed, by their turn to be tried again (see `_blame`).
        self._failed: dict[tuple[Any, ...], int] = {}
        self._blamed = 0
        self._address: tuple[Any, ...] | None = None
        self._not_before_ms = 0.0
        self._ready = False
        self._closed = ""  # why it is closed for good
        # What `stats` tells, over all connections that this lane has had.
        self.connects = 0
        self.requests = 0
        self.responses = 0
        self.bytes_out = 0
        self.bytes_in = 0
        self.latency_ms_sum = 0.0
        self.latency_ms_max = 0.0
        self.throttle_ms = 0

    def __repr__(self) -> str:
        return f"<{self.role} lane to {self.where}>"

    @property
    def where(self) -> str:
        """The broker, as errors name it."""
        name = f"broker {self.node}" if self.node >= 0 else "bootstrap server"
        return f"{name} at {host_and_port(self.host, self.port)}"

    @property
    def is_ready(self) -> bool:
        """Whether requests can be sent now."""
        return self._ready

    @property
    def in_flight(self) -> int:
        """Requests that are owed an answer."""
        return len(self._pending)

    def stats(self) -> dict[str, Any]:
        """A snapshot of the lane's counters since it was made.

        Bytes are those on the wire, sizes before frames included. A request's latency runs from `send` to its answer,
        the time that a broker parked it included. Requests without an answer are `responses` once they are sent.
        `latency_ms_sum` / `responses` is the mean. `throttle_ms` adds up what brokers asked to wait for (KIP-219).
        """
        return {
            "node": self.node,
            "role": self.role,
            "host": self.host,
            "port": self.port,
            "connected": self._ready,
            "in_flight": len(self._pending),
            "connects": self.connects,
            "requests": self.requests,
            "responses": self.responses,
            "bytes_out": self.bytes_out,
            "bytes_in": self.bytes_in,
            "latency_ms_sum": self.latency_ms_sum,
            "latency_ms_max": self.latency_ms_max,
            "throttle_ms": self.throttle_ms,
        }

    @property
    def transport(self) -> type | None:
        """The class that moves this lane's bytes, while it is connected."""
        return type(self._connection) if self._connection is not None else None

    async def open(self) -> None:
        """Connect and negotiate unless that is done; raises `KafkaConnectionError`, `KafkaTimeoutError`."""
        if self._closed:
            raise KafkaConnectionError(f"{self._closed}: nothing more can be sent to {self.where}")
        if self._ready:
            return
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
            self._opening.add_done_callback(self._on_opened)
        try:
            await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():  # not the caller, but the lane was stopped
                raise KafkaConnectionError(f"{self._closed} while it connected to {self.where}") from None
            raise

    def _on_opened(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        if task.cancelled() or task.exception() is not None:
            self.failures += 1
            wait = delay_ms(
                self.failures,
                self._config.reconnect_backoff_ms,
                self._config.reconnect_backoff_max_ms,
                random.random(),
            )
            self._not_before_ms = self._engine.now_ms() + wait

    async def _open(self) -> None:
        wait = self._not_before_ms - self._engine.now_ms()
        if wait > 0:
            await asyncio.sleep(wait / 1000)
        timeout = self._config.socket_connection_setup_timeout_ms / 1000
        problems = []
        for family, address in await self._addresses():
            self._address = address
            try:
                async with asyncio.timeout(timeout):
                    await self._connect(family, address)
                    await self._negotiate()
            except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
                problems.append(f"{address[0]}: {error}")
            except TimeoutError:
                problems.append(f"{address[0]}: no answer within {timeout:g} s")
            else:
                self.failures = 0
                self._ready = True
                self.connects += 1
                return
            self._blame()
            self._drop()
        raise KafkaConnectionError(
            f"cannot connect to {self.where} ({'; '.join(problems)}): is it running, and is the address right?"
        )

    async def _addresses(self) -> list[tuple[int, tuple[Any, ...]]]:
        """All addresses of the host (KIP-302): those that never failed, then the others, the latest to fail last."""
        found = await self._resolve()
        self._failed = {address: turn for _, address in found if (turn := self._failed.get(address))}
        return sorted(found, key=lambda each: self._failed.get(each[1], 0))

    def _blame(self) -> None:
        """Try other addresses first, next time: this one refused, hung, or broke off while an answer was owed.

        One that closes an idle connection does what brokers do, and is not to blame.
        """
        if self._address is not None:
            self._blamed += 1
            self._failed[self._address] = self._blamed

    async def _resolve(self) -> list[tuple[int, tuple[Any, ...]]]:
        def look_up(flags: int) -> list[tuple[int, tuple[Any, ...]]]:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=flags)
            return [(int(family), address) for family, _, _, _, address in found]

        try:
            return look_up(socket.AI_NUMERICHOST)
        except OSError:
            pass
        limit_ms = self._config.socket_connection_setup_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await asyncio.get_running_loop().run_in_executor(None, look_up, 0)
        except TimeoutError:
            raise KafkaConnectionError(
                f"cannot resolve {self.host!r} within socket_connection_setup_timeout_ms ({limit_ms}): check the name "
                "server"
            ) from None
        except OSError as error:
            raise KafkaConnectionError(f"cannot resolve {self.host!r} ({error}): check the host name") from None

    async def _connect(self, family: int, address: tuple[Any, ...]) -> None:
        self._connecting = asyncio.get_running_loop().create_future()
        self._events = _Events(self)
        self._connection = self._engine.transport.connect(family, address, self._events, GREETING_MAX_FRAME)
        try:
            await self._connecting
        finally:
            self._connecting = None

    async def _negotiate(self) -> None:
        """ApiVersions; a server that does not have our version says which it has, in the layout of version 0."""
        request = protocol.ApiVersionsRequest(client_software_name="kafwire", client_software_version=SOFTWARE_VERSION)
        version = request.max_stable_version
        while True:
            response = await self._exchange(request, version)
            if response.error_code != UNSUPPORTED_VERSION or version == 0:
                break
            offered = [k.max_version for k in response.api_keys if k.api_key == request.api_key]
            version = min(version - 1, offered[0] if offered else 0)
        if response.error_code:
            raise KafkaConnectionError(f"{self.where}: {broker_error(response.error_code, 'ApiVersions')}")
        self.versions = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
        levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
        self.features = (response.finalized_features_epoch, levels)
        if self._connection is not None:
            self._connection.set_max_frame(self._config.max_frame_bytes)

    def version_of(self, request: type[Any], *, at_most: int | None = None) -> int:
        """The negotiated version of a request class; the lane must be ready."""
        return versions.choose(
            request.__name__,
            (request.min_version, request.max_stable_version),
            request.api_key,
            self.versions,
            at_most=at_most,
        )

    @property
    def connection(self) -> object:
        """What moves this lane's bytes now; another object after each reconnection, None without one."""
        return self._connection

    def feed(self, feed: Feed) -> None:
        """Let `feed` take from this connection's answers what can do without the engine."""
        if self._connection is not None:
            self._connection.feed(feed)

    def went_by(self, counts: Mapping[str, Any]) -> None:
        """Requests were sent and answered on this lane's connection past it (see `kafwire._express`)."""
        self.requests += counts["batches"]
        self.bytes_out += counts["bytes_out"]
        self.responses += counts["responses"]
        self.bytes_in += counts["bytes_in"]
        self.latency_ms_sum += counts["latency_ms_sum"]
        self.latency_ms_max = max(self.latency_ms_max, counts["latency_ms_max"])

    def next_correlation_id(self) -> int:
        """The id for the next request; it must be sent, or not used at all."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    def send(
        self,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        answered: Answered,
        *,
        expect_response: bool = True,
        timeout_ms: float | None = None,
    ) -> None:
        """Queue a request on the ready lane; `answered` is called once, on the engine, never from within this call."""
        if self._connection is None:
            raise KafkaConnectionError(f"the connection to {self.where} is closed")
        timer = None
        if timeout_ms is not None:
            timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.time_out, correlation_id)
        self._pending[correlation_id] = (answered, timer, self._engine.now_ms())
        self.requests += 1
        self.bytes_out += SIZE_PREFIX + sum(map(len, segments))
        # A connection that closed a moment ago refuses: the event that says so is on its way, and fails all that waits.
        with contextlib.suppress(BrokenPipeError):
            self._connection.submit(correlation_id, correlation_id, segments, expect_response=expect_response)

    async def call(self, message: Any, *, version: int | None = None, timeout_ms: float | None = None) -> Any:
        """Open if need be, send `message`, and return the decoded answer."""
        await self.open()
        wait = self.muted_until_ms - self._engine.now_ms()
        if wait > 0:
            await asyncio.sleep(wait / 1000)
        response = await self._exchange(
            message, self.version_of(type(message)) if version is None else version, timeout_ms
        )
        self.note_throttle(getattr(response, "throttle_time_ms", 0))
        return response

    def note_throttle(self, throttle_ms: int) -> None:
        """A broker that throttles mutes the connection (KIP-219): send nothing more until it listens again."""
        if throttle_ms > 0:
            self.throttle_ms += throttle_ms
            self.muted_until_ms = max(self.muted_until_ms, self._engine.now_ms() + throttle_ms)

    async def _exchange(self, message: Any, version: int, timeout_ms: float | None = None) -> Any:
        future: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()

        def answered(frame: Buffer | None, error: KafkaError | None) -> None:
            if future.done():  # the caller gave up; the slot was kept for this answer
                return
            if frame is None:
                future.set_exception(error or KafkaConnectionError("the request was lost"))
            else:
                future.set_result(frame)

        correlation_id = self.next_correlation_id()
        request = protocol.encode_request(message, version, correlation_id, self._config.client_id)
        self.send(correlation_id, [request], answered, timeout_ms=timeout_ms or self._config.request_timeout_ms)
        frame = await future
        try:
            # Whoever allows larger frames expects larger answers.
            allowed = max(MAX_MEMORY, 3 * self._config.max_frame_bytes)
            return protocol.decode_response(type(message), frame, version, max_memory=allowed)[1]
        except ProtocolError as error:
            self.fail("an answer could not be read")
            raise ProtocolError(
                f"{self.where} answered with what cannot be read: {error.message}",
                api=type(message).response.__name__,
                version=version,
                offset=error.offset,
            ) from None

    def fail(self, reason: str) -> None:
        """Give the connection up: what it said can no longer be trusted."""
        self._blame()
        self._drop(reason)

    def close(self, reason: str = "the client was closed") -> None:
        """Close for good; what is pending fails, and whatever is asked of it later."""
        self._closed = self._closed or reason
        if self._opening is not None:
            self._opening.cancel()
        self._drop(reason)

    def limit(self, correlation_id: int, timeout_ms: float) -> None:
        """Let a request that was sent without one have a time-out; nothing if it was answered."""
        entry = self._pending.get(correlation_id)
        if entry is not None:
            timer = asyncio.get_running_loop().call_later(max(0.0, timeout_ms) / 1000, self.time_out, correlation_id)
            self._pending[correlation_id] = (entry[0], timer, entry[2])

    def time_out(self, correlation_id: int) -> None:
        """A request was not answered in time: it fails, and the connection is given up."""
        if correlation_id in self._pending:
            answered, _, _ = self._pending.pop(correlation_id)
            error = KafkaTimeoutError(
                f"no answer from {self.where} in time on its {self.role} lane: the broker hangs, or request_timeout_ms "
                f"({self._config.request_timeout_ms}) is too short"
            )
            # Answers come in order, so whatever follows is stuck as well.
            self._blame()
            self._drop(f"a request was not answered within request_timeout_ms ({self._config.request_timeout_ms})")
            answered(None, error)

    def _drop(self, reason: str = "given up") -> None:
        """Forget the connection: everything pending fails, and late events of it reach nobody."""
        connection, self._connection = self._connection, None
        self._events = None
        self._ready = False
        if connection is not None:
            connection.close()
        error = KafkaConnectionError(f"the connection to {self.where} was closed: {reason}")
        if self._connecting is not None and not self._connecting.done():
            self._connecting.set_exception(error)
        pending, self._pending = self._pending, {}
        for answered, timer, _ in pending.values():
            if timer is not None:
                timer.cancel()
            answered(None, error)

    def _on_connected(self) -> None:
        if self._connecting is not None and not self._connecting.done():
            self._connecting.set_result(None)

    def _on_answer(self, token: int, frame: Buffer | None) -> None:
        entry = self._pending.pop(token, None)
        if entry is not None:
            answered, timer, sent_ms = entry
            if timer is not None:
                timer.cancel()
            latency_ms = self._engine.now_ms() - sent_ms
            self.responses += 1
            self.latency_ms_sum += latency_ms
            self.latency_ms_max = max(self.latency_ms_max, latency_ms)
            if frame is not None:
                self.bytes_in += SIZE_PREFIX + len(frame)
            answered(frame, None)

    def _on_closed(self, reason: str) -> None:
        if self._pending:
            self._blame()
        self._drop(reason)


def host_and_port(host: str, port: int) -> str:
    """An address as people write it: an IPv6 one in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Events:
    """Routes a connection's events to its lane while the lane still has that connection."""

    __slots__ = ("_lane",)

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def on_connected(self) -> None:
        if self._lane._events is self:
            self._lane._on_connected()

    def on_response(self, token: int, frame: Buffer) -> None:
        if self._lane._events is self:
            self._lane._on_answer(token, frame)

    def on_sent(self, token: int) -> None:
        if self._lane._events is self:
            self._lane._on_answer(token, None)

    def on_closed(self, _errno: int, reason: str) -> None:
        if self._lane._events is self:
            self._lane._on_closed(reason)
