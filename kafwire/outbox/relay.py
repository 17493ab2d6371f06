"""One relay: the steps from rows that are committed in a database to records that are committed in Kafka.

Each batch of rows goes through the same steps, and after a crash at any of them the next relay goes on exactly:

    choose       read committed rows that were not relayed, lowest ids first
    send         their records, and the progress (the rows' ids) to the state topic, in one Kafka transaction
    commit       that transaction
    remove       the rows, in a transaction of the database

Before the commit nothing has happened: the next relay fences the producer, which aborts what it left open, and chooses
the rows again. After it the next relay reads in the state topic which rows have been relayed, and removes them before
it chooses. At most one batch is ever in this state, as no batch begins before the last one is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, ConfigError, KafkaError, TransactionFatalError, TransactionTimeoutError
from kafwire.outbox.outbox_table import OutboxTable
from kafwire.outbox.progress import Progress
from kafwire.outbox.rows import OutboxRow
from kafwire.outbox.state_topic import PARTITION, last_progress

if TYPE_CHECKING:
    from kafwire.sync.client import Client
    from kafwire.sync.producer import Producer

log = logging.getLogger("kafwire")

# Whoever is interrupted wants to end, and not to wait for a coordinator that cannot be reached.
INTERRUPTED_S = 5.0
# The coordinator did something without the relay: it has forgotten a transactional id that was not used for
# `transactional.id.expiration.ms`, or aborted a transaction that took longer than `transaction_timeout_ms`. Another
# relay may be behind that too: then aborting tells so.
GIVEN_UP = (
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Step(StrEnum):
    """What a relay has just done, as `Outbox(on_step=...)` is told. The order is the one in which they come.

    Example:
        >>> from kafwire.outbox import Step
        >>> list(Step).index(Step.SENT) < list(Step).index(Step.COMMITTED)
        True
    """

    TAKEN_OVER = "taken_over"  # the transactional id is this relay's: older relays are fenced
    PROGRESS_READ = "progress_read"  # from the state topic
    LEFTOVERS_REMOVED = "leftovers_removed"  # rows that an older relay has relayed, in an open database transaction
    LEFTOVERS_GONE = "leftovers_gone"  # that transaction is committed
    CHOSEN = "chosen"  # rows are read
    BEGUN = "begun"  # a Kafka transaction
    SENT = "sent"  # the records are given to the producer
    RECORDED = "recorded"  # the progress, too
    ACKNOWLEDGED = "acknowledged"  # the brokers have all of it
    COMMITTED = "committed"  # the Kafka transaction
    REMOVED = "removed"  # the rows, in an open database transaction
    DONE = "done"  # that transaction is committed


class Relay:
    """The steps of a relay, and what it knows between them.

    Args:
        table: the outbox's table.
        producer: one with `transactional_id`.
        client: reads the state topic.
        transactional_id: the producer's.
        state_topic: where progress is written.
        topics: topics by what stands in the column `topic`; None: it is the topic.
        limit: how many rows a transaction has at most.
        on_step: told of each step.
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
    ) -> None:
        self._table = table
        self._producer = producer
        self._client = client
        self._transactional_id = transactional_id
        self._state_topic = state_topic
        self._topics = topics
        self._limit = limit
        self._step = on_step
        self._taken_over = False
        self._aborting = False  # an abort was not answered in time
        self._sent: Progress | None = None  # in a Kafka transaction that is open, or whose commit was not answered
        self._relayed: Progress | None = None  # committed in Kafka; its rows may be there still
        self._number = 0
        self.batch_rows = limit  # for rows in the next transaction: half of the last one's where that was aborted
        self.has_more = False  # rows, perhaps: the last transaction was full
        self.rows = 0
        self.transactions = 0
        self.leftovers = 0
        self.aborted = 0

    def relay(self) -> int:
        """Relay one batch: how many rows. After an error it may be called again, where the error says so or is passing.

        The table's connection is open.
        """
        if self._aborting:
            self._end_abort(None)
        if not self._taken_over:
            self._take_over()
        if self._sent is not None:
            self._commit(self._sent)
        if self._relayed is not None:
            self._remove_leftovers(self._relayed)
        rows = self._table.choose(self.batch_rows)
        self.has_more = len(rows) == self.batch_rows
        if not rows:
            return 0
        self._step(Step.CHOSEN)
        progress = Progress(self._number + 1, {row.id: row.check for row in rows})
        self._send(rows, progress)
        self._commit(progress)
        self._table.remove(progress.rows)
        self._step(Step.REMOVED)
        self._table.commit()
        self._relayed = None
        self.batch_rows = min(2 * self.batch_rows, self._limit)
        self._step(Step.DONE)
        return len(rows)

    def _take_over(self) -> None:
        """Fence older relays first: only then is what they have committed all that they ever will."""
        self._producer.init_transactions()
        self._step(Step.TAKEN_OVER)
        self._relayed = last_progress(self._client, self._state_topic, self._transactional_id)
        self._number = 0 if self._relayed is None else self._relayed.number
        self._taken_over = True
        self._step(Step.PROGRESS_READ)

    def _remove_leftovers(self, progress: Progress) -> None:
        """Remove rows that are relayed, as far as they are there: an older relay died, or a connection broke."""
        same, others = self._table.leftovers(progress)
        if others:
            log.warning(
                "outbox %s: rows %s have other contents than those of the same ids that were relayed: they are taken "
                "for new ones; the table was made anew or restored, or rows were changed",
                self._table.name,
                others,
            )
        if same:
            self._table.remove(same)
            self._step(Step.LEFTOVERS_REMOVED)
            self._table.commit()
            self.leftovers += len(same)
            self._step(Step.LEFTOVERS_GONE)
        self._relayed = None

    def _send(self, rows: list[OutboxRow], progress: Progress) -> None:
        self._producer.begin_transaction()
        try:
            self._step(Step.BEGUN)
            for row in rows:
                self._send_row(row)
            self._step(Step.SENT)
            self._producer.send(
                self._state_topic, progress.encode(), key=self._transactional_id.encode(), partition=PARTITION
            )
            self._step(Step.RECORDED)
            self._producer.flush()
            self._step(Step.ACKNOWLEDGED)
        except BaseException as error:
            self._abort(error)
            raise
        self._sent = progress

    def _send_row(self, row: OutboxRow) -> None:
        topic = row.topic if self._topics is None else self._topics.get(row.topic)
        if topic is None:
            raise ConfigError(
                f"row {row.id} of the outbox is for {row.topic!r}, and topics= does not say which topic that is"
            )
        try:
            self._producer.send(topic, row.value, key=row.key, headers=row.headers)
        except KafkaError as error:
            error.add_note(f"this was row {row.id} of the outbox, for topic {topic!r}")
            raise

    def _commit(self, progress: Progress) -> None:
        """Commit the Kafka transaction; where that is not answered in time, the next call asks again."""
        try:
            self._producer.commit_transaction()
        except TransactionTimeoutError:
            raise
        except KafkaError as error:
            self._sent = None
            if getattr(error, "abortable", False):
                self._abort(error)
            raise
        self._sent = None
        self._relayed = progress
        self._number = progress.number
        self.rows += len(progress.rows)
        self.transactions += 1
        self._step(Step.COMMITTED)

    def _abort(self, error: BaseException) -> None:
        """Abort because of `error`, which goes on. The next transaction is smaller: this one may have been too slow."""
        self.aborted += 1
        self.batch_rows = max(1, self.batch_rows // 2)
        self._aborting = True
        if isinstance(error.__cause__, BrokerError) and error.__cause__.code in GIVEN_UP:
            # The producer gets another id or epoch. Where an id was forgotten, other relays may have come and gone, and
            # been forgotten too: what they have relayed is read again.
            self._taken_over = False
        try:
            self._end_abort(None if isinstance(error, Exception) else INTERRUPTED_S)
        except TransactionFatalError as fatal:  # a fenced producer often learns of it by the abort
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
