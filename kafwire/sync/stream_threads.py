"""Threads for partition streams: one for each, and no more than a user allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from kafwire.sync.partition_stream import PartitionStream


def run_threads(
    streams: Iterator[PartitionStream],
    handler: Callable[[PartitionStream], object],
    threads: int,
    stop: Callable[[], object],
) -> None:
    """Call `handler` with each stream in a thread, until there are no more; raise the first error of one."""
    errors: list[BaseException] = []
    free = threading.BoundedSemaphore(threads)

    def work(stream: PartitionStream) -> None:
        try:
            with stream:
                handler(stream)
        except BaseException as error:  # noqa: BLE001  # it is raised where the streams are asked for
            errors.append(error)
            stop()
        finally:
            free.release()

    with ThreadPoolExecutor(threads, "kafwire-stream") as pool:
        try:
            for stream in streams:
                free.acquire()
                pool.submit(work, stream)
        except BaseException:
            stop()
            raise
    if errors:
        raise errors[0]
