"""One connection to one broker for one role, opened on demand.

It connects, negotiates versions (ApiVersions first), authenticates, assigns correlation ids, and times out requests
without a response. It retries nothing: only the sender of a request knows what its loss means.

While it authenticates again (KIP-368), requests are held (`Connection.hold`), even those that threads send directly;
they are sent once the broker has accepted this client.
"""

from __future__ import annotations

import asyncio
import errno as errnos
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from kafwire._version import __version__
from kafwire.cluster.address_blame import AddressBlame
from kafwire.cluster.authentication import Authentication, Prepared
from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.metadata import BrokerAddress
from kafwire.cluster.reachability import NO_RESPONSE
from kafwire.cluster.reachability_hints import (
    CLOSED_BY_PEER,
    NO_NAME_SERVER,
    NO_SUCH_NAME,
    UNRESOLVED,
    Problem,
    Step,
    asks_for_login,
    furthest,
    misadvertised,
)
from kafwire.cluster.reachability_log import Reach
from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.memory._buffer import Buffer
from kafwire.protocol import versions
from kafwire.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafwire.protocol.framing import decode_response, encode_request
from kafwire.protocol.spec import MAX_MEMORY
from kafwire.runtime.interfaces import (
    NOT_AUTHENTICATED,
    Connection,
    Engine,
    PendingRequest,
    RequestTable,
    ResponseFilter,
    SocketAddress,
)
from kafwire.runtime.log import cluster_log as log
from kafwire.runtime.resolver import failing_part
from kafwire.security.client_security import ClientSecurity

# Largest frame before the broker has authenticated (see docs/design.md, "Hostile bytes").
GREETING_MAX_FRAME = 8 << 20
# Brokers reject a software version with other characters (KIP-511).
SOFTWARE_VERSION = re.sub(r"[^A-Za-z0-9.-]+", "-", __version__).strip("-.")

# Receives a response's frame, or the error instead of it; neither if no response was expected. A response is handled in
# the loop iteration in which it arrived. An error is delivered on the next iteration, never within the call that closes
# or fails the connection: that caller may be in the middle of changing the state that the callback changes.
OnResponse = Callable[[Buffer | None, KafkaError | None], object]

# The size field before each frame.
SIZE_PREFIX = 4
_RESOLVING = {"name": NO_SUCH_NAME, "server": NO_NAME_SERVER, "": UNRESOLVED}
CANNOT_CONNECT = "cannot connect to "

# A response overdue for longer suggests that the broker hangs. A fetch may wait for records in addition.
OVERDUE_MS = 500
# Role of connections whose requests a broker parks for minutes (JoinGroup): a missing response means nothing.
PARKED = "join"
# A broker that responded within this time counts as alive.
ALIVE_MS = 1_000


