"""Where reading a partition begins: where its user says, else where the group was, else by the reset policy."""

from __future__ import annotations

import asyncio

from kafwire.cluster.list_offsets import EARLIEST, LATEST
from kafwire.consumer.arguments import Start
from kafwire.consumer.fetcher import Fetcher
from kafwire.consumer.offset_commits import OffsetCommits
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.errors import ConfigError
from kafwire.types import Offset, Tail, TopicPartition


async def seek_to_start(
    fetcher: Fetcher, commits: OffsetCommits, cursors: list[FetchCursor], start: Start, policy: str
) -> None:
    """Give new cursors their first position: that of `start`, else what was committed, else by the reset policy."""
    by_time: dict[int, list[FetchCursor]] = {}
    tails: dict[FetchCursor, int] = {}
    undecided: list[FetchCursor] = []
    for cursor in cursors:
        where = TopicPartition(cursor.topic, cursor.partition)
        place = start.get(where) if isinstance(start, dict) else start
        if isinstance(place, Offset):
            fetcher.seek(cursor, place.offset)
        elif isinstance(place, Tail):
            tails[cursor] = place.count
        elif place is not None:
            by_time.setdefault(place, []).append(cursor)
        else:
            undecided.append(cursor)
    if undecided:
        for cursor, committed in (await commits.positions_of(undecided)).items():
            fetcher.seek(cursor, committed.offset, last_epoch=committed.leader_epoch)
            commits.note(cursor, committed.offset)
        undecided = [cursor for cursor in undecided if cursor.position < 0]
    if undecided:
        if policy == "error":
            names = ", ".join(cursor.name for cursor in undecided)
            raise ConfigError(
                f"nothing says where to begin with {names}: there is no committed offset, and "
                'auto_offset_reset is "error"; give start='
            )
        by_time.setdefault(fetcher.offset_reset.reset_time(policy), []).extend(undecided)
    if tails:
        low, high = await asyncio.gather(*(fetcher.offset_reset.offsets(tails, when) for when in (EARLIEST, LATEST)))
        for cursor, count in tails.items():
            fetcher.seek(cursor, max(low[cursor], high[cursor] - count))
    for timestamp, group in by_time.items():
        for cursor, offset in (await fetcher.offset_reset.offsets(group, timestamp)).items():
            fetcher.seek(cursor, offset)
