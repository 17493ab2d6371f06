"""The cursors of partitions that a user names, or an error for a partition that the consumer does not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafwire.cluster.offset_spec import partition_of
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.errors import ConfigError
from kafwire.types import TopicPartition

_MOST_NAMES = 10  # partitions that an error names


def cursor_of(cursors: Mapping[tuple[str, int], FetchCursor], where: TopicPartition) -> FetchCursor:
    """Return a partition's cursor; `ConfigError` if this consumer does not read the partition."""
    cursor = cursors.get(partition_of(where))
    if cursor is None:
        names = sorted(cursor.name for cursor in cursors.values())
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        raise ConfigError(
            f"{where[0]}-{where[1]} is not read by this consumer, which reads "
            f"{', '.join(names[:_MOST_NAMES]) or 'nothing'}{more}: assign it, or wait until the group does"
        )
    return cursor


def cursors_of(
    cursors: Mapping[tuple[str, int], FetchCursor], partitions: Iterable[TopicPartition] | None
) -> list[FetchCursor]:
    """Return the cursors of these partitions, or (None) all; `ConfigError` for a partition that is not read."""
    if partitions is None:
        return list(cursors.values())
    return [cursor_of(cursors, where) for where in partitions]
