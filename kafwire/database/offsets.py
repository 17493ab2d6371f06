"""`DatabaseOffsets`: positions of consumers in a table of the user's own database, stored with the results.

A consumer's results and its position are committed together in one transaction of the database. So after any crash both
are there, or neither, and each record counts once. Kafka's own committed offsets are not needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafwire.database.connections import (
    DatabaseConnection,
    check_name,
    check_paramstyle,
    commits_by_itself,
    execute,
    is_missing_table,
    kind_of,
    paramstyle_of,
)
from kafwire.errors import ConfigError, OffsetsFencedError
from kafwire.integers import integer, natural
from kafwire.runtime.log import consumer_log as log
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch

_HIGHEST = (1 << 63) - 1
_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    group_id VARCHAR(249) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    partition_number INTEGER NOT NULL,
    topic_id VARCHAR(36) NOT NULL,
    next_offset BIGINT NOT NULL,
    leader_epoch INTEGER NOT NULL,
    generation BIGINT NOT NULL,
    PRIMARY KEY (group_id, topic, partition_number)
)"""


# The ids of a topic before it was recreated: a reader with one of them is a zombie.
_FORMER_TABLE = """CREATE TABLE IF NOT EXISTS {table}_former_topics (
    group_id VARCHAR(249) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    partition_number INTEGER NOT NULL,
    topic_id VARCHAR(36) NOT NULL,
    PRIMARY KEY (group_id, topic, partition_number, topic_id)
)"""


class _Stored(NamedTuple):
    next_offset: int
    generation: int
    topic_id: str

    def is_of(self, topic_id: str) -> bool:
        """Return True if the row may belong to a topic with this id; "" is an unknown id."""
        return "" in (topic_id, self.topic_id) or topic_id == self.topic_id

    def is_unchanged_by(self, new: _Stored, first: int | None) -> bool:
        """Return True if storing a batch that begins at `first` leaves the row unchanged; None: any beginning."""
        is_there = new.topic_id in ("", self.topic_id) and new[:2] == self[:2]
        return is_there and (first is None or first >= self.next_offset)


