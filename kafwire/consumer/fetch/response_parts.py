"""Handling of one partition of a Fetch response: queue its records, and find the actions that all else requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.consumer.fetch._fetch import ParsedPartition, ParsedResponse, scan_headers
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.consumer.fetch.actions import Action, Fail, Finish, Halt, LeaveReplica, Lose, Move, ResetPosition, Truncate
from kafwire.consumer.fetch.context import FetchContext
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.errors import FetchDisposition
from kafwire.consumer.fetch.read_plan import ReadPlan
from kafwire.consumer.fetch.truncation import Divergence
from kafwire.errors import BrokerError, CorruptBatchError, KafkaTimeoutError, ProtocolError, broker_error
from kafwire.memory._buffer import Buffer
from kafwire.records.batches import LENGTH_AT, OVERHEAD


def queue_records(
    queue: FetchBuffer, plan: ReadPlan, where: str, frame: Buffer, part: ParsedPartition, cursor: FetchCursor
) -> bool | Halt:
    """Queue the complete batches of a cursor that the broker `where` sent; return False if there is none.

    If a batch is damaged, return the `Halt` for it: the batches before it are queued.
    """
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
        if plan.names_epochs:
            cursor.epochs.note_batches(frame, part.position, size, position, next_offset, epoch)
        queue.push(
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
    if problem is None:
        return size > 0
    # Halt: a new request from this offset may return the batch behind the bad one, a gap without an error.
    corrupt = CorruptBatchError(
        f"{cursor.name}, after offset {cursor.position}, from {where}: {problem.message}; {plan.advice.damaged}",
        topic=cursor.topic,
        partition=cursor.partition,
        base_offset=-1,
    )
    return Halt(cursor, corrupt)


def batch_bytes(frame: Buffer, part: ParsedPartition) -> int:
    """Return the size of the partition's first batch, an estimate of the others."""
    length = memoryview(frame)[part.position + LENGTH_AT : part.position + OVERHEAD]
    return OVERHEAD + int.from_bytes(length, "big")


def ends_of_empty(
    context: FetchContext, asked: Iterable[tuple[FetchCursor, ParsedPartition | None]]
) -> Iterator[Action]:
    """Return the actions after a response without records, for the cursors that its request `asked` for.

    A response of a session names only some partitions: None stands for the others. `Finish` those partitions whose log
    has no records up to their end. Records of the others may come late. A log that has lost them never delivers them,
    so `Fail` the read when a partition has failed for too long.
    """
    committed_only = context.committed_only
    for cursor, part in asked:
        # A preferred read replica has the records.
        if part is not None and part.preferred_read_replica < 0 and cursor.may_end(part, committed_only=committed_only):
            cursor.ended = True
            yield Finish(cursor)
        elif context.is_failing_for_long(cursor):
            why = cursor.why_stalled(context.patience_s, committed_only=committed_only)
            yield Fail(KafkaTimeoutError(why))


class PartActions:
    """Actions that the partitions of one response require, besides queueing records.

    Cursors move to other brokers after all partitions of the response were looked at.
    """

    def __init__(self, context: FetchContext, where: str) -> None:
        """`where` names the broker that sent the response."""
        self._context = context
        self._where = where
        self._moving: list[FetchCursor] = []
        self._returning: list[FetchCursor] = []
        self._unknown: list[FetchCursor] = []  # their preferred read replica is not in the metadata
        self._lost: dict[int, tuple[BrokerError, list[FetchCursor]]] = {}  # by error code

    def note(
        self, verdict: FetchDisposition, part: ParsedPartition, cursor: FetchCursor, response: ParsedResponse
    ) -> Action | None:
        """Return the action of the `verdict` on a cursor; None if `moves` has it."""
        cluster, where = self._context.cluster, self._where
        if verdict is FetchDisposition.FOLLOW:
            cursor.replica = part.preferred_read_replica
            cursor.replica_until_ms = cluster.engine.now_ms() + self._context.config.metadata_max_age_ms
            known = cursor.replica in cluster.metadata.brokers
            (self._moving if known else self._unknown).append(cursor)
            return None
        if verdict is FetchDisposition.RETURN:
            self._returning.append(cursor)
            return None
        if verdict is FetchDisposition.FIND_LEADER:
            self._find_leader(part, cursor, response)
            return None
        if verdict is FetchDisposition.DOUBT:
            return LeaveReplica(cursor, doubt=True)
        if verdict is FetchDisposition.TRUNCATED:
            return Truncate(cursor, Divergence(part.diverging_epoch, part.diverging_end_offset), where)
        if verdict is FetchDisposition.OUT_OF_RANGE:
            return ResetPosition(cursor, where)
        what = f"fetching {cursor.name} at offset {cursor.position} from {where}"
        return Halt(cursor, broker_error(part.error_code, what, api="Fetch", topic=cursor.topic))

    def _find_leader(self, part: ParsedPartition, cursor: FetchCursor, response: ParsedResponse) -> None:
        """Apply the response's hint of the new leader (KIP-951), or note the cursor as lost."""
        code, metadata = part.error_code, self._context.cluster.metadata
        if part.leader_id >= 0 and metadata.update_leader(
            cursor.topic, cursor.partition, part.leader_id, part.leader_epoch, response.endpoints
        ):
            self._moving.append(cursor)
            return
        error = broker_error(code, f"fetching {cursor.name} from {self._where}", api="Fetch")
        self._lost.setdefault(code, (error, []))[1].append(cursor)
        if code not in LEADER_ERRORS:
            self._context.errors.note_error(cursor.name, error, [cursor])

    def move(self, cursors: Iterable[FetchCursor]) -> None:
        """Note cursors that must move to another broker."""
        self._moving += cursors

    def moves(self) -> list[Action]:
        """Return the actions that move the noted cursors."""
        found: list[Action] = [Lose(cursors, error) for error, cursors in self._lost.values()]
        if self._moving:
            found.append(Move(self._moving))
        found += [LeaveReplica(cursor) for cursor in self._returning]
        found += [LeaveReplica(cursor, unknown=True) for cursor in self._unknown]
        return found
