"""The output of `kafwire decode`: values up to a limit, and problems for the exit code."""

from typing import Any

import click

from kafwire.cli.output import JsonWriter

__all__ = ["EnoughError", "Findings"]


class EnoughError(Exception):
    """The limit of values was reached."""


class Findings:
    """Writes values, at most `limit`; keeps the first problem for the exit code."""

    def __init__(self, writer: JsonWriter, limit: int | None = None) -> None:
        self._writer = writer
        self._left = limit
        self._problems = 0
        self._first = ""

    def write(self, value: Any) -> None:
        """Write one value.

        Raises:
            EnoughError: the value is the last one of the limit.
        """
        self._writer.write(value)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                raise EnoughError

    def flush(self) -> None:
        """Flush the written values."""
        self._writer.flush()

    def problem(self, text: str) -> None:
        """Note a problem."""
        self._problems += 1
        self._first = self._first or text

    def finish(self) -> int:
        """Return the exit code 0, or report the first problem and the number of the others.

        Raises:
            click.ClickException: there was a problem.
        """
        self._writer.flush()
        if not self._problems:
            return 0
        more = f" (and {self._problems - 1} more)" if self._problems > 1 else ""
        raise click.ClickException(self._first + more)
