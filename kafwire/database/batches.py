"""`DatabaseBatches`: the last batch of a query in a database, stored in the transaction of the batch's rows.

A batch that is delivered again, after a crash between the database's commit and the query's own, is then skipped.
"""

from __future__ import annotations

from kafwire.database.connections import (
    DatabaseConnection,
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
# Before a query's first batch: its row exists, for transactions to lock.
_NONE = -1


class BatchGapError(KafkaError):
    """A batch does not follow the last one in the database: database and checkpoint do not belong together.

    Restore both from the same time, or delete the query's row to skip the rows in between.
    """


class DatabaseBatches:
    """The last batch of a query, in a database table.

    Every method takes a DB-API 2.0 connection; `begin` leaves the transaction open, and you commit.

    Args:
        query: names the query; it may be the query's id.
        table: the name of the table, optionally with a schema.
        paramstyle: the connection's parameter style, by PEP 249; None: the driver's.

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
            raise ConfigError(f"query={query!r}: it must be a non-empty str")
        self._query = query
        self._table = check_name(table)
        self._paramstyle = None if paramstyle is None else check_paramstyle(paramstyle)

    def create_table(self, connection: DatabaseConnection) -> None:
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
        # Two callers may do so at the same time: one gets a unique index error, and then finds both.
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

    def begin(self, connection: DatabaseConnection, batch: int) -> bool:
        """Begin a batch: store its number, in a transaction that stays open.

        Another transaction that begins a batch of the query waits until this one ends.

        Args:
            connection: a connection without an open transaction.
            batch: the batch's number.

        Returns:
            True: store the batch's rows now, and commit. False: the database already has the batch, and no transaction
            is open.

        Raises:
            BatchGapError: the last batch in the database is not the one before.
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
        # The condition first takes the row's lock, and then sees the commits of other transactions.
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
                f"table {self._table} has batch {last} of query {self._query}, but batch {batch} is next: "
                + (
                    f"batches {last + 1} to {batch - 1} are missing. Was the database restored? "
                    if last < batch
                    else "the query has gone back. Was its checkpoint restored, or does another query have its name? "
                )
                + "Restore both from the same moment, or delete that row to continue without those batches"
            )
        return False

    def _last(self, connection: DatabaseConnection) -> int | None:
        style = self._paramstyle or paramstyle_of(connection)
        statement = f"SELECT batch_id FROM {self._table} WHERE query_id = ?"
        rows, _ = execute(connection, style, statement, self._query)
        return int(rows[0][0]) if rows else None

    def _execute(self, connection: DatabaseConnection, statement: str, *parameters: object) -> int:
        style = self._paramstyle or paramstyle_of(connection)
        return execute(connection, style, statement, *parameters)[1]
