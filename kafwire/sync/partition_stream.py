"""`PartitionStream`: the stream of one partition's batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafwire.calls.consumer import StreamCalls
from kafwire.consumer.core import ConsumerCore
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.delivery.partition_claim import Claim, StreamEnded
from kafwire.consumer.offsets.hand import Hand
from kafwire.handles import Closing
from kafwire.runtime.interfaces import Engine

if TYPE_CHECKING:
    from kafwire.records import Batch, Record


class PartitionStream(StreamCalls, Closing):
    """The batches of one partition, for one thread: an iterator, and a context manager.

    It ends when the partition is revoked from this member of a group, or lost, or when the consumer is stopped or
    closed. A revocation waits, at most `revocation_timeout_ms`, until the batch in hand is processed, or, with
    `explicit`, all delivered records; and with `enable_auto_commit=False` until the stream is closed or dropped, so
    that a commit after its end is still possible.

    A batch counts as processed when the next one is read, or when it is committed. `topic` and `partition` name the
    partition. `partition_stream` or `partitions` of `Consumer` makes it.

    Example:
        >>> stream = consumer.partition_stream(partition, timeout=1.0)
        >>> for batch in stream:
        ...     print(stream.partition, [record.value for record in batch])
        0 [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
    """

    _reader: FetchReader | None = None

    def __init__(
        self,
        core: ConsumerCore,
        engine: Engine,
        claim: Claim,
        timeout_ms: int,
        keeps: object,
        *,
        explicit: bool,
        stays: bool,
    ) -> None:
        """`keeps` is kept alive: a consumer must not be garbage-collected while its stream is read.

        With `stays`, the stream keeps the partition after its end until it is closed, for manual commits.
        """
        super().__init__(core, engine, claim, core.commits.ledger.join(Hand(core.fetcher)), explicit=explicit)
        self._keeps = keeps
        self._timeout_ms = timeout_ms
        self._stays = stays

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Read the next batch, and count the one before it as processed unless the stream is `explicit`."""
        if self._closed or self._has_ended:
            raise StopIteration
        membership = self._core.membership
        if membership is not None:
            membership.reads(self, begun=True)
        try:
            batch = self._next()
        except BaseException:
            self.close()
            raise
        finally:
            if membership is not None:
                membership.reads(self, begun=False)
        if batch is None:
            self._has_ended = True
            if not self._stays:
                self.close()
            raise StopIteration
        return batch

    def _next(self) -> Batch | None:
        self._claim.is_read = True
        if self._claim.is_over:
            return None
        if self._reader is None:
            self._begin()
        progress = self._progress
        if progress is not None and progress.uncommitted >= self._core.config.max_uncommitted:
            self._engine.run(self._core.room, self._claim, progress)
        assert self._reader is not None
        self._hand.ask()
        self._hand.read_by(self._hand.caller())
        self._reader.settle()
        self._core.settled()
        position = self._core.position(self._claim)
        try:
            batch = self._reader.read(self._timeout_ms)
            while batch is None and self._paused and not self._claim.is_ending:  # no records because of the pause
                batch = self._reader.read(self._timeout_ms)
        except StreamEnded:
            return None
        if batch is not None and progress is not None:
            progress.hand_out(position, batch)
        elif batch is not None:
            self._hand.give(batch)
        return batch

    def _begin(self) -> None:
        reader = self._core.reader(self._claim)
        if self._explicit:
            reader.need_offsets()
            self._progress = self._engine.run(self._core.follow_progress, self._claim)
        self._engine.run(self._core.assignment.ask, self._claim)
        self._reader = reader

    def commit(self, what: Batch | Record | None = None) -> None:
        """Commit the partition's processed offset.

        Args:
            what: a batch or a record: commit its end. None: commit the processed offset; in the thread that reads the
                stream, the batch in hand counts too, unless the stream is `explicit`.

        Raises:
            CommitFailedError: this consumer does not own the partition any more.
            ConfigError: the consumer has no `group_id`.
            BrokerError: the coordinator refuses the commit.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.
        """
        self._engine.run(self._core.commit_claimed, self._claim, what, self._covered(what))

    def close(self) -> None:
        """Close the stream: other readers may read the partition."""
        if not self._closed:
            self._core.commits.ledger.part(self._hand)
        self._closed = True
        self._claim.close()
