"""`DatabaseOffsets`: positions of consumers in a table of the user's own database, stored with the results.

What a consumer makes of records, and how far it has read, are committed together in one transaction of the database. So
after any crash both are there, or neither, and each record counts once. Kafka's own committed offsets are not needed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafwire.database.connections import (
    Connection,
    check_name,
    check_paramstyle,
    commits_by_itself,
    execute,
    kind_of,
    paramstyle_of,
)
from kafwire.errors import ConfigError, OffsetsFencedError
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch

log = logging.getLogger("kafwire")

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


class _Stored(NamedTuple):
    next_offset: int
    generation: int
    topic_id: str

    def is_unchanged_by(self, new: _Stored, first: int | None) -> bool:
        """Whether a row would be as it is after what was read from `first` on; None: from anywhere."""
        is_there = new.topic_id in ("", self.topic_id) and new[:2] == self[:2]
        return is_there and (first is None or first >= self.next_offset)


class DatabaseOffsets:
    """Where the consumers of a group go on, in a table of a database: for results that are stored there, too.

    Every method takes the connection, uses the transaction that is open on it or begins one, and ends none: you commit.
    Any DB-API 2.0 connection will do, such as sqlite3's, psycopg's or psycopg2's.

    A zombie is a consumer that goes on with a partition which another one has taken over. It cannot store anything:
    a batch has to begin at the stored offset or after it, a generation may not fall, and an offset may not either.
    `store` raises `OffsetsFencedError` then; roll back, and stop reading the partition. After a rollback for another
    reason store the same batch again, or seek to `positions`: the next batch would be stored without it.

    Args:
        group: names the readers that share these offsets; a database may have several groups.
        table: the name of the table, also with a schema.
        topic_ids: the ids of topics, as `Client.topic(name).topic_id` has them. Where an offset was stored for another
            id, the topic was deleted and made anew since: it counts as not stored.
        paramstyle: of the connection's driver, as PEP 249 calls it; None: as the driver says.

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
            raise ConfigError(f"group={group!r}: text that is not empty is needed")
        self._group = group
        self._table = check_name(table)
        self._topic_ids = {topic: str(number) for topic, number in (topic_ids or {}).items()}
        self._paramstyle = None if paramstyle is None else check_paramstyle(paramstyle)

    def create_table(self, connection: Connection) -> None:
        """Create the table, unless it is there.

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
        self._execute(connection, _TABLE.format(table=self._table))

    def positions(self, connection: Connection, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Read the stored offsets.

        Args:
            connection: a connection to the database.
            partitions: the partitions.

        Returns:
            For each partition that has one, the offset of the next record to read.

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
        found = {}
        for where, stored in self._stored(connection).items():
            if where not in wanted:
                continue
            known = self._topic_ids.get(where.topic, stored.topic_id)
            if known == stored.topic_id or not stored.topic_id:
                found[where] = stored.next_offset
            else:
                log.warning(
                    "group %r: topic %r was made anew since offset %d of partition %d was stored: it does not count",
                    self._group,
                    where.topic,
                    stored.next_offset,
                    where.partition,
                )
        return found

    def start(
        self, connection: Connection, partitions: Iterable[tuple[str, int]], *, otherwise: str = "earliest"
    ) -> dict[TopicPartition, int | str]:
        """Say where to begin reading, for `Consumer(assign=..., start=...)`.

        Args:
            connection: a connection to the database.
            partitions: the partitions.
            otherwise: where a partition without a stored offset begins: "earliest" or "latest". Until something is
                stored, each start with "latest" skips what came since the one before.

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
        connection: Connection,
        done: Batch | Iterable[Batch] | Mapping[TopicPartition, int],
        *,
        generation: int = 0,
        leader_epochs: Mapping[TopicPartition, int] | None = None,
        rewind: bool = False,
    ) -> None:
        """Store how far was read, in the transaction that stores what came of it.

        Give the batches that were processed: then a second reader of the same partition is found out even if both have
        the same generation. A mapping, such as `Consumer.processed()` has, is checked by generation and offset only.

        Args:
            connection: the connection with the open transaction; you commit it.
            done: a batch, several, or the offset of the next record to read of each partition.
            generation: a number that rises with each assignment of the partition. What was stored under a higher one is
                not overwritten. A group's generation begins at 1 again when Kafka has deleted the group.
            leader_epochs: the leader epochs of the last records, where they are known.
            rewind: let offsets go back, to read records again.

        Raises:
            OffsetsFencedError: another reader has stored more, or under a later generation. Roll back.
            ConfigError: an offset or the generation is not valid; the connection commits each statement by itself, or
                does not tell how many rows a statement has changed.
        """
        if isinstance(generation, bool) or not isinstance(generation, int) or not 0 <= generation <= _HIGHEST:
            raise ConfigError(f"generation={generation!r}: a whole number from 0 is needed")
        if commits_by_itself(connection):
            raise ConfigError(
                "this connection commits each statement by itself, so the offsets would be stored without the results "
                "that belong to them: begin a transaction first, or turn autocommit off"
            )
        for where, (first, last) in sorted(_progress(done).items()):
            epoch = (leader_epochs or {}).get(where, -1)
            self._store(connection, where, first, last, generation=generation, epoch=epoch, rewind=rewind)

    def _store(
        self,
        connection: Connection,
        where: TopicPartition,
        first: int,
        last: int,
        *,
        generation: int,
        epoch: int,
        rewind: bool,
    ) -> None:
        """Update the row of a partition if it permits; the database locks it until the user's transaction ends."""
        topic_id = self._topic_ids.get(where.topic, "")
        condition, limits = ("", ()) if rewind else _not_back(first, topic_id)
        learnt, ids = (", topic_id = ?", (topic_id,)) if topic_id else ("", ())
        changed = self._execute(
            connection,
            f"UPDATE {self._table} SET next_offset = ?, leader_epoch = ?, generation = ?{learnt} "
            f"WHERE group_id = ? AND topic = ? AND partition_number = ? AND generation <= ?{condition}",
            *(last, epoch, generation, *ids, self._group, *where, generation, *limits),
        )
        if changed > 0:
            return
        if changed < 0:
            raise ConfigError(
                "the driver does not tell how many rows an UPDATE has changed (its rowcount is negative), which is how "
                "another reader of the partition is found out. Roll back"
            )
        stored = self._stored(connection).get(where)
        new = _Stored(last, generation, topic_id)
        if stored is None:
            # Two first readers: the database has the second one wait, and refuses it.
            ignored = " ON CONFLICT DO NOTHING" if kind_of(connection) != "other" else ""
            inserted = self._execute(
                connection,
                f"INSERT INTO {self._table} "
                "(group_id, topic, partition_number, topic_id, next_offset, leader_epoch, generation) "
                f"VALUES (?, ?, ?, ?, ?, ?, ?){ignored}",
                *(self._group, *where, topic_id, last, epoch, generation),
            )
            if inserted or not ignored:
                return
            stored = self._stored(connection).get(where)
        elif stored.is_unchanged_by(new, None if rewind else first):
            return  # MySQL counts the rows that are different afterwards
        raise self._fenced(where, stored or new, first, new)

    def _fenced(self, where: TopicPartition, stored: _Stored, first: int, refused: _Stored) -> OffsetsFencedError:
        again = "" if stored.generation > refused.generation else ". To read records again, store them with rewind=True"
        return OffsetsFencedError(
            f"group {self._group!r}, {where.topic}-{where.partition}: offset {stored.next_offset} was stored under "
            f"generation {stored.generation} already, so what was read from {first} to {refused.next_offset} under "
            f"generation {refused.generation} is not stored: another reader has this partition. Roll back, and stop "
            f"reading it{again}",
            topic=where.topic,
            partition=where.partition,
            offset=stored.next_offset,
            generation=stored.generation,
        )

    def _stored(self, connection: Connection) -> dict[TopicPartition, _Stored]:
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

    def _execute(self, connection: Connection, statement: str, *parameters: object) -> int:
        return execute(connection, self._style(connection), statement, *parameters)[1]

    def _style(self, connection: Connection) -> str:
        return self._paramstyle or paramstyle_of(connection)


