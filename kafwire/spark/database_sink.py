"""`to_database`: the batches of a stream in a database, each exactly once, for `foreachBatch`.

Spark delivers a batch again if the driver ends between the function's return and the query's commit. The batch's number
is stored in the transaction of its rows, so the second delivery is skipped without running the batch.
"""

from __future__ import annotations

import logging
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafwire.database.batches import DatabaseBatches
from kafwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    Store = Callable[[Any, Iterator[Any]], object]

log = logging.getLogger("kafwire.spark")

_ROWS = 1000  # rows of one executemany
_QUERY_ID = "sql.streaming.queryId"


def to_database(
    connect: Callable[[], Any],
    store: str | Store,
    *,
    query: str | None = None,
    table: str = "kafka_batches",
    paramstyle: str | None = None,
) -> DatabaseSink:
    """Make a function for `foreachBatch` that stores each batch of a stream in a database exactly once.

    The driver fetches the rows of a batch, one partition after another, and stores them over one connection and in one
    transaction, together with the number of the batch in a table of two columns, which is created. A batch that the
    database holds is skipped. The rows pass through the driver: aggregate before, and limit a batch by
    `maxOffsetsPerTrigger`.

    Args:
        connect: a function that opens a DB-API 2.0 connection with autocommit off, such as one of sqlite3 or psycopg.
            It is called on the driver for each batch.
        store: a statement with the parameters of the driver, run with each row, or a function of the connection and an
            iterator of the rows, which must not commit.
        query: names the query; None: Spark's id of the query, which lies in its checkpoint. Two queries with one name
            would skip each other's batches, and with Spark Connect a name is required.
        table: the table that holds the last batch of each query; a schema may precede the name.
        paramstyle: the placeholder style of the connection's driver (PEP 249); None: ask the driver.

    Returns:
        The function.

    Raises:
        ConfigError: an argument has a bad value.

    Example:
        >>> import sqlite3
        >>> from kafwire.spark import to_database
        >>> sink = to_database(lambda: sqlite3.connect("flights.db"), "INSERT INTO delays VALUES (?, ?)")
        >>> delays = spark.readStream.table("delays").select("origin", "delay")
        >>> query = delays.writeStream.foreachBatch(sink).option("checkpointLocation", "checkpoint").start()
    """
    return DatabaseSink(connect, store, query, table, paramstyle)


class DatabaseSink:
    """The function that `to_database` makes."""

    def __init__(
        self, connect: Callable[[], Any], store: str | Store, query: str | None, table: str, paramstyle: str | None
    ) -> None:
        if not callable(connect):
            raise ConfigError(f"connect={connect!r}: a function that opens a connection is needed")
        if not callable(store) and (not isinstance(store, str) or not store.strip()):
            raise ConfigError(f"store={store!r}: a statement, or a function of the connection and the rows, is needed")
        self._connect = connect
        self._store = store
        self._query = query
        self._table, self._paramstyle = table, paramstyle
        self._created: set[str] = set()
        DatabaseBatches(query or "any", table=table, paramstyle=paramstyle)  # it checks the arguments

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Store one batch, unless the database holds it."""
        query = self._query or _query_id(frame)
        batches = DatabaseBatches(query, table=self._table, paramstyle=self._paramstyle)
        with closing(self._connect()) as connection:
            if query not in self._created:
                batches.create_table(connection)
                self._created.add(query)
            if not batches.begin(connection, batch):
                log.info("batch %d of query %s is in the database already; it is skipped", batch, query)
                return
            try:
                self._store_rows(connection, frame.toLocalIterator(prefetchPartitions=True))
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _store_rows(self, connection: Any, rows: Iterator[Any]) -> None:
        if not isinstance(self._store, str):
            self._store(connection, rows)
            return
        cursor = connection.cursor()
        try:
            while chunk := list(islice(rows, _ROWS)):
                cursor.executemany(self._store, chunk)
        finally:
            cursor.close()


def _query_id(frame: DataFrame) -> str:
    """Spark's id of the query whose batch this is."""
    try:
        found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and says so by an error of its own
        found = None
    if not found:
        raise ConfigError(
            "Spark does not say which query this batch belongs to: give to_database(query=) a name that no other query "
            "of this database has, or call it by foreachBatch"
        )
    return str(found)
