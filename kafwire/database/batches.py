"""`DatabaseBatches`: which batch of a query a database holds, stored in the transaction of the batch's rows.

A batch that is delivered again, after a crash between the database's commit and the query's own, is then skipped.
"""

from __future__ import annotations

from kafwire.database.connections import (
    Connection,
    all_errors,
    check_name,
    check_paramstyle,
    commits_by_itself,
    execute,
    paramstyle_of,
)
from kafwire.errors import ConfigError, KafkaError

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    query_id VARCHAR(249) NOT NULL,
    batch_id BIGINT NOT NULL,
    PRIMARY KEY (query_id)
)"""
# A query that has stored no batch yet: its row is there, for others to wait at.
_NONE = -1


class BatchGapError(KafkaError):
    """A batch is not the one after the last that the database holds: database and checkpoint do not belong together.

    Restore both from the same moment, or delete the query's row if the rows in between are to be missing.
    """


class DatabaseBatches:
    """The last batch of a query, in a table of a database.

    Every method takes a DB-API 2.0 connection; `begin` leaves the transaction open, and you commit.

    Args:
        query: names the query; it may be the query's id.
        table: the name of the table, also with a schema.
        paramstyle: of the connection's driver, as PEP 249 calls it; None: as the driver says.

    Raises:
        ConfigError: an argument has a bad value.

    Example:
        >>> import sqlite3
        >>> from kafwire.database import DatabaseBatches
        >>> database = sqlite3.connect(":memory:")
        >>> batches = DatabaseBatches("billing")
        >>> batches.create_table(database)
        >>> batches.begin(database, 0)
        True
        >>> database.commit()
        >>> batches.begin(database, 0)
        False
        >>> database.close()
    """

    def __init__(self, query: str, *, table: str = "kafka_batches", paramstyle: str | None = None) -> None:
        if not isinstance(query, str) or not query:
            raise ConfigError(f"query={query!r}: text that is not empty is needed")
        self._query = query
        self._table = check_name(table)
        self._paramstyle = None if paramstyle is None else check_paramstyle(paramstyle)

    def create_table(self, connection: Connection) -> None:
        """Create the table and the query's row, unless they exist, and commit.

        Args:
            connection: a connection without an open transaction.

        Example:
            >>> import sqlite3
            >>> from kafwire.database import DatabaseBatches
            >>> database = sqlite3.connect(":memory:")
            >>> DatabaseBatches("billing").create_table(database)
            >>> database.close()
        """
        # Two drivers may do so at the same time: one gets an error of a unique index, and then finds both there.
        try:
            self._execute(connection, _TABLE.format(table=self._table))
            connection.commit()
        except all_errors(connection):
            connection.rollback()
        if self._last(connection) is None:
            try:
                self._execute(
                    connection, f"INSERT INTO {self._table} (query_id, batch_id) VALUES (?, ?)", self._query, _NONE
                )
                connection.commit()
            except all_errors(connection):
                connection.rollback()
                if self._last(connection) is None:
                    raise
        connection.rollback()

    def begin(self, connection: Connection, batch: int) -> bool:
        """Begin a batch: note it, in a transaction that is open then.

        Another transaction that begins a batch of the query waits until this one ends.

        Args:
            connection: a connection without an open transaction.
            batch: the batch's number.

        Returns:
            True: store the batch's rows now, and commit. False: the database holds the batch already, and no
            transaction is open.

        Raises:
            BatchGapError: the database holds another batch than the one before.
            ConfigError: the connection commits each statement by itself, or the query has no row: call `create_table`.

        Example:
            >>> import sqlite3
            >>> from kafwire.database import DatabaseBatches
            >>> database = sqlite3.connect(":memory:")
            >>> batches = DatabaseBatches("billing")
            >>> batches.create_table(database)
            >>> batches.begin(database, 7)
            True
            >>> database.close()
        """
        if commits_by_itself(connection):
            raise ConfigError(
                "the connection commits each statement by itself: open it with autocommit off, so that the rows of a "
                "batch and its number are one transaction"
            )
        # The condition takes the row's lock first, and is then true of what others have committed.
        changed = self._execute(
            connection,
            f"UPDATE {self._table} SET batch_id = ? WHERE query_id = ? AND batch_id IN (?, ?)",
            batch,
            self._query,
            batch - 1,
            _NONE,
        )
        if changed == 1:
            return True
        last = self._last(connection)
        connection.rollback()
        if last is None:
            raise ConfigError(f"table {self._table} has no row of query {self._query}: call create_table first")
        if last != batch:
            raise BatchGapError(
                f"table {self._table} holds batch {last} of query {self._query}, and batch {batch} is to be stored: "
                + (
                    f"batches {last + 1} to {batch - 1} are missing. Was the database restored? "
                    if last < batch
                    else "the query has gone back. Was its checkpoint restored, or does another query have its name? "
                )
                + "Restore both from the same moment, or delete that row to go on without those rows"
            )
        return False

    def _last(self, connection: Connection) -> int | None:
        style = self._paramstyle or paramstyle_of(connection)
        statement = f"SELECT batch_id FROM {self._table} WHERE query_id = ?"
        rows, _ = execute(connection, style, statement, self._query)
        return int(rows[0][0]) if rows else None

    def _execute(self, connection: Connection, statement: str, *parameters: object) -> int:
        style = self._paramstyle or paramstyle_of(connection)
        return execute(connection, style, statement, *parameters)[1]