def _text(value: Any) -> str:
    """Text of a column, which some connections give as bytes."""
    return value if isinstance(value, str) else bytes(value).decode()


def _not_back(first: int, topic_id: str) -> tuple[str, tuple[object, ...]]:
    """The condition that what was read begins at the stored offset or after it, unless that is of a former topic."""
    if not topic_id:
        return " AND next_offset <= ?", (first,)
    return " AND (next_offset <= ? OR (topic_id <> '' AND topic_id <> ?))", (first, topic_id)


def _progress(
    done: Batch | Iterable[Batch] | Mapping[TopicPartition, int],
) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition the offset of the first record that was processed, and that of the next one to read."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    if isinstance(done, Mapping):
        for (topic, number), offset in done.items():
            if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= _HIGHEST:
                raise ConfigError(f"the offset {offset!r} of {topic}-{number}: a whole number from 0 is needed")
            found[TopicPartition(topic, number)] = offset, offset
        return found
    batches: Any = (done,) if hasattr(done, "next_offset") else done
    for batch in batches:
        where = TopicPartition(batch.topic or "", -1 if batch.partition is None else batch.partition)
        # A wire batch may begin before the position: its first record counts.
        begin = batch[0].offset if len(batch) else batch.next_offset
        first, last = found.get(where, (begin, begin))
        found[where] = min(first, begin), max(last, batch.next_offset)
    return found