class BrokerConnection:
    """A connection that outlives its sockets."""

    def __init__(
        self,
        engine: Engine,
        config: ClientConfig,
        host: str,
        port: int,
        role: str,
        node: int,
        *,
        greetings: dict[tuple[str, int], int] | None = None,
        reach: Reach | None = None,
        blame: AddressBlame | None = None,
        on_overdue: Callable[[BrokerConnection], object] | None = None,
        security: ClientSecurity | None = None,
        cluster_id: Callable[[], str | None] = lambda: None,
        on_misdirected: Callable[[BrokerConnection], object] = lambda _: None,
        on_ready: Callable[[BrokerConnection], object] = lambda _: None,
    ) -> None:
        """Make a connection; `open` connects it.

        `security` is TLS and SASL; None: neither. `cluster_id` returns the node's cluster. ApiVersions names both
        (KIP-1242); a different broker at the node's address refuses the connection, and `on_misdirected` is called.

        `greetings` has the version of ApiVersions to begin with, by host and port, where it is not the newest.

        `reach` receives the progress of connecting. `blame` knows which addresses of the host failed. `on_overdue` is
        called repeatedly while a response is overdue, and `on_ready` after each successful connect.
        """
        self._engine = engine
        self._config = config
        self.host = host
        self.port = port
        self.role = role
        self.node = node
        self._greetings = {} if greetings is None else greetings
        self._reach = Reach(engine) if reach is None else reach
        self._on_overdue = on_overdue
        self._cluster_id = cluster_id
        self._on_misdirected = on_misdirected
        self._on_ready = on_ready
        self._overdue_ms = math.inf if role == PARKED else OVERDUE_MS + getattr(config, "fetch_max_wait_ms", 0)
        self._look: asyncio.TimerHandle | None = None
        self._heard_ms = self._used_ms = -1.0e12
        self._idle: asyncio.TimerHandle | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        # by request class: the version that `version_of` chose from `versions`
        self._negotiated: dict[type[Any], int] = {}
        self.features: tuple[int, dict[str, int]] = (-1, {})  # finalised features, and their epoch (KIP-584)
        self.muted_until_ms = 0.0
        self._socket: Connection | None = None
        self._lost: KafkaError | None = None  # the error with which the last socket was lost
        self._events: _Events | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._requests = RequestTable()  # requests on the current socket that wait for a response
        self._correlation = 0
        self.failures = 0  # failures to connect, since the last success
        self.blame = AddressBlame() if blame is None else blame
        self._tls = None if security is None else security.tls
        login = None if security is None else security.login
        limit_ms = config.socket_connection_setup_timeout_ms
        self._authentication = None if login is None else Authentication(engine, login, host, limit_ms)
        self._renewal: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._step = Step.RESOLVE  # the step of the current attempt to connect
        self._errno = 0  # of the last socket's close; 0: this side closed it
        self._address: SocketAddress | None = None
        self._causes: list[str] = []  # causes of the last failed attempt to connect
        self._not_before_ms = 0.0
        self._openings = 0  # of the host's connections, at the last failed attempt
        self._ready = False
        self._closed = ""  # the reason if it was closed for good
        # For `stats`, summed over all its sockets.
        self.connects = 0
        self.authentications = 0
        self.requests = 0
        self.responses = 0
        self._greeted = 0  # `responses` when it became ready
        self.bytes_out = 0
        self.bytes_in = 0
        self.latency_ms_sum = 0.0
        self.latency_ms_max = 0.0
        self.throttle_ms = 0
        # The longest since the last push of metrics.
        self.latency_ms_peak = 0.0
        self.throttle_ms_peak = 0.0

    def __repr__(self) -> str:
        return f"<{self.role} connection to {self.where}>"

    @property
    def where(self) -> str:
        """The broker's name for errors."""
        name = f"broker {self.node}" if self.node >= 0 else "bootstrap server"
        return f"{name} at {host_and_port(self.host, self.port)}"

    def is_to(self, address: BrokerAddress) -> bool:
        """True if it connects to that host and port."""
        return (self.host, self.port) == (address.host, address.port)

    @property
    def at_address(self) -> str:
        """`where`, with the last tried address."""
        return self.where if self._address is None else f"{self.where} ({self._address[0]})"

    @property
    def waits_for(self) -> str | None:
        """Why the connection is not open yet, for errors of waiting requests; None if it is not connecting."""
        if self._opening is None:
            return None
        return f"still connecting to {self._reach.watch(self).last or f'{self.at_address}: no response yet'}"

    @property
    def is_ready(self) -> bool:
        """True if requests can be sent now."""
        return self._ready

    @property
    def serves(self) -> bool:
        """True if the broker responded on the current socket to more than the opening requests."""
        return self._ready and self.responses > self._greeted

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._requests)

    @property
    def is_overdue(self) -> bool:
        """True if a response is overdue for so long that the broker may hang."""
        return len(self._requests) > 0 and self._overdue_in_ms() <= 0

    def _overdue_in_ms(self) -> float:
        """Return how long the oldest request may still take. Threads that send directly change the table meanwhile."""
        oldest = self._requests.oldest()
        return self._overdue_ms if oldest is None else oldest.sent_ms + self._overdue_ms - self._engine.now_ms()

    def watch_over(self) -> None:
        """Start the timer that detects an overdue response to the request just sent, and to later ones."""
        if self._look is None and self._on_overdue is not None and self._overdue_ms < math.inf:
            wait = max(self._overdue_in_ms(), 1.0)
            self._look = asyncio.get_running_loop().call_later(wait / 1000, self._on_look)

    def _on_look(self) -> None:
        self._look = None
        if self.is_overdue and self._on_overdue is not None:
            self._on_overdue(self)
            self._look = asyncio.get_running_loop().call_later(OVERDUE_MS / 1000, self._on_look)
        elif len(self._requests):
            self.watch_over()

    def stats(self) -> dict[str, Any]:
        """Return a snapshot of the connection's counters since it was created.

        Bytes include the size field of each frame. A request's latency runs from `send` to its response, and includes
        the time that a broker parked it. A request that expects no response counts in `responses` once it is sent.
        `latency_ms_sum` / `responses` is the mean. `throttle_ms` adds up the broker's throttle times (KIP-219).
        `authentications` counts how often the broker accepted this client by SASL: once for each of `connects`, and
        once more for each renewed session (KIP-368).
        """
        return {
            "node": self.node,
            "role": self.role,
            "host": self.host,
            "port": self.port,
            "connected": self._ready,
            "in_flight": len(self._requests),
            "connects": self.connects,
            "authentications": self.authentications,
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
        """The class of the connected socket; None if not connected."""
        return type(self._socket) if self._socket is not None else None

    async def open(self) -> None:
        """Connect, negotiate and authenticate, unless that is done.

        Raises `KafkaConnectionError`, `KafkaTimeoutError`, `AuthenticationError`.
        """
        if self._opening is not None and self._opening.done():
            await asyncio.sleep(0)  # it has just failed: let `_on_opened` run before the next attempt
        if self._closed:
            raise KafkaConnectionError(f"{self._closed}: no request can be sent to {self.where}")
        if self._ready:
            return
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
            self._opening.add_done_callback(self._on_opened)
            self._reach.begin(self)
        try:
            await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if (
                self._closed and task is not None and not task.cancelling()
            ):  # the connection was stopped, not the caller
                raise KafkaConnectionError(f"{self._closed} during the connect to {self.where}") from None
            raise

    def _on_opened(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        if task.cancelled() or isinstance(task.exception(), AuthenticationError):
            self._reach.leave(self)
        elif (error := task.exception()) is not None:
            text = str(error).removeprefix(CANNOT_CONNECT)
            self._reach.fail(self, self._causes or [text], text)
        else:
            self._reach.succeed(self)
        if task.cancelled() or task.exception() is not None:
            self.failures += 1
            wait = delay_ms(
                self.failures,
                self._config.reconnect_backoff_ms,
                self._config.reconnect_backoff_max_ms,
                self._engine.random.random(),
            )
            self._not_before_ms, self._openings = self._engine.now_ms() + wait, self.blame.openings

    async def _open(self) -> None:
        wait = self._not_before_ms - self._engine.now_ms()
        if wait > 0 and self.blame.openings == self._openings:
            await self.blame.back_off(wait / 1000)
        timeout = self._config.socket_connection_setup_timeout_ms / 1000
        self._causes = []
        self._step = Step.RESOLVE
        problems: list[Problem] = []
        try:
            addresses = self.blame.order(await self._resolve())
        except _UnresolvedError as error:
            raise self._unreached([self._problem(str(error), error.number)]) from None
        for family, address in addresses:
            self._address = address
            try:
                try:
                    await self._establish(family, address, timeout)
                except AuthenticationError:
                    if self._authentication is None or not self._authentication.has_other_credentials:
                        raise
                    self._drop("authentication failed")
                    await self._establish(family, address, timeout)
                if self._socket is None:
                    # The socket closed with the last response, or just after: no request was pending that could get the
                    # error.
                    assert self._lost is not None
                    raise self._lost
                self._socket.set_max_frame(self._config.max_frame_bytes)
            except AuthenticationError:
                self._drop("authentication failed")
                raise
            except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
                number = errnos.EBADMSG if isinstance(error, ProtocolError) else self._errno
                if isinstance(error, KafkaTimeoutError):
                    number = errnos.ETIMEDOUT
                text = str(error).removeprefix(self._closed_because(""))
                problems.append(self._problem(text, number, address))
            except TimeoutError:
                text = f"{NO_RESPONSE} within {timeout:g} s{self._stage}"
                problems.append(self._problem(text, errnos.ETIMEDOUT, address))
            else:
                self.failures = 0
                self.blame.reached()
                self._ready = True
                self._greeted = self.responses
                self._heard_ms = self._used_ms = self._engine.now_ms()
                self._close_when_idle()
                self.connects += 1
                self._on_ready(self)
                return
            self._blame_address()
            self._drop()
        raise self._unreached(problems)

    async def _establish(self, family: int, address: SocketAddress, timeout_s: float) -> None:
        """Connect to one address, negotiate and authenticate."""
        prepared = None if self._authentication is None else await self._authentication.prepare()
        async with asyncio.timeout(timeout_s):
            await self._greet(family, address)
            if self._authentication is not None and prepared is not None:
                self._step = Step.LOG_IN
                await self._authenticate(prepared)
                await self._confirm_node()

    @property
    def _stage(self) -> str:
        """Describe the current step of an attempt; empty for a plain connection."""
        if self._step is Step.LOG_IN and self._authentication is not None:
            return f" ({self._authentication.mechanism} authentication)"
        return " (TCP or TLS handshake)" if self._step is Step.CONNECT and self._tls is not None else ""

    def _problem(self, text: str, number: int, address: SocketAddress | None = None) -> Problem:
        """Collect the facts of an attempt that has just failed."""
        step, tls = self._step, self._tls is not None
        if step is Step.CONNECT and tls and not text.startswith(("connect failed", NO_RESPONSE)):
            step = Step.HANDSHAKE
        return Problem(text, step, number, tls, "" if address is None else f"{address[0]}: ")

    def _unreached(self, problems: list[Problem]) -> KafkaConnectionError:
        """Return the error of an attempt, from the problem at each address."""
        self._causes = [problem.cause for problem in problems]
        servers = self._config.bootstrap_servers
        last = furthest(problems)
        is_advertised = self.node >= 0 and (self.host, self.port) not in servers
        if is_advertised and last.is_unreachable and not self._reach.watch(self).reached:
            hint = misadvertised((host_and_port(*each) for each in servers), host_and_port(self.host, self.port))
        else:
            hint = last.hint
        found = "; ".join(problem.address + problem.cause for problem in problems)
        return KafkaConnectionError(f"{CANNOT_CONNECT}{self.where} ({found}){': ' if hint else ''}{hint}")

    def _closed_because(self, reason: str) -> str:
        return f"the connection to {self.where} was closed: {reason}"

    def _blame_address(self) -> None:
        if self._address is not None:
            self.blame.blame(self._address)

    async def _resolve(self) -> list[tuple[int, SocketAddress]]:
        limit_ms = self._config.socket_connection_setup_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await self._engine.resolver.resolve(self.host, self.port)
        except TimeoutError:
            text = f"cannot resolve {self.host!r} within socket_connection_setup_timeout_ms ({limit_ms})"
            raise _UnresolvedError(text, NO_NAME_SERVER) from None
        # the name has an empty or too long label, or no thread can be started
        except (OSError, UnicodeError, RuntimeError) as error:
            text = f"cannot resolve {self.host!r}: {getattr(error, 'strerror', None) or error}"
            raise _UnresolvedError(text, _RESOLVING[failing_part(error)]) from None

    async def _connect(self, family: int, address: SocketAddress) -> None:
        self._connecting = asyncio.get_running_loop().create_future()
        self._events = _Events(self)
        stream = None if self._tls is None else self._tls.source(self.host, self.port)
        self._step, self._errno, self._lost = Step.CONNECT, 0, None
        self._socket = self._engine.transport.connect(family, address, self._events, GREETING_MAX_FRAME, stream)
        self._requests = self._socket.requests
        try:
            await self._connecting
        finally:
            self._connecting = None
        if self._tls is not None:
            self._tls.on_connected()
        self._step = Step.GREET

    async def _greet(self, family: int, address: SocketAddress) -> None:
        """Connect and negotiate. If the server closes the connection on a newer ApiVersions, try version 0.

        Azure Event Hubs closes it. The next connection begins with the server's highest version while that is an old
        one: a server that closed for another reason reports the newest.
        """
        newest = ApiVersionsRequest.max_stable_version
        where = (self.host, self.port)
        first = self._greetings.get(where, newest)
        await self._connect(family, address)
        try:
            await self._negotiate(first)
        except KafkaConnectionError:
            if self._socket is not None or first == 0:
                raise
            await self._connect(family, address)
            await self._negotiate(0)
            if 0 < self._has_greeting < first:  # only newer versions report features
                await self._negotiate(self._has_greeting)
        if self._has_greeting < newest:
            self._greetings[where] = self._has_greeting
        else:
            self._greetings.pop(where, None)

    async def _authenticate(self, prepared: Prepared) -> None:
        """Authenticate, and schedule the next authentication."""
        assert self._authentication is not None

        def send(request: Any, version: int) -> Any:
            return self._exchange(request, version, past_hold=True)

        lifetime_ms = await self._authentication.run(prepared, send, self.versions, self.where)
        self.authentications += 1
        if lifetime_ms > 0:
            wait_ms = self._authentication.renew_in_ms(lifetime_ms)
            self._renewal = asyncio.get_running_loop().call_later(wait_ms / 1000, self._renew)

    def _renew(self) -> None:
        self._renewal = asyncio.ensure_future(self._authenticate_again(self._socket))

    async def _authenticate_again(self, socket: Connection | None) -> None:
        """Authenticate again (KIP-368). No other request may be sent between SaslHandshake and the last response."""
        assert self._authentication is not None
        assert socket is not None
        try:
            prepared = await self._authentication.prepare()
            socket.hold(True)
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                await self._authenticate(prepared)
        except (KafkaError, TimeoutError) as error:
            if self._socket is socket:
                self._renewal = None  # the running task is this one
                log.warning(
                    "kafwire: re-authentication to %s failed: %s",
                    self.where,
                    str(error) or "no response in time",
                    node=self.node,
                    host=self.host,
                    port=self.port,
                    error=error,
                )
                self._drop(f"re-authentication failed: {error}")
        else:
            socket.hold(False)

    @property
    def _has_greeting(self) -> int:
        """The newest version of ApiVersions that the server reports."""
        return self.versions.get(ApiVersionsRequest.api_key, (0, 0))[1]

    def _greeting(self) -> ApiVersionsRequest:
        """Make an ApiVersions request.

        To a bootstrap server it names neither cluster nor node: only the address is known.
        """
        request = ApiVersionsRequest(client_software_name="kafwire", client_software_version=SOFTWARE_VERSION)
        cluster_id = self._cluster_id()
        if self.node >= 0 and cluster_id is not None:  # one without the other is an invalid request
            request.cluster_id, request.node_id = cluster_id, self.node
        return request

    async def _negotiate(self, version: int) -> None:
        """Negotiate versions. A server without our version of ApiVersions lists its own, in the version 0 layout."""
        request = self._greeting()
        while True:
            response = await self._exchange(request, version)
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            offered = [k.max_version for k in response.api_keys if k.api_key == request.api_key]
            version = min(version - 1, offered[0] if offered else 0)
            await asyncio.sleep(response.throttle_time_ms / 1000)
        self._check_greeted(request, response)
        self.versions = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
        self._negotiated.clear()
        levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
        self.features = (response.finalized_features_epoch, levels)
        if self._authentication is not None:  # SASL follows at once; other requests obey `muted_until_ms`
            await asyncio.sleep(response.throttle_time_ms / 1000)

    async def _confirm_node(self) -> None:
        """Make the broker compare cluster and node after authentication: before it, brokers compare neither."""
        request = self._greeting()
        if request.node_id >= 0 and self._has_greeting >= request.NAMES_NODE:
            response = await self._exchange(request, min(self._has_greeting, request.max_stable_version))
            self._check_greeted(request, response)

    def _check_greeted(self, request: ApiVersionsRequest, response: ApiVersionsResponse) -> None:
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            asyncio.get_running_loop().call_soon(self._on_misdirected, self)
            raise KafkaConnectionError(
                f"{self.where} is not broker {request.node_id} of cluster {request.cluster_id}: another broker has the "
                "address now"
            )
        if response.error_code:
            raise KafkaConnectionError(f"{self.where}: {broker_error(response.error_code, 'ApiVersions')}")

    def version_of(self, request: type[Any], *, at_most: int | None = None) -> int:
        """Return the negotiated version of a request class; the connection must be ready."""
        known = None if at_most is not None else self._negotiated.get(request)
        if known is not None:
            return known
        version = versions.choose(
            request.__name__,
            (request.LEAST, request.max_stable_version),
            request.api_key,
            self.versions,
            at_most=at_most,
        )
        if at_most is None:
            self._negotiated[request] = version
        return version

    @property
    def socket(self) -> object:
        """The current socket: another object after each reconnection; None if not connected."""
        return self._socket

    @property
    def direct(self) -> RequestTable | None:
        """The request table for threads that send on the current socket; None if they must not."""
        return self._requests if self._ready and self._requests.accepts_threads else None

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        """Show responses on the current socket to a filter before the engine."""
        if self._socket is not None:
            self._socket.set_response_filter(response_filter)

    def went_by(self, counts: Mapping[str, Any]) -> None:
        """Count requests that threads sent directly (see `kafwire.producer.buffer._direct_send`)."""
        self.requests += counts["batches"]
        self.bytes_out += counts["bytes_out"]
        self.responses += counts["responses"]
        self.bytes_in += counts["bytes_in"]
        self.latency_ms_sum += counts["latency_ms_sum"]
        self.latency_ms_max = max(self.latency_ms_max, counts["latency_ms_max"])
        self.latency_ms_peak = max(self.latency_ms_peak, counts["latency_ms_max"])

    def next_correlation_id(self) -> int:
        """Return the id for the next request; the caller must send that request, or drop the id."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    def send(
        self,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        on_response: OnResponse,
        *,
        expect_response: bool = True,
        timeout_ms: float | None = None,
    ) -> None:
        """Queue a request on the ready connection; `on_response` is called once, on the engine, never within this call.

        If this raises, `on_response` is not called at all.
        """
        if not self._ready:
            raise KafkaConnectionError(f"the connection to {self.where} is closed")
        self._submit(correlation_id, segments, on_response, expect_response=expect_response, timeout_ms=timeout_ms)

    def _submit(
        self,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        on_response: OnResponse,
        *,
        expect_response: bool = True,
        timeout_ms: float | None = None,
        past_hold: bool = False,
    ) -> None:
        """`send`, also before the connection is ready."""
        if self._socket is None:  # a server that sends first may have closed the connection before the first request
            raise self._lost or KafkaConnectionError(f"the connection to {self.where} is closed")
        timer = None
        if timeout_ms is not None:
            timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.time_out, correlation_id)
        self._requests.put(correlation_id, PendingRequest(on_response, timer, self._engine.now_ms()))
        try:
            self._socket.submit(
                correlation_id, correlation_id, segments, expect_response=expect_response, past_hold=past_hold
            )
        except BrokenPipeError:
            # The socket has just closed: its event is pending, and fails all waiting requests.
            pass
        except BaseException:
            self._requests.pop(correlation_id)
            if timer is not None:
                timer.cancel()
            raise
        self.requests += 1
        self.bytes_out += SIZE_PREFIX + sum(map(len, segments))
        self.use()
        self.watch_over()

    def use(self) -> None:
        """Note a request: the connection is not idle."""
        self._used_ms = self._engine.now_ms()

    def _close_when_idle(self) -> None:
        """Close the connection once it had no request for `connections_max_idle_ms`, and none is pending."""
        limit_ms = self._config.connections_max_idle_ms
        if limit_ms <= 0:
            return
        left_ms = limit_ms if len(self._requests) else self._used_ms + limit_ms - self._engine.now_ms()
        if left_ms > 0:
            self._idle = asyncio.get_running_loop().call_later(left_ms / 1000, self._close_when_idle)
        else:
            self._drop(f"no request was sent on it for connections_max_idle_ms ({limit_ms})")

    async def check(self) -> None:
        """Open if needed, and make sure that the broker is alive: it responded just now, or does so on a request."""
        await self.open()
        if self._engine.now_ms() - self._heard_ms > ALIVE_MS:
            await self.call(self._greeting())

    async def call(self, message: Any, *, version: int | None = None, timeout_ms: float | None = None) -> Any:
        """Open if needed, send `message`, and return the decoded response."""
        while True:
            await self.open()
            wait = self.muted_until_ms - self._engine.now_ms()
            if wait <= 0:
                break
            await asyncio.sleep(wait / 1000)  # the connection may have another socket by then
        if not self._ready:
            raise KafkaConnectionError(f"the connection to {self.where} was closed immediately after it opened")
        return await self._exchange(message, self.version_of(type(message)) if version is None else version, timeout_ms)

    def note_throttle(self, throttle_ms: int) -> None:
        """Note a throttle time: the broker mutes the connection (KIP-219), so no request is sent until then."""
        if throttle_ms > 0:
            self.throttle_ms += throttle_ms
            self.throttle_ms_peak = max(self.throttle_ms_peak, throttle_ms)
            self.muted_until_ms = max(self.muted_until_ms, self._engine.now_ms() + throttle_ms)

    async def _exchange(
        self, message: Any, version: int, timeout_ms: float | None = None, *, past_hold: bool = False
    ) -> Any:
        future: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()

        def on_response(frame: Buffer | None, error: KafkaError | None) -> None:
            if future.done():  # the caller gave up; the response is still read for its throttle time (KIP-219)
                if frame is not None:
                    with suppress(ProtocolError):
                        self._read_response(message, frame, version)
                return
            if frame is None:
                future.set_exception(error or KafkaConnectionError("the request was lost"))
            else:
                future.set_result(frame)

        correlation_id = self.next_correlation_id()
        request = encode_request(message, version, correlation_id, self._config.client_id)
        limit_ms = timeout_ms or self._config.request_timeout_ms
        self._submit(correlation_id, [request], on_response, timeout_ms=limit_ms, past_hold=past_hold)
        frame = await future
        try:
            return self._read_response(message, frame, version)
        except ProtocolError as error:
            self.fail("a response could not be decoded")
            raise ProtocolError(
                f"{self.where} sent a response that cannot be decoded: {error.message}",
                api=type(message).response.__name__,
                version=version,
                offset=error.offset,
            ) from None

    def _read_response(self, message: Any, frame: Buffer, version: int) -> Any:
        """Decode the response to a request, and note its throttle time."""
        # A larger max_frame_bytes means that the user expects larger responses.
        allowed = max(MAX_MEMORY, 3 * self._config.max_frame_bytes)
        response = decode_response(type(message), frame, version, max_memory=allowed)[1]
        self.note_throttle(getattr(response, "throttle_time_ms", 0))
        return response

    def fail(self, reason: str) -> None:
        """Close the socket after a protocol error or a hang: its data can no longer be trusted."""
        self._blame_address()
        self._drop(reason)

    def close(self, reason: str = "the client was closed") -> None:
        """Close for good; pending and later requests fail."""
        self._closed = self._closed or reason
        if self._opening is not None:
            self._opening.cancel()
        self._drop(reason)

    def limit(self, correlation_id: int, timeout_ms: float) -> None:
        """Give a time-out to a pending request that was sent without one."""
        request = self._requests.get(correlation_id)
        if request is not None:
            loop = asyncio.get_running_loop()
            request.timer = loop.call_later(max(0.0, timeout_ms) / 1000, self.time_out, correlation_id)

    def time_out(self, correlation_id: int) -> None:
        """Fail a request without a timely response, and close the socket."""
        if correlation_id in self._requests:
            error = KafkaTimeoutError(
                f"no response from {self.where} in time on its {self.role} connection: the broker hangs, or "
                f"request_timeout_ms ({self._config.request_timeout_ms}) is too short"
            )
            # Responses come in order, so all later requests are stuck too.
            self._blame_address()
            reason = f"a request got no response within request_timeout_ms ({self._config.request_timeout_ms})"
            self._drop(reason, {correlation_id: error})

    def _drop(
        self,
        reason: str = "given up",
        errors: Mapping[int, KafkaError] = MappingProxyType({}),
        kind: type[KafkaError] = KafkaConnectionError,
        oldest: KafkaError | None = None,
    ) -> None:
        """Drop the socket: pending requests fail with `kind`, and its late events are ignored.

        `errors` are those of single requests, by correlation id, and `oldest` is that of the oldest request. Waiting
        callers get the error on the next loop iteration, in the order of sending.
        """
        connection, self._socket = self._socket, None
        if self.serves:
            self._reach.watch(self).served = True
        for timer in (self._look, self._idle, self._renewal):
            if timer is not None:
                timer.cancel()
        self._look = self._idle = self._renewal = None
        self._events = None
        self._ready = False
        if connection is not None:
            connection.close()
        error = kind(self._closed_because(reason))
        if connection is not None:
            self._lost = error
        if self._connecting is not None and not self._connecting.done():
            self._connecting.set_exception(error)
        for correlation_id, request in self._requests.close().items():
            if request.timer is not None:
                request.timer.cancel()
            self._engine.start(self._tell, request, errors.get(correlation_id, oldest or error))
            oldest = None

    def _tell(self, request: PendingRequest, error: KafkaError) -> None:
        try:
            request.complete(None, error)
        except Exception:
            log.exception(
                "kafwire: the failure of a request to %s could not be handled",
                self.where,
                node=self.node,
                host=self.host,
                port=self.port,
                role=self.role,
            )

    def _on_connected(self) -> None:
        if self._connecting is not None and not self._connecting.done():
            self._connecting.set_result(None)

    def _on_response(self, token: int, frame: Buffer | None) -> None:
        request = self._requests.pop(token)
        if request is not None:
            if request.timer is not None:
                request.timer.cancel()
            self._heard_ms = self._used_ms = self._engine.now_ms()
            latency_ms = self._heard_ms - request.sent_ms
            self.responses += 1
            self.latency_ms_sum += latency_ms
            self.latency_ms_max = max(self.latency_ms_max, latency_ms)
            self.latency_ms_peak = max(self.latency_ms_peak, latency_ms)
            if frame is not None:
                self.bytes_in += SIZE_PREFIX + len(frame)
            request.complete(frame, None)

    def _on_closed(self, errno: int, reason: str) -> None:
        if len(self._requests):
            self._blame_address()
        # A refusal after success concerns this socket only: the next one shows whether the client is still accepted.
        refused = errno == NOT_AUTHENTICATED and not self._ready
        self._errno = errno
        if (
            self._authentication is None and self._ready and errno in CLOSED_BY_PEER and len(self._requests)
            and not self._reach.serves(self)
        ):  # fmt: skip
            reason = f"{reason} {asks_for_login(tls=self._tls is not None)}"
        # brokers respond in order: the frame belongs to the oldest request
        too_large = errno == errnos.EMSGSIZE and self._ready
        oldest = FrameTooLargeError(self._closed_because(reason)) if too_large else None
        self._drop(reason, kind=AuthenticationError if refused else KafkaConnectionError, oldest=oldest)


def host_and_port(host: str, port: int) -> str:
    """Format an address, an IPv6 one in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FrameTooLargeError(KafkaConnectionError):
    """The response to this request is longer than `max_frame_bytes`: the connection was closed."""


class _UnresolvedError(KafkaConnectionError):
    """A host name has no address; `number` is the resolver's error number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class _Events:
    """Routes a socket's events to its connection, until the connection has another socket."""

    __slots__ = ("_connection",)

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    def on_connected(self) -> None:
        if self._connection._events is self:
            self._connection._on_connected()

    def on_response(self, token: int, frame: Buffer) -> None:
        if self._connection._events is self:
            self._connection._on_response(token, frame)

    def on_sent(self, token: int) -> None:
        if self._connection._events is self:
            self._connection._on_response(token, None)

    def on_closed(self, errno: int, reason: str) -> None:
        if self._connection._events is self:
            self._connection._on_closed(errno, reason)
