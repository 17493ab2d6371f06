"""The progress bar itself. Importing this needs the package rich."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

__all__ = ["Bar"]


class Bar:
    """A bar of offsets, or of bytes, on standard error; drawn four times a second by a thread of rich's."""

    def __init__(self, title: str, total: int, *, of_bytes: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            DownloadColumn(binary_units=True) if of_bytes else MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=4,
            redirect_stdout=False,  # what is printed is bytes
            redirect_stderr=False,
        )
        self._task = self._progress.add_task(title, total=total)

    def __call__(self, done: int) -> None:
        """Say how much is done in all."""
        self._progress.update(self._task, completed=done)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
