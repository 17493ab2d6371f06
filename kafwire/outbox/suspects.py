"""`Suspects`: finds the row that Kafka refuses, by bisection, while the rows before it are relayed. Pure.

A Kafka transaction with a refused record is aborted as a whole, and a broker refuses a batch of records as a whole too.
So the relay only knows that one or more of several rows are refused. It relays the rows before the second half of them,
and so on: a row counts as refused if it was refused alone, and no row before it is left. One of 500 rows is found with
at most ten aborted transactions, and nine committed ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafwire.errors import KafkaError
from kafwire.outbox.rows import OutboxRow


class Refusal(NamedTuple):
    """Why a row cannot be relayed.

    Args:
        error: the error that the relay raises.
        cause: the error of the row's own record.
    """

    error: KafkaError
    cause: KafkaError


class Suspects:
    """Remembers refused rows between the attempts to relay them."""

    def __init__(self) -> None:
        self._suspected: frozenset[int] = frozenset()
        self._refused: tuple[int, int, Refusal] | None = None

    def suspect(self, rows: Iterable[OutboxRow]) -> None:
        """Remember rows of which at least one is refused."""
        self._suspected = frozenset(row.id for row in rows)

    def blame(self, row: OutboxRow, refusal: Refusal) -> None:
        """Remember that exactly this row is refused."""
        self._suspected = frozenset()
        self._refused = row.id, row.check, refusal

    def forget(self) -> None:
        """Forget everything: rows and topics may have been corrected."""
        self._suspected, self._refused = frozenset(), None

    def next_part(self, rows: list[OutboxRow]) -> tuple[list[OutboxRow], Refusal | None]:
        """Choose the rows of the next transaction.

        Args:
            rows: the rows that are left, ordered by id; at least one.

        Returns:
            The first rows, to be relayed together, and None; or only the first one, and why it is refused.
        """
        for index, row in enumerate(rows):
            refusal = self._refusal_of(row)
            if refusal is not None:
                return (rows[:1], refusal) if index == 0 else (self._before_suspects(rows[:index]), None)
        return self._before_suspects(rows), None

    def _refusal_of(self, row: OutboxRow) -> Refusal | None:
        if row.problem is not None:
            return Refusal(row.problem, row.problem)
        if self._refused is not None and self._refused[:2] == (row.id, row.check):
            return self._refused[2]
        return None

    def _before_suspects(self, rows: list[OutboxRow]) -> list[OutboxRow]:
        """Return the rows before the second half of the suspects; with one suspect: those before it, or it alone."""
        left = [index for index, row in enumerate(rows) if row.id in self._suspected]
        if not left:
            self._suspected = frozenset()
            return rows
        return rows[: max(left[len(left) // 2], 1)]
