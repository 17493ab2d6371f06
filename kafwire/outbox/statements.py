"""The SQL of an outbox: the statements that create its table, and those of a relay. Pure.

Parameters are written as `?` (`kafwire.database.connections.marked`). Statements for PostgreSQL have no `%`, which its
drivers would take for a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from kafwire.database.connections import Kind, check_name
from kafwire.errors import ConfigError

LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one relay."""

    exists: str  # no rows of the table, or an error
    choose: str  # (limit) -> rows that were not relayed, ordered by id
    between: str  # (first, last) -> the same, with these ids
    remove: str  # (first, last): remove or mark relayed rows
    purge: str  # (seconds): delete rows relayed so long ago
    careless_ids: str  # (table) -> a row if ids could be out of order; SQLite: see `sqlite_ids`
    session: tuple[str, ...]  # settings of each connection
    longest_transaction: str  # -> age in seconds and process id of the oldest transaction; "": unsupported


def statements(kind: Kind, table: str, *, keeps: bool) -> Statements:
    """Return the statements for a kind of database.

    Args:
        kind: the kind of database.
        table: the outbox's table.
        keeps: whether relayed rows are marked, and deleted later. Marked rows are never chosen.

    Raises:
        ConfigError: the table's name is not valid, or outboxes do not support the database.
    """
    if kind == "other":
        raise ConfigError(
            "an outbox needs PostgreSQL (psycopg, psycopg2) or SQLite (sqlite3), but this connection has another "
            'driver; give database="postgresql" or "sqlite" if it leads to one of these'
        )
    check_name(table)
    is_sqlite = kind == "sqlite"
    created = "CAST(created_at AS TEXT)" if is_sqlite else "CAST(extract(epoch FROM created_at) AS text)"
    columns = f"id, topic, aggregate_key, payload, headers, {created}"
    now = "strftime('%s', 'now')" if is_sqlite else "extract(epoch FROM now())"
    return Statements(
        exists=f"SELECT {columns}, relayed_at FROM {table} WHERE 1 = 0",
        choose=f"SELECT {columns} FROM {table} WHERE relayed_at IS NULL ORDER BY id LIMIT ?",
        between=f"SELECT {columns} FROM {table} WHERE id BETWEEN ? AND ? AND relayed_at IS NULL ORDER BY id",
        remove=(
            f"UPDATE {table} SET relayed_at = {now} WHERE id BETWEEN ? AND ? AND relayed_at IS NULL"
            if keeps
            else f"DELETE FROM {table} WHERE id BETWEEN ? AND ?"
        ),
        purge=f"DELETE FROM {table} WHERE relayed_at <= {now} - ?",
        careless_ids="" if is_sqlite else _POSTGRESQL_IDS,
        session=() if is_sqlite else (_DURABLE, _LOCK_TIMEOUT),
        longest_transaction="" if is_sqlite else _LONGEST_TRANSACTION,
    )


# A sequence with a cache reserves ids for each session: a row written later could get a lower one.
_POSTGRESQL_IDS = (
    "SELECT cache_size FROM pg_sequences WHERE cache_size > 1 AND "
    "CAST(quote_ident(schemaname) || '.' || quote_ident(sequencename) AS regclass) = "
    "CAST(pg_get_serial_sequence(?, 'id') AS regclass)"
)
# If a crash of the database undid a removal, its rows would be relayed again.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
# A statement waits this long for another transaction's lock on a row, and so does `Outbox.stop`.
LOCK_TIMEOUT_MS = 1000
_LOCK_TIMEOUT = (
    f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT_MS}', false) FROM pg_settings WHERE name = 'lock_timeout' "
    f"AND CAST(setting AS integer) NOT BETWEEN 1 AND {LOCK_TIMEOUT_MS}"
)
_LONGEST_TRANSACTION = (
    "SELECT CAST(extract(epoch FROM clock_timestamp() - xact_start) AS double precision), pid FROM pg_stat_activity "
    "WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND xact_start IS NOT NULL "
    "AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY xact_start LIMIT 1"
)


class LetterStatements(NamedTuple):
    """The statements that move one row to a dead letter table."""

    exists: str  # no rows of that table, or an error
    insert: str  # (reason, id)
    remove: str  # (id): from the outbox


def letter_statements(table: str, letters: str) -> LetterStatements:
    """Return the statements for an outbox's table and a dead letter table.

    Raises:
        ConfigError: a name is not valid.
    """
    check_name(table)
    columns = "id, topic, aggregate_key, payload, headers, created_at"
    where = "WHERE id = ? AND relayed_at IS NULL"
    return LetterStatements(
        exists=f"SELECT {columns}, reason FROM {check_name(letters)} WHERE 1 = 0",
        insert=f"INSERT INTO {letters} ({columns}, reason) SELECT {columns}, CAST(? AS text) FROM {table} {where}",
        remove=f"DELETE FROM {table} {where}",
    )


def listen_statement(channel: str) -> str:
    """Return a LISTEN statement, quoted: PostgreSQL folds the case of unquoted names, but not `pg_notify`'s channel.

    Raises:
        ConfigError: the name is not valid, or longer than PostgreSQL's limit.
    """
    if len(check_name(channel)) > LONGEST_NAME:
        raise ConfigError(
            f"channel={channel!r}: PostgreSQL truncates names after {LONGEST_NAME} characters; give a shorter channel"
        )
    return f'LISTEN "{channel}"'


