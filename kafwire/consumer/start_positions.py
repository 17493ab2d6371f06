"""Where reading a partition begins: where its user says, else where the group was, else by the reset policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from kafwire.cluster.list_offsets import EARLIEST, LATEST
from kafwire.consumer.arguments import Start
from kafwire.consumer.fetcher import Fetcher
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.errors import ConfigError, KafkaError
from kafwire.types import Offset, Tail, TopicPartition


async def seek_to_start(
    fetcher: Fetcher,
    commits: OffsetCommits,
    cursors: list[FetchCursor],
    start: Start,
    policy: str,
    *,
    committed_first: bool = False,
    new: Collection[tuple[str, int]] = (),
    on_nowhere: Callable[[list[FetchCursor], KafkaError], object] | None = None,
) -> None:
    """Give new cursors their first position: that of `start`, else what was committed, else by the reset policy.

    `committed_first`: of the first two the other way round. `new` are partitions that begin at their beginning where
    nothing is committed: whatever is in them came after this consumer did. `on_nowhere` hears of those that have no
    beginning, which is raised without it. Where the user seeks meanwhile, his position stays.
    """
    by_time: dict[int, list[FetchCursor]] = {}
    tails: dict[FetchCursor, int] = {}
    undecided: list[FetchCursor] = []
    if committed_first:
        await _seek_to_committed(fetcher, commits, cursors)
    for cursor in cursors:
        where = TopicPartition(cursor.topic, cursor.partition)
        if committed_first and (cursor.position >= 0 or fetcher.numbered(cursor.number) is not cursor):
            continue
        if where in new:
            by_time.setdefault(EARLIEST, []).append(cursor)
            continue
        place = start.get(where) if isinstance(start, dict) else start
        if isinstance(place, Offset):
            fetcher.seek(cursor, place.offset)
        elif isinstance(place, Tail):
            tails[cursor] = place.count
        elif place is not None:
            by_time.setdefault(place, []).append(cursor)
        else:
            undecided.append(cursor)
    if undecided and not committed_first:
        await _seek_to_committed(fetcher, commits, undecided)
        undecided = [cursor for cursor in undecided if cursor.position < 0]
    if undecided and policy == "error":
        if on_nowhere is None:
            raise _nowhere(undecided)
        for cursor in undecided:
            on_nowhere([cursor], _nowhere([cursor]))
    elif undecided:
        by_time.setdefault(fetcher.offset_reset.reset_time(policy), []).extend(undecided)
    if tails:
        low, high = await asyncio.gather(*(fetcher.offset_reset.offsets(tails, when) for when in (EARLIEST, LATEST)))
        for cursor, count in tails.items():
            if cursor.position < 0:
                fetcher.seek(cursor, max(low[cursor], high[cursor] - count))
    for timestamp, group in by_time.items():
        if committed_first:  # a leader that does not answer holds up no other partition, nor the group
            for cursor in group:
                fetcher.offset_reset.look_up(cursor, timestamp)
            continue
        for cursor, offset in (await fetcher.offset_reset.offsets(group, timestamp)).items():
            if cursor.position < 0:
                fetcher.seek(cursor, offset)


def _nowhere(cursors: Iterable[FetchCursor]) -> ConfigError:
    names = ", ".join(cursor.name for cursor in cursors)
    return ConfigError(
        f"nothing says where to begin with {names}: there is no committed offset, and "
        'auto_offset_reset is "error"; give start=, or seek'
    )


async def _seek_to_committed(fetcher: Fetcher, commits: OffsetCommits, cursors: list[FetchCursor]) -> None:
    for cursor, committed in (await commits.positions_of(cursors)).items():
        if cursor.position < 0:
            fetcher.seek(cursor, committed.offset, last_epoch=committed.leader_epoch)
        if fetcher.numbered(cursor.number) is cursor:
            commits.ledger.note_committed({cursor: committed.offset})
