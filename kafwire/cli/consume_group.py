"""The reading of `kafwire consume --group`: this member's partitions, without end or up to end offsets."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from kafwire.cli.connection import only
from kafwire.cli.consume_source import (
    SILENCE_S,
    Piece,
    Wanted,
    available_offsets,
    ends_of,
    moment,
    partitions_of,
    rows_before,
    warn_late,
)
from kafwire.cli.group_requests import committed_offsets
from kafwire.cli.output import say
from kafwire.cluster.list_offsets import may_pass
from kafwire.errors import CommitFailedError, ConfigError, KafkaError
from kafwire.types import Offset, Tail, TopicPartition

if TYPE_CHECKING:
    from kafwire import Client, Consumer

__all__ = ["GroupReading", "GroupReadingToEnds", "open_group"]

_LOOK_EVERY_S = 1.0  # between two looks at other members' commits
_LOOK_LIMIT_S = 5.0  # a coordinator that moves stops the reading for this long at most


def open_group(client: "Client", wanted: Wanted, options: Mapping[str, Any], *, ends: bool) -> "GroupReading":
    """Join the group, and read the partitions assigned to this member; with `ends`, up to the current end offsets."""
    from kafwire import Consumer

    start = _start(wanted)
    # A group without commits starts at the beginning, like a reader without a group.
    arguments: dict[str, Any] = {"auto_offset_reset": "earliest" if start is None else "error", **options}
    # A batch counts as processed when the next one is requested: it is then written and flushed.
    arguments |= {"group_id": wanted.group, "enable_auto_commit": True, "columns": wanted.columns, "start": start}
    arguments |= {"topics": list(wanted.topics)} if wanted.pattern is None else {"pattern": wanted.pattern}
    if not ends:
        return GroupReading(Consumer(**arguments))
    return GroupReadingToEnds(Consumer(**arguments), client, wanted, options)


def _start(wanted: Wanted) -> Any:
    """Return the start position for partitions without a committed offset."""
    window = wanted.window
    if window.start_ms is not None:
        return moment(window.start_ms)
    if isinstance(window.start, int):
        return Offset(window.start) if window.start >= 0 else Tail(-window.start)
    return None if window.start == "stored" else window.start


class GroupReading:
    """A group member that reads without end."""

    def __init__(self, consumer: "Consumer") -> None:
        self.total: int | None = None
        self.done = 0
        self._consumer = consumer

    def __iter__(self) -> Iterator[Piece]:
        while True:
            for batch in self._consumer.batches(SILENCE_S):
                yield batch, len(batch)
            yield None

    def commit(self, where: TopicPartition, offset: int) -> None:
        """Commit the written part of the current batch.

        If another member has the partition now, print that as a warning.
        """
        try:
            self._consumer.commit({where: offset})
        except CommitFailedError as error:
            say(f"kafwire: {error}", err=True)

    def close(self) -> None:
        """Commit the written records, and leave the group; the next owner reads the rest."""
        with suppress(KafkaError):
            for where, offset in self._consumer.processed().items():
                self._consumer.seek(where, offset)  # releases the records that were not written
        self._consumer.close()


class GroupReadingToEnds(GroupReading):
    """A group member that reads until the group reaches the end offsets at the start.

    The progress is this member's positions in its own partitions, and the committed offsets in other members'
    partitions.
    """

    def __init__(self, consumer: "Consumer", client: "Client", wanted: Wanted, options: Mapping[str, Any]) -> None:
        from kafwire import Admin
        from kafwire.config import ClientConfig

        super().__init__(consumer)
        self._client = client
        self._admin = Admin(**only(options, ClientConfig))
        self._wanted = wanted
        self._options = options
        self._ends: dict[TopicPartition, int] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._late: dict[TopicPartition, KafkaError] = {}  # partitions with unknown end offsets
        self.total = 0
        try:
            found = partitions_of(client, wanted, sorted(self._consumer.subscription))
            ends = ends_of(client, wanted, options, found, self._late)
            self._add(ends, available_offsets(client, ends, "earliest", self._late))
            warn_late("consume", self._late)
            self._look_at_commits()
        except BaseException:
            self.close()
            raise
        self._looked = monotonic()

    def close(self) -> None:
        """Leave the group, as `GroupReading.close` does, and close all connections."""
        try:
            super().close()
        finally:
            self._admin.close()

    def _add(self, ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> None:
        for tp, position in positions.items():
            self._ends[tp], self._positions[tp] = ends[tp], position
            self.total = (self.total or 0) + max(0, ends[tp] - position)

    def _find_late(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for the leaders of these partitions; an error names the partitions that are still unavailable."""
        ends = ends_of(self._client, self._wanted, self._options, partitions)
        self._add(ends, self._client.offsets(ends, "earliest"))
        for tp in partitions:
            del self._late[tp]

    def __iter__(self) -> Iterator[Piece]:
        while True:
            yield from self._read_to_ends()
            if not self._late:
                return
            self._find_late(list(self._late))
            self._look_at_commits()

    def _read_to_ends(self) -> Iterator[Piece]:
        while self._left():
            for batch in self._consumer.batches(SILENCE_S):
                tp = TopicPartition(batch.topic or "", -1 if batch.partition is None else batch.partition)
                if tp in self._late:
                    self._find_late([tp])
                end = self._ends.get(tp, 0)  # a partition that was created later was empty
                self._reach(tp, batch.next_offset)
                yield batch, rows_before(batch, end)
                if batch.next_offset >= end:
                    self._leave_out(tp, max(end, batch.base_offset))
                if not self._left():
                    return
            yield None
            self._look()

    def _leave_out(self, tp: TopicPartition, offset: int) -> None:
        """Stop reading a partition. Records from `offset` on are not written, so they do not count as processed."""
        with suppress(ConfigError):  # the partition was revoked just now
            self._consumer.seek(tp, offset)
            self._consumer.pause(tp)

    def _left(self) -> bool:
        return any(self._positions[tp] < end for tp, end in self._ends.items())

    def _look(self) -> None:
        """Update the progress: a partition's tail may be invisible, and other members read their partitions."""
        for tp in self._consumer.assignment & self._ends.keys():
            with suppress(ConfigError):
                self._reach(tp, self._consumer.position(tp))
        if self._left() and monotonic() >= self._looked + _LOOK_EVERY_S:
            self._looked = monotonic()
            self._look_at_commits()

    def _look_at_commits(self) -> None:
        # Does not wait for open transactions as `Consumer.committed` does: that would hold this member's partitions.
        try:
            found = committed_offsets(self._admin, self._wanted.group or "", _LOOK_LIMIT_S)
        except KafkaError as error:
            if not may_pass(error):
                raise
            return  # the coordinator moves: the next look succeeds
        for tp, offset in found.items():
            self._reach(tp, offset)

    def _reach(self, tp: TopicPartition, offset: int) -> None:
        if tp in self._ends:
            offset = min(offset, self._ends[tp])
            self.done += max(0, offset - self._positions[tp])
            self._positions[tp] = max(offset, self._positions[tp])
