"""The outcomes of the records that a command sent: how many were delivered, and the first errors."""

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafwire import KafkaError
    from kafwire.producer.buffer._batch import ProducerBatch

__all__ = ["DeliveryTracker"]

_MOST_ERRORS = 10


class Failure(NamedTuple):
    """Records with the same error: the first one's number, and how many there are."""

    number: int
    records: int
    error: "KafkaError"


class DeliveryTracker:
    """Unfinished batches, and the numbers of their records.

    Keeps 16 bytes for each run of consecutive records, not a handle for each record.
    """

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self._runs: dict[ProducerBatch, array[int]] = {}  # first number, count, first number, ...
        self._failures: list[Failure] = []

    def note(self, batch: "ProducerBatch", number: int, count: int = 1) -> None:
        """Note that the records with these numbers are in this batch."""
        runs = self._runs.get(batch)
        if runs is None:
            self._runs[batch] = array("Q", (number, count))
        elif runs[-2] + runs[-1] == number:
            runs[-1] += count
        else:
            runs.append(number)
            runs.append(count)

    def refuse(self, number: int, error: "KafkaError", count: int = 1) -> None:
        """Note records that could not be sent."""
        self.failed += count
        if len(self._failures) < _MOST_ERRORS:
            self._failures.append(Failure(number, count, error))

    def lose(self, count: int) -> None:
        """Count records that were not sent, whose reason is reported elsewhere."""
        self.failed += count

    def settle(self) -> None:
        """Collect the outcomes of completed batches."""
        for batch in [batch for batch in self._runs if batch.done]:
            runs = self._runs.pop(batch)
            done = 0
            for count, error in batch.outcomes():
                if error is None:
                    self.delivered += count
                else:
                    self.refuse(_number(runs, done), error, count)
                done += count

    def take_back(self) -> None:
        """Count no record as delivered: their transaction is aborted, or its outcome is unknown."""
        self.settle()
        self.failed += self.delivered
        self.delivered = 0

    @property
    def open(self) -> int:
        """The number of records without an outcome."""
        return sum(sum(runs[1::2]) for runs in self._runs.values())

    def tell(self, where: Callable[[int], str]) -> list[str]:
        """Return the first errors, each with the source of its first record."""
        lines = []
        for number, count, error in sorted(self._failures, key=lambda failure: failure.number):
            more = f" and {count - 1} more" if count > 1 else ""
            lines.append(f"{where(number)}{more}: {error}")
        return lines


def _number(runs: "array[int]", index: int) -> int:
    """Return the number of the record at `index` among these runs."""
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        if index < count:
            return first + index
        index -= count
    raise IndexError
