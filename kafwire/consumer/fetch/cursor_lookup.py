"""The cursors of partitions that a user names, or an error for a partition that the consumer does not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafwire.cluster.offset_spec import partition_of
from kafwire.cluster.partition_names import listed
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.errors import ConfigError
from kafwire.types import TopicPartition


def cursor_of(cursors: Mapping[tuple[str, int], FetchCursor], where: TopicPartition) -> FetchCursor:
    """Return a partition's cursor; `ConfigError` if this consumer does not read the partition."""
    cursor = cursors.get(partition_of(where))
    if cursor is None:
        names = sorted(cursor.name for cursor in cursors.values())
        raise ConfigError(
            f"{where[0]}-{where[1]} is not read by this consumer, which reads "
            f"{listed(names) or 'nothing'}: assign it, or wait until the group does"
        )
    return cursor


def cursors_of(
    cursors: Mapping[tuple[str, int], FetchCursor], partitions: Iterable[TopicPartition] | None
) -> list[FetchCursor]:
    """Return the cursors of these partitions, or (None) all; `ConfigError` for a partition that is not read."""
    if partitions is None:
        return list(cursors.values())
    return [cursor_of(cursors, where) for where in partitions]
