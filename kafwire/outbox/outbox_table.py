"""An outbox's table over a connection: choose rows, and remove those that were relayed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kafwire.database.connections import (
    Connection,
    Kind,
    all_errors,
    check_paramstyle,
    execute,
    kind_of,
    paramstyle_of,
    passing_errors,
)
from kafwire.errors import ConfigError
from kafwire.outbox.progress import Progress, ranges
from kafwire.outbox.rows import OutboxRow, row_of
from kafwire.outbox.statements import Statements, statements

log = logging.getLogger("kafwire")


class OutboxTable:
    """The table of a relay. Its connection is opened when it is first needed, in the thread that needs it.

    Args:
        connect: opens a connection of DB-API 2.0.
        table: the table's name.
        keep_s: how many seconds relayed rows stay in the table; None: they are deleted at once.
        database: which database it is; None: as the connection's driver says.
        paramstyle: of the connection's driver, by PEP 249; None: as the driver says.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        table: str,
        *,
        keep_s: float | None,
        database: Kind | None,
        paramstyle: str | None,
    ) -> None:
        self.name = table
        self._connect = connect
        self._keep_s = keep_s
        self._database = database
        self._style = "" if paramstyle is None else check_paramstyle(paramstyle)
        self._statements: Statements | None = None
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
            if self._known.durable:
                execute(connection, self._style, self._known.durable)
                connection.commit()
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        return True

    def _learn(self, connection: Connection) -> None:
        """What the first connection says of the database, and of the table."""
        self._style = self._style or paramstyle_of(connection)
        found = statements(self._database or kind_of(connection), self.name, keeps=self._keep_s is not None)
        self._errors = passing_errors(connection)
        try:
            execute(connection, self._style, found.exists)
        except Exception as error:
            raise ConfigError(
                f"table {self.name!r} is not there, or is no outbox: {error}; kafwire.outbox.sqlite_schema() and "
                "postgresql_schema() make one"
            ) from error
        careless, _ = execute(connection, self._style, found.careless_ids, self.name)
        connection.rollback()
        if careless:
            raise ConfigError(
                f"the ids of table {self.name!r} may come out of order, or twice: in SQLite the id has to be INTEGER "
                "PRIMARY KEY AUTOINCREMENT, in PostgreSQL its sequence may have no CACHE"
            )
        self._statements = found

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
        """The rows with the lowest ids among those that were not relayed and that a committed transaction wrote."""
        rows = self._ask(self._known.choose, limit)
        self._open.rollback()
        return [row_of(row) for row in rows]

    def remove(self, ids: Iterable[int]) -> None:
        """Delete or mark rows in a transaction, which `commit` ends."""
        for low, high in ranges(ids):
            self._ask(self._known.remove, low, high)

    def commit(self) -> None:
        """Commit what `remove` did."""
        self._open.commit()

    def leftovers(self, progress: Progress) -> tuple[list[int], list[int]]:
        """Of rows that were relayed those that are still there, and the ids of others that have the same ids."""
        same: list[int] = []
        others: list[int] = []
        for low, high in ranges(progress.rows):
            for row in map(row_of, self._ask(self._known.between, low, high)):
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
        """Have the connection notified of a channel."""
        self._ask(f"LISTEN {channel}")
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
        rows, _ = execute(self._open, self._style, statement, *parameters)
        return rows
