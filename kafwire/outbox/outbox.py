"""`Outbox`: relays the rows of an outbox table to topics, each once, per aggregate key in the order of commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Self, Unpack

from kafwire.config import ClientConfig, ProducerConfig
from kafwire.config.checks import Number, some_text
from kafwire.config.typed_options import ProducerOptions
from kafwire.database.connections import DatabaseConnection, Kind, check_name
from kafwire.errors import ConfigError, KafkaError
from kafwire.handles import refuse_copy
from kafwire.integers import real
from kafwire.outbox.dead_letters import DeadLetters
from kafwire.outbox.outage import Outage
from kafwire.outbox.outbox_table import OutboxTable
from kafwire.outbox.refusals import is_passing
from kafwire.outbox.relay import Relay, Step
from kafwire.outbox.statements import listen_statement
from kafwire.outbox.wakeup import Notifications, Wakeup
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import outbox_log as log
from kafwire.state_topic import ensure_topic
from kafwire.sync.client import Client
from kafwire.sync.producer import Producer

# How often the relay checks for old data: kept rows, and transactions that keep deleted rows from being vacuumed.
_LOOK_S = 60.0
_NOT_COMPACTED = (
    "rows whose progress is deleted from it could be relayed again; set it to compact, or give another state_topic"
)
# Options that a relay sets itself.
_NOT_OPTIONS = ("key_serializer", "value_serializer", "acks", "enable_idempotence")


class _WaitFailedError(Exception):
    """The wait for rows failed; the next round of the relay opens a new connection."""


@dataclass(slots=True)
class _Metrics:
    reconnects: int = 0
    retries: int = 0
    purged: int = 0
    longest_transaction_s: float = 0.0


class Outbox:
    """A relay: sends the rows of an outbox table to topics, each once, per aggregate key in the order of commits.

    The relay chooses rows that were not relayed, not rows after the last id: so it sees a row that is committed after
    one with a higher id. Records, and the ids of their rows, are committed in one Kafka transaction; then the rows are
    deleted. A relay that takes over reads those ids, and deletes the rows that are left. docs/guide/outbox.md has the
    table, the guarantees and their requirements.

    The option `transactional_id` names the relay: each outbox needs its own. A new relay fences the one before it. Call
    `run` and `relay` from one thread, and the other methods from any. In a program with asyncio, run it in a thread:
    `await asyncio.to_thread(outbox.run)`.

    Args:
        connect: a function that opens a new connection of DB-API 2.0 (sqlite3, psycopg, psycopg2). It is called in the
            thread of `run` or `relay`, and again when a connection is lost.
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        table: the name of the table, optionally with a schema.
        topics: maps the column `topic`, such as the type of an aggregate, to topics; None: the column has the topic.
        state_topic: the compacted topic for progress; it is created if missing.
        state_replication_factor: of that topic; -1: the broker's default.
        batch_rows: how many rows a Kafka transaction has at most.
        poll_interval: seconds between checks for new rows, unless something wakes the relay.
        channel: a PostgreSQL channel that is notified of new rows (LISTEN), in the same case as for `pg_notify`; None:
            polling only.
        keep_s: how many seconds relayed rows stay in the table, with the time in `relayed_at`; None: they are deleted.
        long_transaction_s: warn of database transactions that are open for so many seconds; PostgreSQL only.
        dead_letter_table: a table for rows that Kafka refuses, such as one of `kafwire.outbox.dead_letter_schema`.
        dead_letter_topic: a topic for them instead. Without either, the relay stops at such a row.
        on_step: called with each `Step`, in the relay's thread.
        database: "postgresql" or "sqlite"; None: by the connection's driver.
        paramstyle: the connection's parameter style, by PEP 249; None: the driver's.
        engine: the engine to run on; None: the process's own.
        options: `transactional_id`, and other fields of `kafwire.config.ProducerConfig`.

    Raises:
        ConfigError: an argument or an option has a bad value.

    Example:
        >>> import sqlite3
        >>> from kafwire.outbox import Outbox, sqlite_schema
        >>> shop = lambda: sqlite3.connect(f"{folder}/shop.db")
        >>> with shop() as database:
        ...     cursor = database.executescript(sqlite_schema())
        ...     statement = "INSERT INTO outbox (topic, aggregate_key, payload) VALUES (?, ?, ?)"
        ...     cursor = database.execute(statement, (other_topic, "17", "ordered: a lamp"))
        >>> database.close()
        >>> with Outbox(shop, bootstrap, transactional_id="shop") as outbox:
        ...     outbox.relay()
        1
        >>> [record.value for batch in client.scan(other_topic).batches() for record in batch]
        [b'ordered: a lamp']
    """

    __reduce_ex__ = refuse_copy

    def __init__(
        self,
        connect: Callable[[], DatabaseConnection],
        bootstrap_servers: str | Iterable[str],
        *,
        table: str = "outbox",
        topics: Mapping[str, str] | None = None,
        state_topic: str = "outbox-state",
        state_replication_factor: int = -1,
        batch_rows: int = 500,
        poll_interval: float = 1.0,
        channel: str | None = None,
        keep_s: float | None = None,
        long_transaction_s: float = 300.0,
        dead_letter_table: str | None = None,
        dead_letter_topic: str | None = None,
        on_step: Callable[[Step], object] | None = None,
        database: Kind | None = None,
        paramstyle: str | None = None,
        engine: Engine | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        if not callable(connect) or hasattr(connect, "cursor"):  # sqlite3's connections are callable
            raise ConfigError("connect must be a function that opens a connection, not a connection")
        transactional_id = options.get("transactional_id")
        if transactional_id is None:
            raise ConfigError("an outbox needs a transactional_id, which names its relay")
        _check("state_topic", some_text, state_topic)
        _check("batch_rows", Number(1, 10_000), batch_rows)
        _check("state_replication_factor", Number(-1, 32767), state_replication_factor)
        _seconds("poll_interval", poll_interval)
        _seconds("long_transaction_s", long_transaction_s)
        if keep_s is not None:
            _seconds("keep_s", keep_s)
        refused = [name for name in _NOT_OPTIONS if name in options]
        if refused:
            raise ConfigError(f"{refused[0]}: an outbox has no such option; it sends rows unchanged, with acks=all")
        made: Any = {"bootstrap_servers": bootstrap_servers, **options}
        config = ProducerConfig.build(made)
        if dead_letter_table is not None:
            check_name(dead_letter_table)
        if dead_letter_topic is not None:
            _check("dead_letter_topic", some_text, dead_letter_topic)
        letters = DeadLetters(dead_letter_table, dead_letter_topic)
        letters.check(check_name(table))
        self._table = OutboxTable(
            connect,
            table,
            keep_s=keep_s,
            dead_letter_table=dead_letter_table,
            database=database,
            paramstyle=paramstyle,
        )
        if channel is not None:
            listen_statement(channel)  # checks the name
        self._channel = channel
        self._poll_interval = poll_interval
        self._long_transaction_s = long_transaction_s
        self._state = state_topic, int(state_replication_factor)
        self._batch_rows = int(batch_rows)
        self._engine = default_engine() if engine is None else engine
        self._outage = Outage(config.retry_backoff_ms, config.retry_backoff_max_ms)
        shared: Any = {item.name for item in fields(ClientConfig)}
        self._producer = Producer(engine=self._engine, **made)
        self._client = Client(engine=self._engine, **{name: value for name, value in made.items() if name in shared})
        self._relay = Relay(
            self._table,
            self._producer,
            self._client,
            transactional_id=transactional_id,
            state_topic=state_topic,
            topics=topics,
            limit=self._batch_rows,
            on_step=on_step or _ignore,
            dead_letters=letters,
        )
        self._wakeup = Wakeup()
        self._notifications: Notifications | None = None
        self._metrics = _Metrics()
        self._has_state_topic = False
        self._looked_at: float | None = None
        self._stopped = False
        self._closed = False

    def run(self) -> None:
        """Relay rows until `stop` is called.

        Errors that may pass are retried, with a WARNING on the logger `kafwire`: a database or a broker that cannot be
        reached, a Kafka transaction that could not be committed. At the end the database connection is closed.

        Raises:
            ProducerFencedError: another relay has this `transactional_id` now.
            ConfigError: a row cannot be sent, or the table is not an outbox.
            BrokerError: a topic refuses a record, or does not exist. A note names the row, as it does for ConfigError;
                all rows before it were relayed.
            TransactionAbortableError: the same, if the broker refused the record. Its `__cause__` is the reason.
            KafkaError: any other error that does not pass by itself. Rows that were not relayed stay in the table.
        """
        self._check()
        try:
            while not self._stopped:
                try:
                    self.relay()
                    self._look_after()
                    if not self._relay.has_more and not self._stopped:
                        self._wait()
                except Exception as error:
                    if not self._is_passing(error):
                        raise
                    self._back_off(error)
                else:
                    self._outage.succeeded()
        finally:
            self._stopped = False
            self._drop_connection()

    def _wait(self) -> None:
        try:
            self._wakeup.wait(self._poll_interval, self._notifications)
        except Exception as error:
            self._drop_connection()
            if isinstance(error, OSError | ValueError) or self._table.is_passing(error):
                raise _WaitFailedError(f"the wait on the database connection failed: {error}") from error
            raise

    def _back_off(self, error: Exception) -> None:
        """Wait before the next attempt; `stop` ends the wait, `wake` does not."""
        self._metrics.retries += 1
        now = self._engine.clock.monotonic()
        wait_s, is_due = self._outage.failed(f"{error}", now, self._engine.random.random())
        level = logging.WARNING if is_due else logging.DEBUG
        log.log(level, "outbox %s: retrying in %.1f s: %s", self._table.name, wait_s, error, error=error)
        self._wakeup.pause(wait_s, lambda: self._stopped)

    def relay(self) -> int:
        """Relay the available rows, up to `batch_rows`; fewer after a Kafka transaction was aborted.

        Rows before one that Kafka refuses are relayed without it. The next call raises its error, or makes it a dead
        letter.

        Returns:
            How many rows were relayed, or became dead letters. 0: there were no more.

        Raises:
            KafkaError: as `run` does, and also for errors that a retry may help.
            Exception: the database driver's errors. The next call opens a new connection.
        """
        self._check()
        try:
            if self._table.open():
                self._opened()
            if not self._has_state_topic:
                ensure_topic(self._client, *self._state, remedy=_NOT_COMPACTED)
                self._has_state_topic = True
            return self._relay.relay()
        except KafkaError:
            raise
        except Exception:
            self._drop_connection()
            raise

    def _opened(self) -> None:
        """Set up a new connection."""
        self._metrics.reconnects += 1
        if self._channel is not None and self._table.connection is not None:
            self._table.listen(self._channel)
            self._notifications = Notifications(self._table.connection)

    def _drop_connection(self) -> None:
        self._notifications = None
        self._table.drop()

    def _is_passing(self, error: Exception) -> bool:
        """True if a retry may help."""
        if isinstance(error, KafkaError):
            return is_passing(error)
        return isinstance(error, _WaitFailedError) or self._table.is_passing(error)

    def _look_after(self) -> None:
        """Periodically delete rows that were kept long enough, and check for long transactions."""
        now = self._engine.clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        try:
            self._metrics.purged += self._table.purge()
            found = self._table.longest_transaction()
        except Exception:
            self._drop_connection()  # its transaction may have failed
            raise
        self._metrics.longest_transaction_s = 0.0 if found is None else found[0]
        if found is not None and found[0] > self._long_transaction_s:
            log.warning(
                "outbox %s: process %d of the database has had a transaction open for %.0f s: deleted rows cannot be "
                "vacuumed meanwhile, and choosing rows becomes slow",
                self._table.name,
                found[1],
                found[0],
            )

    def stop(self) -> None:
        """Make `run` return after the current batch; from any thread, or from a signal handler.

        In PostgreSQL a statement waits at most a second for a lock of another transaction. `run` then returns, and the
        next relay removes the rows that are in Kafka.
        """
        self._stopped = True
        self._wakeup.wake()

    def wake(self) -> None:
        """Make `run` check for rows at once; from any thread, for example after a commit in this process."""
        self._wakeup.wake()

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters.

        Returns:
            `rows` and `transactions` that were relayed; `leftovers`: rows that had been relayed before a crash or a
            lost connection, and were removed after it; `aborted` Kafka transactions; `batch_rows`: how many rows the
            next one has at most; `dead_letters`: refused rows that went to their table or topic; `retries` of `run`;
            `connections` that were opened; `purged` rows that had been kept; `longest_transaction_s`: the database's
            longest transaction within the last minute of `run`.
        """
        return {
            "rows": self._relay.rows,
            "transactions": self._relay.transactions,
            "leftovers": self._relay.leftovers,
            "aborted": self._relay.aborted,
            "batch_rows": self._relay.batch_rows,
            "dead_letters": self._relay.dead_letters,
            "retries": self._metrics.retries,
            "connections": self._metrics.reconnects,
            "purged": self._metrics.purged,
            "longest_transaction_s": self._metrics.longest_transaction_s,
        }

    def close(self, timeout: float | None = None) -> None:
        """Close all connections. An open Kafka transaction is aborted; a commit in progress is completed.

        If `run` is running in another thread, call `stop` first, and wait for it.

        Args:
            timeout: seconds for that; None: only the producer's own limit.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._drop_connection()
        finally:
            self._wakeup.close()
            self._client.close()
            self._producer.close(timeout)

    def _check(self) -> None:
        if self._closed:
            raise KafkaError("this outbox is closed: make a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(None if kind is None or issubclass(kind, Exception) else 0.0)


def _ignore(_: Step) -> None:
    """Ignore a step: the user gave no `on_step`."""


def _check(name: str, check: Callable[[Any], object], value: object) -> None:
    try:
        check(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}={value!r}: {error}") from None


def _seconds(name: str, value: object) -> None:
    seconds = real(value)
    if seconds is None or not 0 <= seconds < 1e9:
        raise ConfigError(f"{name}={value!r}: it must be a number of seconds, 0 or more")
