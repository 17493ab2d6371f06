"""A progress bar on standard error, if that is a terminal."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TextIO

import click

__all__ = ["Progress", "progress_bar", "progress_option"]


class Progress(Protocol):
    """The callback for a command's progress."""

    def __call__(self, done: int) -> None:
        """Report the total progress so far."""


progress_option = click.option(
    "--progress/--no-progress",
    default=None,
    help="A progress bar on standard error, if the end is known. By default if standard error is a terminal and the "
    "output is not; needs the package rich.",
)


def progress_bar(
    wanted: bool | None, title: str, total: int, *, of_input: bool = False
) -> AbstractContextManager[Progress]:
    """Return a bar that ends at `total`, or a silent substitute: with `wanted` None, if a bar would disturb the output.

    It counts printed offsets, or, with `of_input`, bytes that are read.
    """
    disturbs = (not of_input and sys.stdout.isatty()) or not _looked_at(sys.stderr)
    if wanted is False or (wanted is None and disturbs):
        return nullcontext(_silent)
    try:
        from kafwire.scanner.progress import ProgressBar
    except ImportError:
        if wanted is None:
            return nullcontext(_silent)
        raise click.ClickException("--progress needs the package rich: pip install 'kafwire[progress]'") from None
    return ProgressBar(title, total, of_bytes=of_input)


def _looked_at(stream: TextIO | None) -> bool:
    """Return True if a stream is a terminal; a stream closed before the start is None."""
    return stream is not None and stream.isatty()


def _silent(done: int) -> None:
    """Report nothing."""
