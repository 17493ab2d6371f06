"""The report of a judgement: findings, and counts of everything that was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafwire.types import TopicPartition

# The kinds of findings. A producer can promise to avoid the first three.
LOST, DUPLICATED, MISORDERED = PROMISES = ("lost", "duplicated", "misordered")
TORN, PHANTOM, DISAGREEMENT, ALTERED = "torn", "phantom", "disagreement", "altered"
# The promises of readers.
SKIPPED, REPEATED, DIRTY = "skipped", "repeated", "dirty"
KINDS = (*PROMISES, TORN, PHANTOM, DISAGREEMENT, ALTERED, SKIPPED, REPEATED, DIRTY)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault that the checker found.

    Args:
        kind: one of `KINDS`.
        what: the description.
        partition: the partition, or None.
        offset: the offset, or None.
        amount: the number of its records; 1 for a torn transaction.
        operations: the operations of the records and transactions involved, in the order of the files, with times in
            seconds since the start of the history.

    Example:
        >>> from kafwire.testing.history import Finding
        >>> print(Finding("lost", "acknowledged, and not in the log", kafwire.TopicPartition("flights", 0), 7, 1, ()))
        lost flights-0@7: acknowledged, and not in the log
    """

    kind: str
    what: str
    partition: TopicPartition | None
    offset: int | None
    amount: int
    operations: tuple[str, ...]

    @property
    def where(self) -> str:
        """The place as topic-partition@offset, as far as it is known."""
        return place_of(self.partition, self.offset)

    def __str__(self) -> str:
        head = " ".join(filter(None, (self.kind, self.where)))
        return "\n".join((f"{head}: {self.what}", *(f"    {each}" for each in self.operations)))


@dataclass(frozen=True, slots=True)
class Report:
    """The judgement of a history.

    Args:
        found: the number of findings of each kind.
        tolerated: the number of faults that the producers never promised to avoid.
        counts: the amounts that were judged. Records: "invoked", "acked", "failed", "unknown" (without an outcome;
            "unknown_there" of them are in the log), "unread" (acknowledged where no observer looked, so not judged: it
            should be 0). Transactions: "committed", "aborted", "undecided" (unknown or without an end;
            "undecided_there" of them are seen), "unjudged" (with records where no read_committed observer looked: it
            should be 0 too). Then "views" with an end, "read" (records in the log), "offsets" of groups, and
            "concealed" (records that brokers showed wrongly, see `check`).
        findings: the first findings of each kind.

    Example:
        >>> from kafwire.testing.history import Report
        >>> Report({"lost": 0}, {}, {"invoked": 2}, ()).ok
        True
    """

    found: Mapping[str, int]
    tolerated: Mapping[str, int]
    counts: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if the checker found no fault."""
        return not any(self.found.values())

    def __str__(self) -> str:
        lines = [" ".join(f"{name}={number}" for name, number in self.counts.items())]
        lines.append(" ".join(f"{kind}={number}" for kind, number in self.found.items()))
        if any(self.tolerated.values()):
            lines.append("not promised: " + " ".join(f"{kind}={number}" for kind, number in self.tolerated.items()))
        return "\n".join((*lines, *map(str, self.findings)))


def place_of(partition: TopicPartition | None, offset: int | None) -> str:
    """Return the text topic-partition@offset."""
    if partition is None:
        return ""
    where = f"{partition.topic}-{partition.partition}"
    return where if offset is None else f"{where}@{offset}"
