"""An outbox's table over a connection: choose rows, and remove those that were relayed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafwire.database.connections import (
    Connection,
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

log = logging.getLogger("kafwire")


class OutboxTable:
    """The table of a relay. Its connection is opened when it is first needed, in the thread that needs it.

    Args:
        connect: opens a connection of DB-API 2.0.
        table: the table's name.
        keep_s: how many seconds relayed rows stay in the table; None: they are deleted at once.
        dead_letter_table: the table of refused rows, if there is one.
        database: which database it is; None: as the connection's driver says.
        paramstyle: of the connection's driver, by PEP 249; None: as the driver says.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
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
        self.connection: Connection | None = None

    def open(self) -> bool:
        """Connect, if there is no connection: whether there was none."""
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

    def _learn(self, connection: Connection) -> None:
        """Learn from the first connection which database it is."""
        self._style = self._style or paramstyle_of(connection)
        self._kind = self._database or kind_of(connection)
        self._errors = passing_errors(connection)
        self._statements = statements(self._kind, self.name, keeps=self._keep_s is not None)

    def _check(self, connection: Connection) -> None:
        """Check the tables, once: their columns, and that no id is given twice."""
        hint = "kafwire.outbox.sqlite_schema() and postgresql_schema() make one"
        self._check_columns(connection, self._known.exists, f"table {self.name!r} is not there, or is no outbox", hint)
        if self._kind == "sqlite":
            is_careless = not gives_ids_once(partial(self._select, connection), self.name)
        else:
            is_careless = bool(self._select(connection, self._known.careless_ids, self.name))
        if is_careless:
            raise ConfigError(
                f"the ids of table {self.name!r} may come out of order, or twice: in SQLite the id has to be INTEGER "
                "PRIMARY KEY AUTOINCREMENT, in PostgreSQL its sequence may have no CACHE"
            )
        if self._letters is not None:
            what = f"dead_letter_table={self._letters!r}: the table is not there, or has other columns"
            exists = letter_statements(self.name, self._letters).exists
            self._check_columns(connection, exists, what, "kafwire.outbox.dead_letter_schema() makes one")
        connection.rollback()
        self._is_checked = True

    def _check_columns(self, connection: Connection, exists: str, what: str, hint: str) -> None:
        try:
            execute(connection, self._style, exists)
        except Exception as error:
            # SQLite reports a missing table as it does a database that is busy.
            if self.is_passing(error) and "no such" not in str(error):
                raise
            raise ConfigError(f"{what}: {error}; {hint}") from error

    def is_passing(self, error: Exception) -> bool:
        """Whether a connection that is opened anew may not have this error."""
        return isinstance(error, self._errors)

    def drop(self) -> None:
        """Give the connection up; what is open in it is rolled back."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            connection.close()
        except all_errors(connection) as error:  # it was lost, or is another thread's, as SQLite's are
            log.debug("a connection of the outbox could not be closed: %s", error)

    def choose(self, limit: int) -> list[OutboxRow]:
        """The rows with the lowest ids among those that were not relayed and that a committed transaction wrote.

        Rows that no record can be made of are among them, with their `problem`.
        """
        rows = self._ask(self._known.choose, limit)
        self._open.rollback()
        return [read_row(row) for row in rows]

    def remove(self, ids: Iterable[int]) -> None:
        """Delete or mark rows in a transaction, which `commit` ends."""
        for low, high in ranges(ids):
            self._ask(self._known.remove, low, high)

    def set_aside(self, ids: Iterable[int], letter: Letter) -> None:
        """Move rows into a table of dead letters, in a transaction, which `commit` ends."""
        known = letter_statements(self.name, letter.table)
        for number in ids:
            self._ask(known.insert, letter.reason, number)
            self._ask(known.remove, number)

    def commit(self) -> None:
        """Commit what `remove` or `set_aside` did."""
        self._open.commit()

    def leftovers(self, progress: Progress) -> tuple[list[int], list[int]]:
        """Of rows that were relayed those that are still there, and the ids of others that have the same ids."""
        same: list[int] = []
        others: list[int] = []
        for low, high in ranges(progress.rows):
            for row in map(read_row, self._ask(self._known.between, low, high)):
                (same if row.check == progress.rows[row.id] else others).append(row.id)
        self._open.rollback()
        return same, others

    def purge(self) -> int:
        """Delete rows that were relayed long enough ago, and were kept: how many."""
        _, count = execute(self._open, self._style, self._known.purge, self._keep_s or 0)
        self._open.commit()
        return count

    def longest_transaction(self) -> tuple[float, int] | None:
        """The age in seconds of the oldest transaction of the database that writes or reads, and its process."""
        if not self._known.longest_transaction:
            return None
        rows = self._ask(self._known.longest_transaction)
        self._open.rollback()
        return (float(rows[0][0]), int(rows[0][1])) if rows else None

    def listen(self, channel: str) -> None:
        """Have the connection notified of a channel.

        Raises:
            ConfigError: the connection's driver has no notifications that a relay can wait for.
        """
        driver = driver_of(self._open)
        if driver not in LISTENING:
            raise ConfigError(
                f"channel={channel!r}: only PostgreSQL by {' or '.join(LISTENING)} notifies a relay, and this driver "
                f"is {driver or type(self._open).__name__}; leave channel out, and call wake() after a commit"
            )
        self._ask(listen_statement(channel))
        self._open.commit()

    @property
    def _open(self) -> Connection:
        assert self.connection is not None, "opened before"
        return self.connection

    @property
    def _known(self) -> Statements:
        assert self._statements is not None, "opened before"
        return self._statements

    def _ask(self, statement: str, *parameters: object) -> list[Any]:
        return self._select(self._open, statement, *parameters)

    def _select(self, connection: Connection, statement: str, *parameters: object) -> list[Any]:
        rows, _ = execute(connection, self._style, statement, *parameters)
        return rows
