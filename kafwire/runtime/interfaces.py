"""What the engine runs on, and what runs on it: the interfaces that whoever makes an engine chooses among.

`NativeEngine` (`engine.py`) has the native I/O thread, the system's clock and chance, and threads. A simulated world
has its own of each. Clock, waiter, notifier, response filter and request table are classes, as compiled modules use
them too (`_interfaces.pxd`).
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
    """TLS by an `ssl.SSLContext`, for a connection to a server whose certificate has to be for `host`."""

    context: ssl.SSLContext
    host: str


# (host, port), and of IPv6 (flow info, scope id) too.
SocketAddress = tuple[Any, ...]
# What the engine is to call: a coroutine that was made elsewhere could be dropped before it is awaited.
Work = Callable[[], Coroutine[Any, Any, _T]]


class Random(Protocol):
    """Chance; `random.Random` is one."""

    def random(self) -> float:
        """A number in [0, 1)."""

    def getrandbits(self, k: int, /) -> int:
        """A number of `k` bits."""

    def shuffle(self, x: list[Any]) -> None:
        """Put a list into another order."""


class Resolver(Protocol):
    """Names to addresses."""

    async def resolve(self, host: str, port: int) -> list[tuple[int, SocketAddress]]:
        """All addresses of a host, as (family, address), in the order in which they are to be tried.

        Raises `OSError` or `UnicodeError` for a name that has none, `RuntimeError` where no thread can be started.
        """


class Executor(Protocol):
    """Threads for what may block."""

    def in_thread(self, name: str, function: Callable[..., _T], *args: object) -> asyncio.Future[_T]:
        """Run what may block in a thread of its own, which nothing waits for but whoever awaits the future.

        On the engine only. The future has a `RuntimeError` where no thread can be started any more.
        """

    def in_loop(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """Await `function()` in the loop for coroutines of the user's: (what it returned, what it raised).

        On the engine only. Cancelling the future cancels the coroutine. Raises `RuntimeError` where no thread can be
        started any more.
        """


class Reporter(Protocol):
    """Where reports to the user leave: metric snapshots."""

    def submit(self, report: Callable[[], object]) -> bool:
        """Have `report` called, in a thread that nothing waits for; returns False where it is dropped."""


class Callbacks(Protocol):
    """Where delivery callbacks run."""

    @property
    def is_current(self) -> bool:
        """Whether the caller runs within a callback."""

    def submit(self, function: Callable[[], object]) -> None:
        """Have `function` called behind all that was submitted before; from any thread."""


class PendingCall(Protocol):
    """A caller that waits for the engine."""

    def fail(self, error: KafkaError) -> None:
        """Raise `error` where the caller waits: the engine has ended."""


class Receiver(Protocol):
    """What a connection reports to; each is called on the engine."""

    def on_connected(self) -> None:
        """The socket is open."""

    def on_response(self, token: int, frame: Buffer) -> None:
        """The response to the request submitted with `token`: the frame from its correlation id on."""

    def on_sent(self, token: int) -> None:
        """The last byte of a request that has no response left the process."""

    def on_closed(self, errno: int, reason: str) -> None:
        """The connection is gone, and with it all that it owed.

        `errno` is `NOT_AUTHENTICATED` where one side did not accept the other.
        """


class Connection(Protocol):
    """One socket, or what stands for one."""

    @property
    def requests(self) -> RequestTable:
        """The requests that are owed a response; closed by whoever gives the connection up."""

    def submit(
        self,
        token: int,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        *,
        expect_response: bool,
        past_hold: bool = False,
    ) -> None:
        """Queue one request; the size prefix is put before it. Buffers are referenced, never copied.

        With `past_hold` no `hold` keeps it. Raises `BrokenPipeError` once the connection is closed.
        """

    def hold(self, holding: bool) -> None:
        """Have requests that are submitted from now on, by whoever, wait until this is called with False.

        A connection that authenticates again (KIP-368) may send nothing else meanwhile.
        """

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        """Let it see the responses before the engine does, until it is detached."""

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
        """Begin to connect to a resolved socket address; `receiver` hears how it went.

        `stream` makes what carries the bytes, TLS; None: nothing but the socket.
        """

    def listen(self, callback: Callable[[], object]) -> Notifier:
        """A notifier that any thread may notify, without the GIL; `callback` then runs on the engine."""

    def unlisten(self, notifier: Notifier) -> None:
        """Call nobody for it any more; what was notified and not looked at yet is dropped."""


class Member(Protocol):
    """What runs on the engine for as long as a user wants it, and has a say when the process ends or forks."""

    async def end(self) -> None:
        """The interpreter ends: finish what cannot wait, within a few seconds, and release whoever waits for you."""

    def fail(self, error: KafkaError) -> None:
        """The engine has ended by an error: fail all that waits with it, and refuse all work.

        The loop runs no more. Timers and tasks of it may be cancelled.
        """

    def abandon(self) -> None:
        """This process is a fork: refuse all work. Nothing here may be locked, sent or closed."""


class Engine(Executor, Protocol):
    """One event loop that clients run on, and all that they know of the world outside of it."""

    @property
    def clock(self) -> Clock:
        """Time."""

    @property
    def random(self) -> Random:
        """Chance."""

    @property
    def resolver(self) -> Resolver:
        """Names."""

    @property
    def transport(self) -> Transport:
        """Connections."""

    @property
    def waiter(self) -> Waiter:
        """How threads of the user's wait."""

    @property
    def callbacks(self) -> Callbacks:
        """Where delivery callbacks run."""

    @property
    def reports(self) -> Reporter:
        """Where metric snapshots leave."""

    def now_ms(self) -> float:
        """Monotonic milliseconds: the only clock that decisions are made on."""

    @property
    def is_foreign(self) -> bool:
        """Whether this process is a fork of the engine's."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to close here: in a fork, once the interpreter ends, and without an engine."""

    def check_process(self) -> None:
        """Raise `KafkaError` in a forked child: sockets and threads did not come along."""

    def check_caller(self) -> None:
        """Raise `KafkaError` where nobody may wait for the engine: in a fork, at the end, and on the engine itself."""

    def run(self, function: Callable[_P, Coroutine[Any, Any, _T]], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call `function` on the engine, and wait for what its coroutine returns; an interrupt cancels it."""

    def start(self, function: Callable[..., object], *args: object) -> bool:
        """Call `function` on the engine soon; from any thread. Whether it will be: not in a fork, nor after the end."""

    def expect(self, call: PendingCall) -> None:
        """Fail `call` if this engine ends before `forget`. Raises `KafkaError` where it has ended."""

    def forget(self, call: PendingCall) -> None:
        """`call` is over."""

    def join(self, member: Member) -> None:
        """Let `member` have its say at the end; it is not kept alive for that."""
