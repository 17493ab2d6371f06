"""The interfaces below and above the engine, of which an engine's creator chooses implementations.

`NativeEngine` (`engine.py`) has the native I/O thread, the system's clock and randomness, and threads. A simulation has
its own of each. Clock, waiter, notifier, response filter and request table are classes, as compiled modules use them
too (`_interfaces.pxd`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from kafwire.errors import KafkaError
from kafwire.lazy_dataclass import dataclass
from kafwire.memory._buffer import Buffer
from kafwire.runtime._interfaces import (
    NOT_AUTHENTICATED,
    Clock,
    Notifier,
    PendingRequest,
    RequestTable,
    ResponseFilter,
    StreamSource,
    Waiter,
)

if TYPE_CHECKING:
    import ssl

__all__ = [
    "NOT_AUTHENTICATED",
    "Callbacks",
    "Clock",
    "Connection",
    "Engine",
    "Executor",
    "Member",
    "Notifier",
    "PendingCall",
    "PendingRequest",
    "Random",
    "Receiver",
    "Reporter",
    "RequestTable",
    "Resolver",
    "ResponseFilter",
    "SocketAddress",
    "SslSource",
    "StreamSource",
    "Transport",
    "Waiter",
    "Work",
]

_T = TypeVar("_T")
_P = ParamSpec("_P")


@dataclass(frozen=True)
class SslSource:
    """TLS by an `ssl.SSLContext`, for a connection to a server whose certificate must be for `host`."""

    context: ssl.SSLContext
    host: str


# (host, port), for IPv6 also (flow info, scope id).
SocketAddress = tuple[Any, ...]
# A function for the engine to call: a coroutine made elsewhere could be dropped before it is awaited.
Work = Callable[[], Coroutine[Any, Any, _T]]


class Random(Protocol):
    """A source of randomness, such as `random.Random`."""

    def random(self) -> float:
        """Return a number in [0, 1)."""

    def getrandbits(self, k: int, /) -> int:
        """Return a number of `k` bits."""

    def shuffle(self, x: list[Any]) -> None:
        """Shuffle a list in place."""


class Resolver(Protocol):
    """Resolves host names."""

    async def resolve(self, host: str, port: int) -> list[tuple[int, SocketAddress]]:
        """Return all addresses of a host, as (family, address), in the order to try them.

        Raises `OSError` or `UnicodeError` for a name without an address, `RuntimeError` if no thread can be started.
        """


class Executor(Protocol):
    """Threads for functions that may block."""

    def in_thread(self, name: str, function: Callable[..., _T], *args: object) -> asyncio.Future[_T]:
        """Run a function that may block in a thread of its own; only the caller that awaits the future waits for it.

        On the engine only. The future gets a `RuntimeError` if no thread can be started any more.
        """

    def in_loop(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """Await `function()` in the loop for user coroutines; return (its result, its error).

        On the engine only. Cancelling the future cancels the coroutine. Raises `RuntimeError` if no thread can be
        started any more.
        """


class Reporter(Protocol):
    """Delivers reports to the user: metric snapshots."""

    def submit(self, report: Callable[[], object]) -> bool:
        """Call `report` in a thread that nothing waits for; False if it is dropped."""


class Callbacks(Protocol):
    """Runs delivery callbacks."""

    @property
    def is_current(self) -> bool:
        """True if the caller runs within a callback."""

    def submit(self, function: Callable[[], object]) -> None:
        """Call `function` after all earlier submissions; from any thread."""


class PendingCall(Protocol):
    """A call that waits for the engine."""

    def fail(self, error: KafkaError) -> None:
        """Raise `error` in the waiting caller: the engine has ended."""


class Receiver(Protocol):
    """Receives the events of a connection; each method is called on the engine."""

    def on_connected(self) -> None:
        """Handle the open socket."""

    def on_response(self, token: int, frame: Buffer) -> None:
        """Handle the response to the request `token`: the frame from its correlation id on."""

    def on_sent(self, token: int) -> None:
        """Handle the end of sending of a request without a response."""

    def on_closed(self, errno: int, reason: str) -> None:
        """Handle the end of the connection, and of all its pending requests.

        `errno` is `NOT_AUTHENTICATED` if one side rejected the other.
        """


class Connection(Protocol):
    """One socket, or a simulated one."""

    @property
    def requests(self) -> RequestTable:
        """The requests without a response; the owner that drops the connection closes the table."""

    def submit(
        self,
        token: int,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        *,
        expect_response: bool,
        past_hold: bool = False,
    ) -> None:
        """Queue one request; the size prefix is added. Buffers are referenced, never copied.

        With `past_hold`, no `hold` delays it. Raises `BrokenPipeError` once the connection is closed.
        """

    def hold(self, holding: bool) -> None:
        """Hold requests submitted from now on, by any thread, until this is called with False.

        A connection that authenticates again (KIP-368) must send nothing else meanwhile.
        """

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        """Show responses to the filter before the engine, until it is detached."""

    def set_max_frame(self, limit: int) -> None:
        """Refuse frames above `limit` bytes from now on."""

    def close(self) -> None:
        """Close; `on_closed` follows. Closing twice is allowed."""


class Transport(Protocol):
    """Makes connections, and notifiers for compiled modules."""

    def connect(
        self,
        family: int,
        address: SocketAddress,
        receiver: Receiver,
        max_frame: int,
        stream: StreamSource | SslSource | None = None,
    ) -> Connection:
        """Start to connect to a resolved socket address; `receiver` gets the outcome.

        `stream` makes the stream, TLS; None: the plain socket.
        """

    def listen(self, callback: Callable[[], object]) -> Notifier:
        """Return a notifier that any thread may notify, without the GIL; `callback` then runs on the engine."""

    def unlisten(self, notifier: Notifier) -> None:
        """Remove a notifier; its pending notifications are dropped."""


class Member(Protocol):
    """A part of a client that runs on the engine, and is notified when the process ends or forks."""

    async def end(self) -> None:
        """Finish urgent work within a few seconds, and release waiting callers: the interpreter ends."""

    def fail(self, error: KafkaError) -> None:
        """Fail all waiting callers with the error that ended the engine, and refuse all work.

        The loop no longer runs. Its timers and tasks may be cancelled.
        """

    def abandon(self) -> None:
        """Refuse all work: this process is a fork. The method must not lock, send or close anything."""


class Engine(Executor, Protocol):
    """One event loop that clients run on, with their interfaces to the outside world."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    @property
    def random(self) -> Random:
        """The source of randomness."""

    @property
    def resolver(self) -> Resolver:
        """The resolver of host names."""

    @property
    def transport(self) -> Transport:
        """The transport that makes connections."""

    @property
    def waiter(self) -> Waiter:
        """The wait of user threads."""

    @property
    def callbacks(self) -> Callbacks:
        """The runner of delivery callbacks."""

    @property
    def reports(self) -> Reporter:
        """The delivery of metric snapshots."""

    def now_ms(self) -> float:
        """Monotonic milliseconds: the only clock for decisions."""

    @property
    def is_foreign(self) -> bool:
        """True if this process is a fork of the engine's."""

    @property
    def is_over(self) -> bool:
        """True if nothing needs to be closed here: in a fork, once the interpreter ends, or after the engine ended."""

    def check_process(self) -> None:
        """Raise `KafkaError` in a forked child: it has no sockets and threads."""

    def check_caller(self) -> None:
        """Raise `KafkaError` if the caller must not wait for the engine: in a fork, at the end, in a callback."""

    def run(self, function: Callable[_P, Coroutine[Any, Any, _T]], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call `function` on the engine, and wait for its coroutine's result; an interrupt cancels it."""

    def start(self, function: Callable[..., object], *args: object) -> bool:
        """Schedule `function` on the engine; from any thread. False in a fork, or after the end."""

    def expect(self, call: PendingCall) -> None:
        """Fail `call` if this engine ends before `forget`. Raises `KafkaError` if it has ended."""

    def forget(self, call: PendingCall) -> None:
        """Forget a finished `call`."""

    def join(self, member: Member) -> None:
        """Register `member` to be notified of the end or a fork; only a weak reference is kept."""
