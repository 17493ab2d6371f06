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
    from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
    from kafwire.consumer.fetch.cursor import FetchCursor

__all__ = ["Bar", "ProgressBar"]

REFRESHES_PER_SECOND = 4


class ProgressBar:
    """A bar of offsets, or of bytes. A thread of rich draws it, and calls `count` each time."""

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
            redirect_stdout=False,  # it belongs to the program
            redirect_stderr=False,
        )
        task = self._progress.add_task(title, total=total)
        self._progress.before = lambda: self._progress.update(task, completed=self.count())

    def __call__(self, done: int) -> None:
        """Set the total that is done."""
        self._done = done

    def count(self) -> int:
        """Return the total that is done."""
        return self._done

    def start(self) -> None:
        """Show the bar."""
        atexit.register(self.stop)  # so that the terminal gets its cursor back
        self._progress.start()

    def stop(self) -> None:
        """Draw the bar for the last time. In a forked child, without rich's thread, do nothing."""
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
    """A bar of a scan's offsets that are read, or do not exist."""

    def __init__(self, title: str, cursors: Sequence[FetchCursor], queue: FetchBuffer, *, force: bool) -> None:
        self._cursors = [(cursor, cursor.position) for cursor in cursors]
        self._queue = queue
        super().__init__(title, sum(cursor.end - start for cursor, start in self._cursors), force=force)

    def count(self) -> int:
        """Return the number of offsets that were read, or do not exist."""
        return sum(self._read(cursor, start) for cursor, start in self._cursors)

    def _read(self, cursor: FetchCursor, start: int) -> int:
        read = max(start, self._queue.position(cursor.number))
        return (cursor.end if cursor.done and read >= cursor.position else min(read, cursor.end)) - start


class _Watching(Progress):
    """A `Progress` that calls `before` each time it is drawn."""

    before: Callable[[], object] | None = None

    def get_renderable(self) -> RenderableType:
        """Call `before`, and return the drawn bar."""
        if self.before is not None:
            self.before()
        return super().get_renderable()
