"""Threads for partition streams: one for each, and no more than a user allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from kafwire.errors import ConfigError
from kafwire.sync.partition_stream import PartitionStream

log = logging.getLogger("kafwire")


def run_threads(
    streams: Iterator[PartitionStream],
    handler: Callable[[PartitionStream], object],
    threads: int,
    stop: Callable[[], object],
) -> None:
    """Call `handler` with each stream in a thread, until there are no more; raise the first error of one.

    Streams that wait for a thread do not hold up who iterates: handlers of rebalances are called by that.
    """
    if not callable(handler):
        raise ConfigError(f"handler: a function of a PartitionStream is needed, not {handler!r}")
    if not isinstance(threads, int) or threads < 1:
        raise ConfigError(f"threads={threads!r}: a whole number from 1 is needed")
    errors: list[BaseException] = []
    unfinished: list[Future[None]] = []

    def work(stream: PartitionStream, *, has_waited: bool) -> None:
        try:
            with stream:
                if has_waited and stream.has_ended:
                    return  # it was given up meanwhile
                handler(stream)
                if not stream.has_ended:
                    log.warning(
                        "the handler of %s-%d returned before its stream ended: the partition is not read on before "
                        "it is assigned anew; return when the stream ends, or stop the consumer",
                        stream.topic,
                        stream.partition,
                    )
        except BaseException as error:  # noqa: BLE001  # it is raised where the streams are asked for
            errors.append(error)
            stop()

    with ThreadPoolExecutor(threads, "kafwire-stream") as pool:
        try:
            for stream in streams:
                unfinished = [each for each in unfinished if not each.done()]
                waits = len(unfinished) >= threads
                if waits:
                    log.warning(
                        "%s-%d waits for a thread, as threads=%d handlers run: it is not read until one returns",
                        stream.topic,
                        stream.partition,
                        threads,
                    )
                unfinished.append(pool.submit(work, stream, has_waited=waits))
        except BaseException:
            stop()
            raise
    if errors:
        raise errors[0]
