"""Handling of one partition of a Fetch response: queue its records, and carry out all else that it reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.consumer.fetch._fetch import FetchAnswer, PartitionAnswer, scan_headers
from kafwire.consumer.fetch.cursor import FetchCursor, FetchDisposition
from kafwire.consumer.fetch.truncation import Divergence
from kafwire.errors import BrokerError, CorruptBatchError, ProtocolError, broker_error
from kafwire.memory._buffer import Buffer
from kafwire.records.batches import LENGTH_AT, OVERHEAD

if TYPE_CHECKING:
    from kafwire.consumer.fetch.engine import Fetcher


def queue_records(fetcher: Fetcher, where: str, frame: Buffer, part: PartitionAnswer, cursor: FetchCursor) -> bool:
    """Queue the complete batches of a cursor that the broker `where` sent; return False if there is none."""
    position, size = cursor.position, part.size
    problem: ProtocolError | None = None
    while True:
        try:
            next_offset, size, _, epoch = scan_headers(frame, part.position, size, position, part.high_watermark)
            if size and next_offset <= position:
                raise ProtocolError("batches that end before the requested offset")
            break
        except ProtocolError as error:
            problem = error
            # Batches before a bad one are good.
            size = error.offset - part.position if error.offset is not None else 0
    if size:
        generation = cursor.generation
        cursor.advance(next_offset, epoch)
        cursor.fetches += 1
        cursor.bytes += size
        cursor.batch_bytes = batch_bytes(frame, part)
        if fetcher.plan.names_epochs:
            cursor.epochs.note_batches(frame, part.position, size, position, next_offset, epoch)
        fetcher.queue.push(
            frame,
            part.position,
            size,
            cursor.number,
            position,
            cursor.end,
            part.aborted,
            generation,
            where,
        )
    if problem is not None:
        # Halt: a new request from this offset may return the batch behind the bad one, a gap without an error.
        told = CorruptBatchError(
            f"{cursor.name}, after offset {cursor.position}, from {where}: {problem.message}; "
            f"{fetcher.plan.advice.damaged}",
            topic=cursor.topic,
            partition=cursor.partition,
            base_offset=-1,
        )
        fetcher.halt(cursor, told)
    return size > 0 or problem is not None


def batch_bytes(frame: Buffer, part: PartitionAnswer) -> int:
    """Return the size of the partition's first batch, an estimate of the others."""
    length = memoryview(frame)[part.position + LENGTH_AT : part.position + OVERHEAD]
    return OVERHEAD + int.from_bytes(length, "big")


class PartActions:
    """Actions that the partitions of one response require, besides queueing records.

    Cursors move to other brokers after all partitions of the response were looked at.
    """

    def __init__(self, fetcher: Fetcher, connection: BrokerConnection) -> None:
        """`connection` is the connection that brought the response."""
        self._fetcher = fetcher
        self._connection = connection
        self._moving: list[FetchCursor] = []
        self._returning: list[FetchCursor] = []
        self._unknown: list[FetchCursor] = []  # their preferred read replica is not in the metadata
        self._lost: dict[int, tuple[BrokerError, list[FetchCursor]]] = {}  # by error code

    def note(self, verdict: FetchDisposition, part: PartitionAnswer, cursor: FetchCursor, answer: FetchAnswer) -> None:
        """Carry out the `verdict` on a cursor now, or note it for `carry_out`."""
        fetcher = self._fetcher
        if verdict is FetchDisposition.FOLLOW:
            cursor.replica = part.preferred_read_replica
            cursor.replica_until_ms = fetcher.cluster.engine.now_ms() + fetcher.config.metadata_max_age_ms
            known = cursor.replica in fetcher.cluster.metadata.brokers
            (self._moving if known else self._unknown).append(cursor)
        elif verdict is FetchDisposition.RETURN:
            self._returning.append(cursor)
        elif verdict is FetchDisposition.DOUBT:
            fetcher.validation.leave_replica(cursor, doubt=True)
        elif verdict is FetchDisposition.FIND_LEADER:
            if fetcher.brokers.new_leader(part, cursor, answer):
                self._moving.append(cursor)
                return
            error = broker_error(part.error_code, f"fetching {cursor.name} from {self._connection.where}", api="Fetch")
            self._lost.setdefault(part.error_code, (error, []))[1].append(cursor)
            if part.error_code not in LEADER_ERRORS:
                fetcher.errors.note_error(cursor.name, error, [cursor])
        elif verdict is FetchDisposition.TRUNCATED:
            divergence = Divergence(part.diverging_epoch, part.diverging_end_offset)
            fetcher.validation.truncated(cursor, divergence, self._connection.where)
        elif verdict is FetchDisposition.OUT_OF_RANGE:
            fetcher.offset_reset.out_of_range(cursor, self._connection.where)
        else:
            what = f"fetching {cursor.name} at offset {cursor.position} from {self._connection.where}"
            fetcher.halt(cursor, broker_error(part.error_code, what, api="Fetch", topic=cursor.topic))

    def move(self, cursors: Iterable[FetchCursor]) -> None:
        """Note cursors that must move to another broker."""
        self._moving += cursors

    def carry_out(self) -> None:
        """Carry out the noted moves."""
        for error, cursors in self._lost.values():
            self._fetcher.brokers.lose(cursors, error)
        if self._moving:
            self._fetcher.brokers.move(self._moving)
        for cursor in self._returning:
            self._fetcher.validation.leave_replica(cursor)
        for cursor in self._unknown:
            self._fetcher.validation.leave_replica(cursor, unknown=True)
