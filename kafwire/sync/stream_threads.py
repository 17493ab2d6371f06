"""Threads for partition streams: one for each, up to the user's limit."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from kafwire.errors import ConfigError, KafkaError
from kafwire.integers import count
from kafwire.runtime.log import consumer_log as log
from kafwire.sync.partition_stream import PartitionStream


def run_threads(
    streams: Iterator[PartitionStream],
    handler: Callable[[PartitionStream], object],
    threads: int,
    stop: Callable[[], object],
) -> None:
    """Call `handler` with each stream in a thread until the streams end; raise the first error of a handler.

    A stream that waits for a thread does not block the iteration, which calls the rebalance handlers.
    """
    if not callable(handler):
        raise ConfigError(f"handler: a function of a PartitionStream is needed, not {handler!r}")
    limit = count(threads)
    if limit is None:
        raise ConfigError(f"threads={threads!r}: a whole number from 1 is needed")
    workers = _Workers(handler, limit, stop)
    try:
        for stream in streams:
            workers.take(stream)
    except BaseException:
        stop()
        raise
    finally:
        workers.join()
    if workers.errors:
        raise workers.errors[0]


class _Workers:
    """The threads of one call. They are daemons: the interpreter's end does not wait for them, as for other readers."""

    def __init__(self, handler: Callable[[PartitionStream], object], threads: int, stop: Callable[[], object]) -> None:
        self.errors: list[BaseException] = []
        self._handler = handler
        self._limit = threads
        self._stop = stop
        self._lock = threading.Lock()
        self._waiting: deque[PartitionStream] = deque()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def take(self, stream: PartitionStream) -> None:
        """Handle the stream in a thread, now or once a thread is free."""
        thread = threading.Thread(target=self._run, args=(stream,), name="kafwire-stream", daemon=True)
        with self._lock:
            is_free = self._busy < self._limit
            if is_free:
                self._busy += 1
            else:
                self._waiting.append(stream)
        if is_free:
            thread.start()
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            return
        log.warning(
            "%s-%d waits for a thread, as threads=%d handlers run: it is not read until one returns",
            stream.topic,
            stream.partition,
            self._limit,
            topic=stream.topic,
            partition=stream.partition,
        )

    def join(self) -> None:
        """Wait until all streams are handled."""
        for thread in self._threads:
            thread.join()

    def _run(self, stream: PartitionStream) -> None:
        self._handle(stream)
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy -= 1
                    return
                stream = self._waiting.popleft()
            if stream.has_ended:  # the partition was given up meanwhile
                stream.close()
            else:
                self._handle(stream)

    def _handle(self, stream: PartitionStream) -> None:
        try:
            with stream:
                self._handler(stream)
                if not stream.has_ended:
                    log.warning(
                        "the handler of %s-%d returned before its stream ended: the partition stays unread until its "
                        "next assignment; return when the stream ends, or stop the consumer",
                        stream.topic,
                        stream.partition,
                        topic=stream.topic,
                        partition=stream.partition,
                    )
        except BaseException as error:  # noqa: BLE001  # `run_threads` raises it
            self.errors.append(error)
            with suppress(KafkaError):  # the consumer is closed already
                self._stop()
