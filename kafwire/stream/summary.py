"""`StreamSummary`: the counts of a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """The same counts while the stream runs."""

    records: int = 0
    retries: int = 0
    delayed: int = 0
    dead_letters: int = 0
    skipped: int = 0
    commits: int = 0
    aborts: int = 0


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """The counts of a stream from its start to its end.

    Args:
        records: how many records were read, those of aborted transactions more than once.
        retries: how often a step was called again in place.
        delayed: how many records were written to retry topics.
        dead_letters: how many records were written to the dead letter topic.
        skipped: how many records were left out because of an error.
        commits: how many commits, or transactions, there were.
        aborts: how many transactions were aborted.

    Example:
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books", b"a lamp"]})
        >>> kafwire.stream.Pipeline().for_each(lambda order: None).run(source).records
        2
    """

    __module__ = "kafwire.stream"
    records: int
    retries: int
    delayed: int
    dead_letters: int
    skipped: int
    commits: int
    aborts: int
