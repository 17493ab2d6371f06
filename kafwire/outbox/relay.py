"""One relay: the steps from rows committed in a database to records committed in Kafka.

Each batch of rows goes through the same steps, and after a crash at any of them the next relay continues exactly there:

    choose       read committed rows that were not relayed, lowest ids first
    send         their records, and the progress (the rows' ids) to the state topic, in one Kafka transaction
    commit       that transaction
    remove       the rows, in a transaction of the database

Before the commit nothing is visible: the next relay fences the producer, which aborts its open transaction, and chooses
the rows again. After it the next relay reads in the state topic which rows have been relayed, and removes them before
it chooses. At most one batch is ever in this state, as no batch begins before the last one is removed.

A row that Kafka refuses goes through the same steps, alone, after all rows before it. Its Kafka transaction has the
progress, and the row's dead letter if there is a topic for it. If there is a table for it, the progress names that
table, and the last step moves the row there instead of removing it; so does the next relay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    TransactionError,
    TransactionFatalError,
    TransactionTimeoutError,
)
from kafwire.outbox.dead_letters import DeadLetters, letter_of, reason_of
from kafwire.outbox.outbox_table import OutboxTable
from kafwire.outbox.progress import Letter, Progress
from kafwire.outbox.refusals import GIVEN_UP, is_of_record, is_passing
from kafwire.outbox.rows import OutboxRow
from kafwire.outbox.suspects import Refusal, Suspects
from kafwire.runtime.log import outbox_log as log
from kafwire.state_topic import PARTITION, last_value

if TYPE_CHECKING:
    from kafwire.producer.buffer._batch import Delivery
    from kafwire.sync.client import Client
    from kafwire.sync.producer import Producer

# An interrupted caller wants to exit, not to wait for an unreachable coordinator.
INTERRUPTED_S = 5.0


class Step(StrEnum):
    """A completed step of a relay, reported to `Outbox(on_step=...)`. The members are in the order of the steps.

    Example:
        >>> from kafwire.outbox import Step
        >>> list(Step).index(Step.SENT) < list(Step).index(Step.COMMITTED)
        True
    """

    TAKEN_OVER = "taken_over"  # the transactional id is this relay's: older relays are fenced
    PROGRESS_READ = "progress_read"  # from the state topic
    LEFTOVERS_REMOVED = "leftovers_removed"  # rows that an older relay relayed, in an open database transaction
    LEFTOVERS_GONE = "leftovers_gone"  # that transaction is committed
    CHOSEN = "chosen"  # rows are read
    BEGUN = "begun"  # a Kafka transaction
    SENT = "sent"  # the producer has the records
    RECORDED = "recorded"  # and the progress
    ACKNOWLEDGED = "acknowledged"  # the brokers have acknowledged everything
    COMMITTED = "committed"  # the Kafka transaction
    REMOVED = "removed"  # the rows, in an open database transaction
    DONE = "done"  # that transaction is committed


@dataclass(slots=True)
class _Transaction:
    """A Kafka transaction of the relay: its contents, and the outcome of each record."""

    progress: Progress
    rows: list[OutboxRow]  # the rows whose records are in it
    is_letter: bool = False
    deliveries: list[Delivery] = field(default_factory=list)  # of the rows sent so far
    sending: OutboxRow | None = None  # the row being sent

    def refused(self) -> list[tuple[OutboxRow, KafkaError]]:
        """List the rows whose batches a broker refused, each with the error of its own record."""
        found = []
        for row, delivery in zip(self.rows, self.deliveries, strict=False):
            error = delivery.exception() if delivery.done() else None
            # The other records of the transaction fail with its error.
            if error is not None and not isinstance(error, TransactionError):
                found.append((row, error))
        return found


class _RefusedError(Exception):
    """Rows were refused, and their transaction is aborted: the relay makes a smaller one."""


class Relay:
    """The steps of a relay, and its state between them.

    Args:
        table: the outbox's table.
        producer: one with `transactional_id`.
        client: reads the state topic.
        transactional_id: the producer's.
        state_topic: the topic of the progress.
        topics: maps the column `topic` to topics; None: the column has the topic.
        limit: how many rows a transaction has at most.
        on_step: called with each step.
        dead_letters: the destination of refused rows.
    """

    def __init__(
        self,
        table: OutboxTable,
        producer: Producer,
        client: Client,
        *,
        transactional_id: str,
        state_topic: str,
        topics: Mapping[str, str] | None,
        limit: int,
        on_step: Callable[[Step], object],
        dead_letters: DeadLetters,
    ) -> None:
        self._table = table
        self._producer = producer
        self._client = client
        self._transactional_id = transactional_id
        self._state_topic = state_topic
        self._topics = topics
        self._limit = limit
        self._step = on_step
        self._letters = dead_letters
        self._suspects = Suspects()
        self._taken_over = False
        self._aborting = False  # an abort got no response in time
        self._sent: _Transaction | None = None  # open, or its commit got no response
        self._relayed: Progress | None = None  # committed in Kafka; its rows may still exist
        self._number = 0
        self.batch_rows = limit  # most rows of the next transaction: half of the last one's if that was aborted
        self.has_more = False  # probably: the last transaction was full
        self.rows = 0
        self.transactions = 0
        self.leftovers = 0
        self.aborted = 0
        self.dead_letters = 0

    def relay(self) -> int:
        """Relay one batch; return the number of rows. May be called again after an error that passes or says so.

        If Kafka refuses a row, the batch is the rows before it. If the row is the first one, it becomes a dead letter,
        or its error is raised. The table's connection must be open.
        """
        while True:
            try:
                return self._relay()
            except _RefusedError:
                continue

    def _relay(self) -> int:
        if self._aborting:
            self._end_abort(None)
        if not self._taken_over:
            self._take_over()
        if self._sent is not None:
            self._commit(self._sent)
        if self._relayed is not None:
            self._remove_leftovers(self._relayed)
        chosen = self._table.choose(self.batch_rows)
        self.has_more = len(chosen) == self.batch_rows
        if not chosen:
            return 0
        self._step(Step.CHOSEN)
        rows, refusal = self._suspects.next_part(chosen)
        self.has_more = self.has_more or len(rows) < len(chosen)
        if refusal is None:
            self._finish(_Transaction(self._progress(rows), rows))
        else:
            self._set_aside(rows[0], refusal)
        return len(rows)

    def _progress(self, rows: Iterable[OutboxRow], letter: Letter | None = None) -> Progress:
        return Progress(self._number + 1, {row.id: row.check for row in rows}, letter)

    def _finish(self, made: _Transaction) -> None:
        """Do the steps from a transaction to removed rows."""
        self._send(made)
        self._commit(made)
        self._remove(made.progress, made.progress.rows)
        self._step(Step.REMOVED)
        self._table.commit()
        self._relayed = None
        self.batch_rows = min(2 * self.batch_rows, self._limit)
        self._step(Step.DONE)

    def _remove(self, progress: Progress, ids: Iterable[int]) -> None:
        """Remove rows of a committed transaction, in an open database transaction."""
        if progress.letter is None:
            self._table.remove(ids)
        else:
            self._table.set_aside(ids, progress.letter)

    def _set_aside(self, row: OutboxRow, refusal: Refusal) -> None:
        """Make a refused row, the first remaining row, a dead letter. Raise its error if there is no destination."""
        self._suspects.forget()
        topic = (self._topics or {}).get(row.topic, row.topic)
        table, letters = self._letters
        if (table is None and letters is None) or not is_of_record(refusal.cause):
            note = f"this was row {row.id} of the outbox, for topic {topic!r}"
            if note not in getattr(refusal.error, "__notes__", ()):
                refusal.error.add_note(note)
            raise refusal.error
        where = f"table {table}" if table is not None else f"topic {letters!r}"
        log.warning(
            "outbox %s: row %d, for topic %r, goes to %s: %s",
            self._table.name,
            row.id,
            topic,
            where,
            refusal.cause,
            topic=topic,
            error=refusal.cause,
        )
        try:
            if table is not None:
                progress = self._progress([row], Letter(table, reason_of(refusal.cause)))
                self._finish(_Transaction(progress, [], is_letter=True))
            else:
                letter = letter_of(row._replace(topic=topic), refusal.cause)
                self._finish(_Transaction(self._progress([row]), [letter], is_letter=True))
        except KafkaError as error:
            error.add_note(f"row {row.id} of the outbox was refused, and is meant for {where}: {refusal.cause}")
            raise

    def _take_over(self) -> None:
        """Fence older relays first: only then is their committed progress final."""
        self._producer.init_transactions()
        self._step(Step.TAKEN_OVER)
        value = last_value(self._client, self._state_topic, self._transactional_id)
        self._relayed = None if value is None else Progress.decode(value)
        self._number = 0 if self._relayed is None else self._relayed.number
        self._taken_over = True
        self._step(Step.PROGRESS_READ)

    def _remove_leftovers(self, progress: Progress) -> None:
        """Remove relayed rows that still exist: an older relay died, or a connection broke."""
        same, others = self._table.leftovers(progress)
        if others:
            log.warning(
                "outbox %s: rows %s changed since rows with the same ids were relayed: relaying them "
                "as new; the table was recreated or restored, or rows were changed",
                self._table.name,
                others,
            )
        if same:
            self._remove(progress, same)
            self._step(Step.LEFTOVERS_REMOVED)
            self._table.commit()
            self.leftovers += len(same)
            self._step(Step.LEFTOVERS_GONE)
        self._relayed = None

    def _send(self, made: _Transaction) -> None:
        self._producer.begin_transaction()
        try:
            self._step(Step.BEGUN)
            for row in made.rows:
                made.sending = row
                made.deliveries.append(self._send_row(row, is_letter=made.is_letter))
            made.sending = None
            self._step(Step.SENT)
            self._producer.send(
                self._state_topic, made.progress.encode(), key=self._transactional_id.encode(), partition=PARTITION
            )
            self._step(Step.RECORDED)
            self._producer.flush()
            self._step(Step.ACKNOWLEDGED)
        except BaseException as error:
            self._give_up(made, error)
            raise
        self._sent = made

    def _send_row(self, row: OutboxRow, *, is_letter: bool) -> Delivery:
        topic = self._letters.topic if is_letter else row.topic if self._topics is None else self._topics.get(row.topic)
        if topic is None:
            raise ConfigError(f"row {row.id} of the outbox is for {row.topic!r}, but topics= has no topic for it")
        return self._producer.send(topic, row.value, key=row.key, headers=row.headers)

    def _commit(self, made: _Transaction) -> None:
        """Commit the Kafka transaction; after a time-out, the next call commits it again."""
        try:
            self._producer.commit_transaction()
        except TransactionTimeoutError:
            raise
        except KafkaError as error:
            self._sent = None
            if getattr(error, "abortable", False):
                self._give_up(made, error)
            raise
        self._sent = None
        self._relayed = made.progress
        self._number = made.progress.number
        if made.is_letter:
            self.dead_letters += 1
        else:
            self.rows += len(made.rows)
        self.transactions += 1
        self._step(Step.COMMITTED)

    def _give_up(self, made: _Transaction, error: BaseException) -> None:
        """Abort a transaction after `error`, and let that propagate; if it refuses rows, raise `_RefusedError`."""
        is_refusal = self._learn_refused(made, error)
        self._abort(error, is_refusal=is_refusal)
        if is_refusal:
            raise _RefusedError from error

    def _learn_refused(self, made: _Transaction, error: BaseException) -> bool:
        """Remember the rows that an error refuses, before the transaction is aborted; True if there are any."""
        if made.is_letter or not isinstance(error, KafkaError) or is_passing(error):
            return False
        if not isinstance(error, TransactionError):
            if made.sending is None:
                return False
            self._suspects.blame(made.sending, Refusal(error, error))
            return True
        refused = made.refused()
        if len(made.rows) == 1 and refused:
            self._suspects.blame(made.rows[0], Refusal(error, refused[0][1]))
        else:
            self._suspects.suspect(row for row, _ in refused)
        return bool(refused)

    def _abort(self, error: BaseException, *, is_refusal: bool) -> None:
        """Abort because of `error`.

        Unless that refuses a row, the next transaction is smaller: this one may have been too slow.
        """
        self.aborted += 1
        if not is_refusal:
            self.batch_rows = max(1, self.batch_rows // 2)
        self._aborting = True
        if isinstance(error.__cause__, BrokerError) and error.__cause__.code in GIVEN_UP:
            # The producer gets another id or epoch. If its id was forgotten, other relays may have run and been
            # forgotten too: their progress is read again.
            self._taken_over = False
        try:
            self._end_abort(None if isinstance(error, Exception) else INTERRUPTED_S)
        except TransactionFatalError as fatal:  # a fenced producer often learns of it from the abort
            raise fatal from error
        except KafkaError as problem:
            error.add_note(f"The transaction could not be aborted: {problem}")

    def _end_abort(self, timeout: float | None) -> None:
        try:
            self._producer.abort_transaction(timeout)
        except TransactionTimeoutError:
            raise
        except KafkaError:
            self._aborting = False
            raise
        self._aborting = False
