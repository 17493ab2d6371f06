"""`RowsToSend`: the rows of one `send_batch`, encoded into batches while the topics are known and there is room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafwire.errors import UnknownPartition
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.records._arrow_rows import RowsReader


class RowsToSend:
    """Arrow data that is encoded into batches while there is room."""

    def __init__(
        self, accumulator: Accumulator, topic: str | None, pieces: Iterable[Any], partition: int | None
    ) -> None:
        self._accumulator = accumulator
        self._topic = topic
        self._pieces = pieces
        self.partition = partition
        self._chunks: Any = None
        self._rows: Any = None
        self._targets: list[tuple[str, bytes | None]] = []  # topics (and choices) of these rows, the next one last
        self._plan: Any = None
        self._name = ""  # of the plan's topic
        self._row = 0
        self._generation = accumulator.transaction_generation
        self.unknown: list[str] = []
        """The topics whose metadata is needed before it can go on."""
        self.missing: UnknownPartition | None = None
        """The added partition whose metadata is needed before it can go on."""
        self.parts: list[tuple[Any, int, int]] = []

    def go_on(self) -> bool:
        """Encode until all rows are in batches (return True), a topic is unknown, or the budget is used up."""
        accumulator = self._accumulator
        if self._chunks is None:
            self._chunks = (rows for piece in self._pieces for rows in RowsReader(piece))
        while True:
            if self.unknown:
                self.unknown = [name for name in self.unknown if name not in accumulator.topics]
                if self.unknown:
                    return False
            if self._plan is not None:
                if not accumulator.append_rows(self._plan, self.parts):
                    self.unknown = [name for name in [self._name] if name not in accumulator.topics]
                    return False
                self._plan = None
            if self._targets:
                self._name, chosen = self._targets[-1]
                self.missing = None
                try:
                    self._plan = accumulator.plan_rows(
                        self._name, self._rows, self.partition, self._row, self._generation, chosen
                    )
                except UnknownPartition as error:
                    self.missing = error
                    return False
                if self._plan is None:  # the topic was forgotten, as other rows took long
                    self.unknown = [self._name]
                    return False
                self._targets.pop()
                continue
            self._row += 0 if self._rows is None else len(self._rows)
            self._rows = next(self._chunks, None)
            if self._rows is None:
                return True
            self._targets = accumulator.split_rows(self._topic, self._rows, self._row)[::-1]
            self.unknown = [name for name, _ in self._targets if name not in accumulator.topics]
