"""An outbox's table on a connection: chooses rows, and removes relayed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafwire.database.connections import (
    DatabaseConnection,
    Kind,
    all_errors,
    check_paramstyle,
    driver_of,
    execute,
    kind_of,
    paramstyle_of,
    passing_errors,
)
from kafwire.errors import ConfigError
from kafwire.outbox.progress import Letter, Progress, ranges
from kafwire.outbox.rows import OutboxRow, read_row
from kafwire.outbox.sqlite_ids import gives_ids_once
from kafwire.outbox.statements import Statements, letter_statements, listen_statement, statements
from kafwire.outbox.wakeup import LISTENING
from kafwire.runtime.log import outbox_log as log


class OutboxTable:
    """The table of a relay. Its connection is opened on first use, in the using thread.

    Args:
        connect: opens a connection of DB-API 2.0.
        table: the table's name.
        keep_s: how many seconds relayed rows stay in the table; None: they are deleted at once.
        dead_letter_table: the table of refused rows, if there is one.
        database: the kind of database; None: by the connection's driver.
        paramstyle: the connection's parameter style, by PEP 249; None: the driver's.
    """

    def __init__(
        self,
        connect: Callable[[], DatabaseConnection],
        table: str,
        *,
        keep_s: float | None,
        dead_letter_table: str | None = None,
        database: Kind | None,
        paramstyle: str | None,
    ) -> None:
        self.name = table
        self._connect = connect
        self._keep_s = keep_s
        self._database = database
        self._style = "" if paramstyle is None else check_paramstyle(paramstyle)
        self._letters = dead_letter_table
        self._kind: Kind = "other"
        self._statements: Statements | None = None
        self._is_checked = False
        self._errors: tuple[type[Exception], ...] = ()
        self.connection: DatabaseConnection | None = None

    def open(self) -> bool:
        """Connect if not connected; True if a connection was opened."""
        if self.connection is not None:
            return False
        connection = self._connect()
        try:
            if self._statements is None:
                self._learn(connection)
            for statement in self._known.session:
                execute(connection, self._style, statement)
            connection.commit()
            if not self._is_checked:
                self._check(connection)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        return True

    def _learn(self, connection: DatabaseConnection) -> None:
        """Find out the kind of database from the first connection."""
        self._style = self._style or paramstyle_of(connection)
        self._kind = self._database or kind_of(connection)
        self._errors = passing_errors(connection)
        self._statements = statements(self._kind, self.name, keeps=self._keep_s is not None)

    def _check(self, connection: DatabaseConnection) -> None:
        """Check the tables once: their columns, and that no id is used twice."""
        hint = "kafwire.outbox.sqlite_schema() and postgresql_schema() make one"
        self._check_columns(connection, self._known.exists, f"table {self.name!r} is missing, or not an outbox", hint)
        if self._kind == "sqlite":
            is_careless = not gives_ids_once(partial(self._select, connection), self.name)
        else:
            is_careless = bool(self._select(connection, self._known.careless_ids, self.name))
        if is_careless:
            raise ConfigError(
                f"the ids of table {self.name!r} may come out of order, or twice: in SQLite the id must be INTEGER "
                "PRIMARY KEY AUTOINCREMENT, in PostgreSQL its sequence must have no CACHE"
            )
        if self._letters is not None:
            what = f"dead_letter_table={self._letters!r}: the table does not exist, or has other columns"
            exists = letter_statements(self.name, self._letters).exists
            self._check_columns(connection, exists, what, "kafwire.outbox.dead_letter_schema() makes one")
        connection.rollback()
        self._is_checked = True

    def _check_columns(self, connection: DatabaseConnection, exists: str, what: str, hint: str) -> None:
        try:
            execute(connection, self._style, exists)
        except Exception as error:
            # SQLite reports a missing table with the same error class as a busy database.
            if self.is_passing(error) and "no such" not in str(error):
                raise
            raise ConfigError(f"{what}: {error}; {hint}") from error

    def is_passing(self, error: Exception) -> bool:
        """True if a new connection may not have this error."""
        return isinstance(error, self._errors)

    def drop(self) -> None:
        """Close the connection; its open transaction is rolled back."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            connection.close()
        except all_errors(connection) as error:  # it was lost, or belongs to another thread, as SQLite's do
            log.debug("a connection of the outbox could not be closed: %s", error, error=error)

    def choose(self, limit: int) -> list[OutboxRow]:
        """Return committed rows that were not relayed, lowest ids first.

        Rows that cannot become a record are included, with their `problem`.
        """
        rows = self._ask(self._known.choose, limit)
        self._open.rollback()
        return [read_row(row) for row in rows]

    def remove(self, ids: Iterable[int]) -> None:
        """Delete or mark rows in a transaction, which `commit` ends."""
        for low, high in ranges(ids):
            self._ask(self._known.remove, low, high)

    def set_aside(self, ids: Iterable[int], letter: Letter) -> None:
        """Move rows to a dead letter table in a transaction, which `commit` ends."""
        known = letter_statements(self.name, letter.table)
        for number in ids:
            self._ask(known.insert, letter.reason, number)
            self._ask(known.remove, number)

    def commit(self) -> None:
        """Commit the changes of `remove` or `set_aside`."""
        self._open.commit()

    def leftovers(self, progress: Progress) -> tuple[list[int], list[int]]:
        """List the ids of relayed rows that still exist, and those of other rows that reuse such an id."""
        same: list[int] = []
        others: list[int] = []
        for low, high in ranges(progress.rows):
            for row in map(read_row, self._ask(self._known.between, low, high)):
                (same if row.check == progress.rows[row.id] else others).append(row.id)
        self._open.rollback()
        return same, others

    def purge(self) -> int:
        """Delete kept rows that were relayed long enough ago; return how many."""
        _, count = execute(self._open, self._style, self._known.purge, self._keep_s or 0)
        self._open.commit()
        return count

    def longest_transaction(self) -> tuple[float, int] | None:
        """Return the age in seconds and the process of the oldest database transaction that writes or reads."""
        if not self._known.longest_transaction:
            return None
        rows = self._ask(self._known.longest_transaction)
        self._open.rollback()
        return (float(rows[0][0]), int(rows[0][1])) if rows else None

    def listen(self, channel: str) -> None:
        """Listen to a channel.

        Raises:
            ConfigError: the connection's driver has no notifications that a relay can wait for.
        """
        driver = driver_of(self._open)
        if driver not in LISTENING:
            raise ConfigError(
                f"channel={channel!r}: only PostgreSQL with {' or '.join(LISTENING)} notifies a relay, but this driver "
                f"is {driver or type(self._open).__name__}; remove channel, and call wake() after a commit"
            )
        self._ask(listen_statement(channel))
        self._open.commit()

    @property
    def _open(self) -> DatabaseConnection:
        assert self.connection is not None, "opened before"
        return self.connection

    @property
    def _known(self) -> Statements:
        assert self._statements is not None, "opened before"
        return self._statements

    def _ask(self, statement: str, *parameters: object) -> list[Any]:
        return self._select(self._open, statement, *parameters)

    def _select(self, connection: DatabaseConnection, statement: str, *parameters: object) -> list[Any]:
        rows, _ = execute(connection, self._style, statement, *parameters)
        return rows
