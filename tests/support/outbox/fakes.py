"""A producer and a client for `Relay` without brokers: a log, transactions, refusals, relays that die at a step."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafwire.errors import (
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from kafwire.outbox import Step, dead_letter_schema, sqlite_schema
from kafwire.outbox.dead_letters import DeadLetters
from kafwire.outbox.outbox_table import OutboxTable
from kafwire.outbox.relay import Relay

STATE = "outbox-state"
LETTERS = "letters"


class KilledError(BaseException):
    """The relay's process ends here."""


class Sent(NamedTuple):
    """A record."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class FakeDelivery:
    """The outcome of one record."""

    def __init__(self) -> None:
        self.outcome: KafkaError | None = None
        self.is_done = False

    def done(self) -> bool:
        """True if the outcome is known."""
        return self.is_done

    def exception(self) -> KafkaError | None:
        """The error, if there is one."""
        return self.outcome


class FakeKafka:
    """A log of committed records. It refuses a batch as a whole: all records of a topic in a transaction.

    `refuses` says why the broker refuses a record, and `takes` raises what the producer does; both may be None.
    """

    def __init__(self) -> None:
        self.log: list[Sent] = []
        self.refuses: Callable[[Sent], KafkaError | None] = lambda _: None
        self.takes: Callable[[Sent], None] = lambda _: None
        self.newest: FakeProducer | None = None
        self.commits: list[str] = []  # what becomes of the next commits: "lost" or "late"
        self.aborts = 0

    def producer(self) -> FakeProducer:
        """Make a producer, which has not taken over yet."""
        return FakeProducer(self)

    def values(self, topic: str) -> list[bytes | None]:
        """The committed values of a topic."""
        return [record.value for record in self.log if record.topic == topic]


class FakeProducer:
    """The transactional calls of `Producer`, for one thread."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka
        self._open: list[tuple[Sent, FakeDelivery]] | None = None
        self._error: TransactionAbortableError | None = None
        self.is_dead = False

    def _check(self) -> None:
        if self.is_dead:
            raise KilledError
        if self._kafka.newest not in (None, self):
            raise ProducerFencedError("another producer has the transactional id")

    def init_transactions(self) -> None:
        """Fence the others."""
        self._kafka.newest = self

    def begin_transaction(self) -> None:
        """Begin."""
        self._check()
        assert self._open is None
        self._open, self._error = [], None

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        partition: int | None = None,
    ) -> FakeDelivery:
        """Buffer a record."""
        self._check()
        assert self._open is not None
        sent = Sent(topic, key, value, headers)
        self._kafka.takes(sent)
        self._open.append((sent, FakeDelivery()))
        return self._open[-1][1]

    def flush(self) -> None:
        """Report the outcomes of all records."""
        self._check()
        assert self._open is not None
        errors = {sent.topic: error for sent, _ in self._open if (error := self._kafka.refuses(sent)) is not None}
        for sent, delivery in self._open:
            delivery.is_done, delivery.outcome = True, errors.get(sent.topic)
        if errors:
            cause = next(iter(errors.values()))
            self._error = TransactionAbortableError(f"the transaction can only be aborted: {cause}")
            self._error.__cause__ = cause
            for sent, delivery in self._open:
                if sent.topic not in errors and sent.topic == STATE:
                    delivery.outcome = TransactionAbortedError("the transaction has failed")

    def commit_transaction(self) -> None:
        """Commit; a lost response is one of a commit that was carried out."""
        self._check()
        if self._open is None:
            return  # it was carried out already
        if self._error is not None:
            raise self._error
        outcome = self._kafka.commits.pop(0) if self._kafka.commits else ""
        if outcome != "late":
            self._kafka.log += [sent for sent, _ in self._open]
            self._open = None
        if outcome:
            raise TransactionTimeoutError(f"the response is {outcome}")

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop all."""
        self._check()
        self._kafka.aborts += 1
        for _, delivery in self._open or ():
            delivery.outcome = TransactionAbortedError("the transaction was aborted")
        self._open = None


class FakeClient:
    """Reads the state topic."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka

    def _state(self) -> list[Sent]:
        return [record for record in self._kafka.log if record.topic == STATE]

    def offsets(self, partitions: list[Any]) -> dict[Any, int]:
        """The ends of partitions."""
        return {where: len(self._state()) for where in partitions}

    @contextmanager
    def scan(self, *_: object, **__: object) -> Iterator[Any]:
        """The records of the state topic, as one batch."""
        yield SimpleNamespace(batches=lambda: [self._state()])


class FakeShop:
    """An outbox in SQLite, a table of dead letters, and relays of both."""

    def __init__(self, path: Path) -> None:
        self.kafka = FakeKafka()
        self._path = path
        self.run(sqlite_schema() + dead_letter_schema(LETTERS, database="sqlite"))

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path)
        database.execute("PRAGMA synchronous = OFF")  # the machine does not crash here
        return database

    def run(self, script: str) -> None:
        """Run statements."""
        with closing(self._connect()) as database:
            database.executescript(script)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with closing(self._connect()) as database:
            return database.execute(statement).fetchall()

    def write(self, *rows: tuple[str, str | None, str], headers: str | None = None) -> None:
        """Commit rows of (topic, key, value)."""
        statement = "INSERT INTO outbox (topic, aggregate_key, payload, headers) VALUES (?, ?, ?, ?)"
        with closing(self._connect()) as database, database:
            database.executemany(statement, [(*row, headers) for row in rows])

    def left(self) -> list[int]:
        """The ids of rows that wait."""
        return [row[0] for row in self.rows("SELECT id FROM outbox WHERE relayed_at IS NULL ORDER BY id")]

    @contextmanager
    def relay(self, on_step: Callable[[Step], object] | None = None, **options: Any) -> Iterator[Relay]:
        """A relay with an open connection. An error of the block kills it: nothing is aborted, nothing committed."""
        producer = self.kafka.producer()
        table = OutboxTable(
            self._connect,
            "outbox",
            keep_s=options.get("keep_s"),
            dead_letter_table=options.get("table"),
            database=None,
            paramstyle=None,
        )
        table.open()

        def step(taken: Step) -> None:
            try:
                if on_step is not None:
                    on_step(taken)
            except KilledError:
                producer.is_dead = True
                raise

        made: Any = {"producer": producer, "client": FakeClient(self.kafka)}
        try:
            yield Relay(
                table,
                **made,
                transactional_id="shop",
                state_topic=STATE,
                topics=options.get("topics"),
                limit=options.get("limit", 500),
                on_step=step,
                dead_letters=DeadLetters(options.get("table"), options.get("topic")),
            )
        finally:
            table.drop()
