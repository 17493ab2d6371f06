"""The model of Kafka behind real sockets, for what only a native connection does: the I/O thread, and ways past it.

    with ServedKafka() as kafka:
        kafka.create_topic("t")
        with kafwire.Producer(kafka.bootstrap) as producer:
            producer.send("t", b"v").result(10)

One broker, in a thread of its own. Calls to the model while it serves go through `ask`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any, Self, TypeVar, cast

from kafwire.testing.simulation.kafka import HANGUP, NEVER, Call, Handler, Kafka
from kafwire.testing.simulation.network import SimulatedNode, frame_of
from tests.support.deadlines import ended
from tests.support.simulated.world import World

T = TypeVar("T")
SIZE_BYTES = 4


class ServedKafka(Kafka):
    """One broker on a port of this machine."""

    nodes: dict[int, SimulatedNode]

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        super().__init__(topic_ids=True)
        self.engine = SimpleNamespace(now_ms=lambda: time.monotonic() * 1000)
        self.calls: list[Call] = []
        self.handlers: dict[str, list[Handler]] = {}
        self.problems: list[BaseException] = []
        self.received: Counter[int] = Counter()  # bytes, by connection
        self.sent: Counter[int] = Counter()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._on_connection, "127.0.0.1", 0), self.loop
        ).result(30)
        port = self._server.sockets[0].getsockname()[1]
        self.nodes = {1: SimulatedNode(cast("World", self), 1, "127.0.0.1", port)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        ended(self._thread)
        self.loop.close()
        if error is None and self.problems:
            raise self.problems[0]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.nodes[1].port}"

    def on(self, api: str, handler: Handler) -> None:
        """Ask `handler` before the model for responses to `api`, from the next request on."""
        self.ask(lambda: self.handlers.setdefault(api, []).insert(0, handler))

    def off(self, api: str) -> None:
        """Leave `api` to the model again."""
        self.ask(lambda: self.handlers.pop(api, None))

    def made(self, api: str) -> list[Call]:
        """The requests of `api` so far."""
        return self.ask(lambda: [call for call in self.calls if call.name == api])

    def ask(self, function: Callable[[], T]) -> T:
        """Call `function` in the broker's thread."""

        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(30)

    def break_off(self) -> None:
        """Close all connections."""

        def close() -> None:
            for writer in self._writers:
                writer.close()

        self.ask(close)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        self._writers.add(writer)
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
                call, response = await self.nodes[1].respond(number, await reader.readexactly(size))
                if response is HANGUP:
                    return
                if response is NEVER:
                    await asyncio.get_running_loop().create_future()
                self.received[number] += SIZE_BYTES + size
                if getattr(call.message, "acks", -1) == 0:
                    continue
                frame = frame_of(call, response)
                self.sent[number] += SIZE_BYTES + len(frame)
                writer.write(len(frame).to_bytes(SIZE_BYTES, "big") + frame)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except Exception as error:  # the test raises it
            self.problems.append(error)
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _end(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for writer in list(self._writers):
            writer.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