class DatabaseOffsets:
    """The positions of a group's consumers, in a database table: for results that are stored there, too.

    Every method takes the connection, uses its open transaction or begins one, and ends none: you commit. Any DB-API
    2.0 connection will do, such as sqlite3's, psycopg's or psycopg2's.

    A zombie is a consumer that still reads a partition which another one has taken over. It cannot store anything: a
    batch must begin at the stored offset or after it, and neither a generation nor an offset may decrease. `store` then
    raises `OffsetsFencedError`; roll back, and stop reading the partition. After a rollback for another reason, store
    the same batch again, or seek to `positions`: otherwise the next batch would be stored without it.

    Args:
        group: names the readers that share these offsets; a database may have several groups.
        table: the name of the table, optionally with a schema.
        topic_ids: the ids of topics, from `Client.topic(name).topic_id`. If an offset was stored for another id, the
            topic was recreated since: it counts as not stored, and readers with that id are zombies from the first
            `store` with the new one on. Ask Kafka for the ids, then make the `DatabaseOffsets` and call `start` or
            `positions`, in this order.
        paramstyle: the connection's parameter style, by PEP 249; None: the driver's.

    Raises:
        ConfigError: an argument has a bad value.

    Example:
        >>> import sqlite3
        >>> from kafwire.database import DatabaseOffsets
        >>> database = sqlite3.connect(":memory:")
        >>> offsets = DatabaseOffsets("billing")
        >>> offsets.create_table(database)
        >>> offsets.store(database, {kafwire.TopicPartition("orders", 0): 3})
        >>> database.commit()
        >>> offsets.start(database, [("orders", 0), ("orders", 1)])
        {TopicPartition(topic='orders', partition=0): 3, TopicPartition(topic='orders', partition=1): 'earliest'}
        >>> database.close()
    """

    def __init__(
        self,
        group: str,
        *,
        table: str = "kafka_offsets",
        topic_ids: Mapping[str, uuid.UUID] | None = None,
        paramstyle: str | None = None,
    ) -> None:
        if not isinstance(group, str) or not group:
            raise ConfigError(f"group={group!r}: it must be a non-empty str")
        self._group = group
        self._table = check_name(table)
        self._topic_ids = {topic: str(number) for topic, number in (topic_ids or {}).items()}
        self._paramstyle = None if paramstyle is None else check_paramstyle(paramstyle)
        self._first_seen: dict[TopicPartition, str] = {}  # the stored topic ids when `positions` first read them

    def create_table(self, connection: DatabaseConnection) -> None:
        """Create the tables, unless they exist: one for offsets, and one for the ids of former topics.

        An existing table of offsets keeps its rows.

        Args:
            connection: a connection to the database.

        Example:
            >>> import sqlite3
            >>> from kafwire.database import DatabaseOffsets
            >>> database = sqlite3.connect(":memory:")
            >>> DatabaseOffsets("billing").create_table(database)
            >>> database.commit()
            >>> database.close()
        """
        for statement in (_TABLE, _FORMER_TABLE):
            self._execute(connection, statement.format(table=self._table))

    def positions(
        self, connection: DatabaseConnection, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Read the stored offsets.

        Args:
            connection: a connection to the database.
            partitions: the partitions.

        Returns:
            For each partition that has one, the offset of the next record to read.

        Raises:
            OffsetsFencedError: the topic was recreated, and the id in `topic_ids` is the former one. Ask Kafka for the
                current one, and make another `DatabaseOffsets`.
            ConfigError: the topic was recreated, and the table of former topics is missing: call `create_table`.

        Example:
            >>> import sqlite3
            >>> from kafwire.database import DatabaseOffsets
            >>> database = sqlite3.connect(":memory:")
            >>> offsets = DatabaseOffsets("billing")
            >>> offsets.create_table(database)
            >>> offsets.positions(database, [("orders", 0)])
            {}
            >>> database.close()
        """
        wanted = {TopicPartition(topic, number) for topic, number in partitions}
        rows = self._stored(connection)
        for where in wanted:
            self._first_seen.setdefault(where, rows[where].topic_id if where in rows else "")
        found = {}
        for where, stored in rows.items():
            if where not in wanted:
                continue
            if stored.is_of(self._topic_ids.get(where.topic, "")):
                found[where] = stored.next_offset
                continue
            if not self._may_replace(connection, where, stored):
                raise self._former(where, stored)
            log.warning(
                "group %r: topic %r was recreated since offset %d of partition %d was stored: the offset is ignored",
                self._group,
                where.topic,
                stored.next_offset,
                where.partition,
                group=self._group,
                topic=where.topic,
                partition=where.partition,
                offset=stored.next_offset,
            )
        return found

    def _may_replace(self, connection: DatabaseConnection, where: TopicPartition, stored: _Stored) -> bool:
        """Return True if this reader's topic is newer than the stored one.

        Topic ids have no order, so a reader's id is newer if it was never replaced, and if the stored id is the one
        that this reader found when it began. A reader that has not called `positions` cannot know the latter.
        """
        if self._first_seen.get(where, stored.topic_id) != stored.topic_id:
            return False
        statement = (
            f"SELECT topic_id FROM {self._table}_former_topics "
            "WHERE group_id = ? AND topic = ? AND partition_number = ? AND topic_id = ?"
        )
        topic_id = self._topic_ids[where.topic]
        try:
            rows, _ = execute(connection, self._style(connection), statement, self._group, *where, topic_id)
        except Exception as error:
            if not is_missing_table(connection, error):
                raise
            raise ConfigError(
                f"topic {where.topic!r} was recreated, and table {self._table}_former_topics is missing: roll back, "
                f"and call create_table(), which keeps the offsets: {error}"
            ) from error
        return not rows

    def _former(self, where: TopicPartition, stored: _Stored) -> OffsetsFencedError:
        return OffsetsFencedError(
            f"group {self._group!r}, {where.topic}-{where.partition}: offset {stored.next_offset} was stored for topic "
            f"id {stored.topic_id}, and this reader has {self._topic_ids[where.topic]}: the topic was recreated. Roll "
            "back, and stop reading it. To continue, ask Kafka for the topic's id, and make a new DatabaseOffsets",
            topic=where.topic,
            partition=where.partition,
            offset=stored.next_offset,
            generation=stored.generation,
        )

    def start(
        self, connection: DatabaseConnection, partitions: Iterable[tuple[str, int]], *, otherwise: str = "earliest"
    ) -> dict[TopicPartition, int | str]:
        """Return where to begin reading, for `Consumer(assign=..., start=...)`.

        Args:
            connection: a connection to the database.
            partitions: the partitions.
            otherwise: where a partition without a stored offset begins: "earliest" or "latest". Until an offset is
                stored, each start with "latest" skips the records since the start before.

        Returns:
            For each partition the stored offset, or `otherwise`.

        Raises:
            ConfigError: `otherwise` is none of these.
        """
        if otherwise not in ("earliest", "latest"):
            raise ConfigError(f'otherwise={otherwise!r}: allowed: "earliest", "latest"')
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        found = self.positions(connection, wanted)
        return {where: found.get(where, otherwise) for where in wanted}

    def store(
        self,
        connection: DatabaseConnection,
        done: Batch | Iterable[Batch] | Mapping[TopicPartition, int],
        *,
        generation: int = 0,
        leader_epochs: Mapping[TopicPartition, int] | None = None,
        rewind: bool = False,
    ) -> None:
        """Store the position, in the transaction that stores the results.

        Give the processed batches: then a second reader of the same partition is detected even if both have the same
        generation. A mapping, such as the one of `Consumer.processed()`, is checked only by generation and offset.

        Args:
            connection: the connection with the open transaction; you commit it.
            done: a batch, several, or the offset of the next record to read of each partition.
            generation: a number that increases with each assignment of the partition. Offsets of a higher generation
                are not overwritten. A group's generation begins at 1 again when Kafka has deleted the group.
            leader_epochs: the leader epochs of the last records, where they are known.
            rewind: let offsets decrease, to read records again.

        Raises:
            OffsetsFencedError: another reader has stored more, or under a later generation, or for a topic that was
                recreated since. Roll back.
            ConfigError: an offset or the generation is not valid; a batch names no topic; the connection commits each
                statement by itself, or does not report how many rows a statement has changed; or the topic was
                recreated, and the table of former topics is missing: call `create_table`.
        """
        number = natural(generation)
        if number is None:
            raise ConfigError(f"generation={generation!r}: it must be a whole number from 0 to 2**63 - 1")
        if commits_by_itself(connection):
            raise ConfigError(
                "this connection commits each statement by itself, so the offsets would be stored without the results "
                "that belong to them: begin a transaction first, or turn autocommit off"
            )
        for where, (first, last) in sorted(_progress(done).items()):
            epoch = integer(given := (leader_epochs or {}).get(where, -1))
            if epoch is None:
                raise ConfigError(f"leader_epochs[{where[0]}-{where[1]}]={given!r}: it must be a whole number")
            self._store(connection, where, first, last, generation=number, epoch=epoch, rewind=rewind)

    def _store(
        self,
        connection: DatabaseConnection,
        where: TopicPartition,
        first: int,
        last: int,
        *,
        generation: int,
        epoch: int,
        rewind: bool,
    ) -> None:
        """Update the row of a partition if the conditions hold.

        The database locks it until the user's transaction ends.
        """
        topic_id = self._topic_ids.get(where.topic, "")
        condition, limits = _condition(first, topic_id, rewind=rewind)
        learnt, ids = (", topic_id = ?", (topic_id,)) if topic_id else ("", ())
        changed = self._execute(
            connection,
            f"UPDATE {self._table} SET next_offset = ?, leader_epoch = ?, generation = ?{learnt} "
            f"WHERE group_id = ? AND topic = ? AND partition_number = ? AND generation <= ?{condition}",
            *(last, epoch, generation, *ids, self._group, *where, generation, *limits),
        )
        if self._is_counted(changed):
            return
        stored = self._stored(connection).get(where)
        new = _Stored(last, generation, topic_id)
        if stored is None:
            if self._insert(connection, where, new, epoch):
                return
            stored = self._stored(connection).get(where)
        elif not stored.is_of(topic_id):
            self._replace(connection, where, stored, first, new, epoch)
            return
        elif stored.is_unchanged_by(new, None if rewind else first):
            return  # MySQL counts only rows whose values changed
        raise self._fenced(where, stored or new, first, new)

    def _insert(self, connection: DatabaseConnection, where: TopicPartition, new: _Stored, epoch: int) -> bool:
        """Insert the first row of a partition; return True if that was done.

        Of two first readers, the database makes the second one wait, and refuses its row.
        """
        ignored = _ignored(connection)
        inserted = self._execute(
            connection,
            f"INSERT INTO {self._table} "
            "(group_id, topic, partition_number, topic_id, next_offset, leader_epoch, generation) "
            f"VALUES (?, ?, ?, ?, ?, ?, ?){ignored}",
            *(self._group, *where, new.topic_id, new.next_offset, epoch, new.generation),
        )
        return self._is_counted(inserted) or not ignored

    def _replace(
        self,
        connection: DatabaseConnection,
        where: TopicPartition,
        stored: _Stored,
        first: int,
        new: _Stored,
        epoch: int,
    ) -> None:
        """Replace the row of a former topic, and store that topic's id, so that its readers are refused."""
        if not self._may_replace(connection, where, stored):
            raise self._former(where, stored)
        changed = self._execute(
            connection,
            f"UPDATE {self._table} SET next_offset = ?, leader_epoch = ?, generation = ?, topic_id = ? "
            "WHERE group_id = ? AND topic = ? AND partition_number = ? AND topic_id = ? AND generation <= ?",
            *(new.next_offset, epoch, new.generation, new.topic_id),
            *(self._group, *where, stored.topic_id, new.generation),
        )
        if not self._is_counted(changed):
            raise self._fenced(where, self._stored(connection).get(where, stored), first, new)
        self._execute(
            connection,
            f"INSERT INTO {self._table}_former_topics (group_id, topic, partition_number, topic_id) "
            f"VALUES (?, ?, ?, ?){_ignored(connection)}",
            *(self._group, *where, stored.topic_id),
        )

    def _is_counted(self, changed: int) -> bool:
        """Return True if a statement has changed its row.

        Raises:
            ConfigError: the driver does not report it.
        """
        if changed < 0:
            raise ConfigError(
                "the driver does not report how many rows an UPDATE has changed (its rowcount is negative), which "
                "is needed to detect another reader of the partition. Roll back"
            )
        return changed > 0

    def _fenced(self, where: TopicPartition, stored: _Stored, first: int, refused: _Stored) -> OffsetsFencedError:
        again = "" if stored.generation > refused.generation else ". To read records again, store them with rewind=True"
        return OffsetsFencedError(
            f"group {self._group!r}, {where.topic}-{where.partition}: offset {stored.next_offset} was stored under "
            f"generation {stored.generation} already, so the records from {first} to {refused.next_offset} read under "
            f"generation {refused.generation} are not stored: another reader has this partition. Roll back, and stop "
            f"reading it{again}",
            topic=where.topic,
            partition=where.partition,
            offset=stored.next_offset,
            generation=stored.generation,
        )

    def _stored(self, connection: DatabaseConnection) -> dict[TopicPartition, _Stored]:
        rows, _ = execute(
            connection,
            self._style(connection),
            f"SELECT topic, partition_number, next_offset, generation, topic_id FROM {self._table} WHERE group_id = ?",
            self._group,
        )
        return {
            TopicPartition(_text(topic), int(number)): _Stored(int(offset), int(generation), _text(topic_id))
            for topic, number, offset, generation, topic_id in rows
        }

    def _execute(self, connection: DatabaseConnection, statement: str, *parameters: object) -> int:
        return execute(connection, self._style(connection), statement, *parameters)[1]

    def _style(self, connection: DatabaseConnection) -> str:
        return self._paramstyle or paramstyle_of(connection)


def _text(value: Any) -> str:
    """Return a column as text; some connections return bytes."""
    return value if isinstance(value, str) else bytes(value).decode()


def _ignored(connection: DatabaseConnection) -> str:
    """Return the end of an INSERT that ignores an existing row, if the database is known to support it."""
    return " ON CONFLICT DO NOTHING" if kind_of(connection) != "other" else ""


def _condition(first: int, topic_id: str, *, rewind: bool) -> tuple[str, tuple[object, ...]]:
    """Return the condition that a batch begins at the stored offset or after it, and has the same topic."""
    of_topic = " AND topic_id IN ('', ?)" if topic_id else ""
    not_back = "" if rewind else " AND next_offset <= ?"
    return of_topic + not_back, (*((topic_id,) if topic_id else ()), *(() if rewind else (first,)))


def _progress(
    done: Batch | Iterable[Batch] | Mapping[TopicPartition, int],
) -> dict[TopicPartition, tuple[int, int]]:
    """Return for each partition the offset of the first processed record, and of the next one to read."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    if isinstance(done, Mapping):
        for (topic, number), offset in done.items():
            position, partition = natural(offset), natural(number)
            if position is None or partition is None:
                raise ConfigError(
                    f"the offset {offset!r} of {topic}-{number} must be a whole number from 0 to 2**63 - 1"
                )
            found[TopicPartition(topic, partition)] = position, position
        return found
    batches: Any = (done,) if hasattr(done, "next_offset") else done
    for batch in batches:
        if batch.topic is None or batch.partition is None:
            raise ConfigError(
                f"{batch!r} names no topic and partition: store batches of a consumer or a scan, or "
                "{TopicPartition(topic, partition): next_offset}"
            )
        where = TopicPartition(batch.topic, batch.partition)
        # A batch on the wire may begin before the position: its first record counts.
        begin = batch[0].offset if len(batch) else batch.next_offset
        first, last = found.get(where, (begin, begin))
        found[where] = min(first, begin), max(last, batch.next_offset)
    return found
