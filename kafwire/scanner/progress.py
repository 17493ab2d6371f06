"""The progress bar on standard error, of scans and of the command line. Importing this needs the package rich."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from kafwire.consumer._fetch_buffer import FetchBuffer
    from kafwire.consumer.partition_cursor import FetchCursor

__all__ = ["Bar", "ProgressBar"]

REFRESHES_PER_SECOND = 4


class ProgressBar:
    """A bar of offsets, or of bytes: drawn by a thread of rich's, which asks `count` each time."""

    def __init__(self, title: str, total: int, *, of_bytes: bool = False, force: bool = False) -> None:
        self._done = 0
        self._pid = os.getpid()
        self._progress = _Watching(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            DownloadColumn(binary_units=True) if of_bytes else MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, force_terminal=True if force else None),
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=False,  # the program's own
            redirect_stderr=False,
        )
        task = self._progress.add_task(title, total=total)
        self._progress.before = lambda: self._progress.update(task, completed=self.count())

    def __call__(self, done: int) -> None:
        """Say how much is done in all."""
        self._done = done

    def count(self) -> int:
        """How much is done in all."""
        return self._done

    def start(self) -> None:
        """Show it."""
        atexit.register(self.stop)  # a terminal without its cursor is not left behind
        self._progress.start()

    def stop(self) -> None:
        """Draw it for the last time. Nothing in a forked child, where rich's thread is not, nor who holds its locks."""
        if os.getpid() == self._pid:
            atexit.unregister(self.stop)
            self._progress.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Bar(ProgressBar):
    """How many offsets of a scan are read, or are known not to exist."""

    def __init__(self, title: str, cursors: Sequence[FetchCursor], queue: FetchBuffer, *, force: bool) -> None:
        self._cursors = [(cursor, cursor.position) for cursor in cursors]
        self._queue = queue
        super().__init__(title, sum(cursor.end - start for cursor, start in self._cursors), force=force)

    def count(self) -> int:
        """The offsets that were read, or are known not to exist."""
        return sum(self._read(cursor, start) for cursor, start in self._cursors)

    def _read(self, cursor: FetchCursor, start: int) -> int:
        read = max(start, self._queue.position(cursor.number))
        return (cursor.end if cursor.done and read >= cursor.position else min(read, cursor.end)) - start


class _Watching(Progress):
    """Looks at what it shows whenever it is drawn."""

    before: Callable[[], object] | None = None

    def get_renderable(self) -> RenderableType:
        """Draw it."""
        if self.before is not None:
            self.before()
        return super().get_renderable()