def sqlite_schema(table: str = "outbox") -> str:
    """Return the SQL that creates an outbox's table in SQLite, for `sqlite3.Connection.executescript`.

    Args:
        table: its name.

    Returns:
        SQL statements. They change nothing if the table exists.

    Raises:
        ConfigError: the name is not valid, or has a schema.

    Example:
        >>> import sqlite3
        >>> from kafwire.outbox import sqlite_schema
        >>> with sqlite3.connect(":memory:") as database:
        ...     cursor = database.executescript(sqlite_schema())
        ...     cursor = database.execute(
        ...         "INSERT INTO outbox (topic, aggregate_key, payload) VALUES ('orders', '17', 'ordered: a lamp')"
        ...     )
        >>> cursor.lastrowid
        1
        >>> database.close()
    """
    if "." in check_name(table):
        raise ConfigError(f"{table!r}: in SQLite the outbox is in the main database; remove the schema")
    return f"""CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    aggregate_key,
    payload,
    headers TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    relayed_at REAL
);
CREATE INDEX IF NOT EXISTS {table}_relayed ON {table} (relayed_at) WHERE relayed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS {table}_waiting ON {table} (id) WHERE relayed_at IS NULL;
"""


def postgresql_schema(table: str = "outbox", *, channel: str | None = "outbox", locks_keys: bool = False) -> str:
    """Return the SQL that creates an outbox's table in PostgreSQL, 13 or newer.

    Args:
        table: its name, optionally with a schema.
        channel: the channel that a trigger notifies of new rows, for `Outbox(channel=...)`; None: no trigger.
        locks_keys: True: a trigger locks each row's topic and key until its transaction ends, and assigns the id after
            that. Then rows of a key have their ids in the order of commits, in any transaction. Otherwise the
            transactions must ensure that themselves.

    Returns:
        SQL statements, separated by semicolons.

    Raises:
        ConfigError: a name is not valid.

    Example:
        >>> from kafwire.outbox import postgresql_schema
        >>> print(postgresql_schema(channel=None).partition("(")[0])
        CREATE TABLE outbox
    """
    check_name(table)
    made = f"""CREATE TABLE {table} (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    aggregate_key text,
    payload bytea,
    headers jsonb,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    relayed_at double precision
);
CREATE INDEX ON {table} (relayed_at) WHERE relayed_at IS NOT NULL;
CREATE INDEX ON {table} (id) WHERE relayed_at IS NULL;
"""
    if channel is not None:
        made += _trigger(table, "notify", "AFTER INSERT", "STATEMENT", _notifying(channel))
    if locks_keys:
        made += _trigger(table, "order", "BEFORE INSERT", "ROW", _locking(table))
    return made


def dead_letter_schema(table: str = "outbox_dead_letters", *, database: Literal["postgresql", "sqlite"]) -> str:
    """Return the SQL that creates a table for rows that Kafka refuses, for `Outbox(dead_letter_table=...)`.

    Args:
        table: its name, optionally with a schema.
        database: the database of the statement.

    Returns:
        An SQL statement. It changes nothing if the table exists.

    Raises:
        ConfigError: the name is not valid, or outboxes do not support the database.

    Example:
        >>> import sqlite3
        >>> from kafwire.outbox import dead_letter_schema
        >>> with sqlite3.connect(":memory:") as database:
        ...     cursor = database.executescript(dead_letter_schema(database="sqlite"))
        ...     cursor = database.execute("SELECT id, topic, reason FROM outbox_dead_letters")
        >>> database.close()
    """
    if database not in _LETTER_TYPES:
        raise ConfigError(f"database={database!r}: allowed: {', '.join(map(repr, _LETTER_TYPES))}")
    key, data, headers, moment, now = _LETTER_TYPES[database]
    return f"""CREATE TABLE IF NOT EXISTS {check_name(table)} (
    id bigint NOT NULL,
    topic text,
    aggregate_key{key},
    payload{data},
    headers {headers},
    created_at {moment},
    reason text NOT NULL,
    refused_at {moment} NOT NULL DEFAULT {now}
);
"""


# The types of key, payload, headers and times, and the expression for the current time.
_LETTER_TYPES = {
    "postgresql": (" text", " bytea", "jsonb", "timestamptz", "clock_timestamp()"),
    "sqlite": ("", "", "text", "text", "(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"),
}


def _last(table: str) -> str:
    return table.rpartition(".")[2]


def _trigger(table: str, name: str, when: str, each: str, body: str) -> str:
    return f"""CREATE FUNCTION {table}_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
{body}
END $$;
CREATE TRIGGER {_last(table)}_{name} {when} ON {table} FOR EACH {each} EXECUTE FUNCTION {table}_{name}();
"""


def _notifying(channel: str) -> str:
    listen_statement(channel)  # checks the name
    return f"""    PERFORM pg_notify('{channel}', '');
    RETURN NULL;"""


def _locking(table: str) -> str:
    return f"""    IF NEW.aggregate_key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(NEW.topic || ' ' || NEW.aggregate_key, 0));
        NEW.id := nextval(pg_get_serial_sequence('{table}', 'id'));
    END IF;
    RETURN NEW;"""
