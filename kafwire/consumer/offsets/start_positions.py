"""Start positions of partitions: the user's `start`, else the committed offset, else the reset policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.cluster.list_offsets import EARLIEST, PATIENCE_MS, Place, may_pass
from kafwire.cluster.offset_spec import ResolvedOffset
from kafwire.config import ConsumerConfig
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.consumer.offsets.known_topics import NewPartition
from kafwire.errors import ConfigError, KafkaError
from kafwire.types import Offset, Tail, TopicPartition

# One start for all partitions, or a dict by partition; None: no start is given.
Start = ResolvedOffset | dict[TopicPartition, ResolvedOffset] | None


async def seek_to_start(
    fetcher: Fetcher,
    commits: OffsetCommits,
    cursors: list[FetchCursor],
    start: Start,
    config: ConsumerConfig,
    *,
    new: Mapping[FetchCursor, NewPartition],
    of_group: bool = False,
    on_nowhere: Callable[[list[FetchCursor], KafkaError], object] | None = None,
) -> dict[FetchCursor, KafkaError]:
    """Give new cursors their first position: `start`, else the committed offset, else by the reset policy.

    With `of_group`, and for `new` partitions, the committed offset comes before `start`; `NewPartition.begins` gives
    the next choice of a new one. `on_nowhere` gets cursors without a start, and the error; without it, the error is
    raised. A seek by the user in the meantime stays.

    Returns the cursors whose committed offset is not available yet (as during an open transaction), and the errors.
    """
    committed = _CommittedPositions(fetcher, commits, 0 if of_group else PATIENCE_MS, on_nowhere)
    now_ms = fetcher.cluster.engine.clock.time_ns() // 1_000_000
    by_place: dict[Place | Tail, list[FetchCursor]] = {}
    by_policy: dict[str, list[FetchCursor]] = {}
    undecided: list[FetchCursor] = []
    committed_first = [cursor for cursor in cursors if of_group or cursor in new]
    await committed.seek(committed_first)
    for cursor in cursors:
        if cursor in committed_first and (cursor.position >= 0 or fetcher.numbered(cursor.number) is not cursor):
            continue
        if cursor in committed.failed:
            continue
        where = TopicPartition(cursor.topic, cursor.partition)
        place, policy = start.get(where) if isinstance(start, dict) else start, config.auto_offset_reset
        if cursor in new:
            place, policy = new[cursor].begins(place, policy, config.auto_offset_reset_new_partitions, now_ms)
            fetcher.offset_reset.announce(cursor, new[cursor].news.value)
        if isinstance(place, Offset):
            fetcher.seek(cursor, place.offset)
        elif place is not None:
            by_place.setdefault(place, []).append(cursor)
        elif cursor in committed_first:
            by_policy.setdefault(policy, []).append(cursor)
        else:
            undecided.append(cursor)
    await committed.seek(undecided)
    left = [cursor for cursor in undecided if cursor.position < 0 and cursor not in committed.failed]
    by_policy.setdefault(config.auto_offset_reset, []).extend(left)
    for cursor in (lost := by_policy.pop("error", [])):
        if on_nowhere is None:
            raise _nowhere(lost)
        on_nowhere([cursor], _nowhere([cursor]))
    for policy, group in by_policy.items():
        by_place.setdefault(fetcher.offset_reset.reset_time(policy), []).extend(group)
    for where_to, group in by_place.items():
        if of_group:  # so that a leader that does not respond delays neither other partitions nor the group
            for cursor in group:
                fetcher.offset_reset.look_up(cursor, where_to)
            continue
        found, late = await fetcher.offset_reset.available(group, where_to)
        for cursor, offset in found.items():
            if cursor.position < 0:
                fetcher.offset_reset.begin(cursor, offset, is_earliest=where_to == EARLIEST)
        fetcher.offset_reset.look_up_late({c: error for c, error in late.items() if c.position < 0}, where_to)
    return {cursor: error for cursor, error in committed.failed.items() if may_pass(error)}


def _nowhere(cursors: Iterable[FetchCursor]) -> ConfigError:
    names = ", ".join(cursor.name for cursor in cursors)
    return ConfigError(
        f"nothing says where to begin with {names}: there is no committed offset, and "
        'auto_offset_reset is "error"; give start=, or seek'
    )


class _CommittedPositions:
    """Seeks of cursors to their committed offsets; `failed` has the cursors without a response, and the errors."""

    def __init__(
        self,
        fetcher: Fetcher,
        commits: OffsetCommits,
        patience_ms: float,
        on_nowhere: Callable[[list[FetchCursor], KafkaError], object] | None,
    ) -> None:
        self.failed: dict[FetchCursor, KafkaError] = {}
        self._fetcher = fetcher
        self._commits = commits
        self._patience_ms = patience_ms
        self._on_nowhere = on_nowhere

    async def seek(self, cursors: list[FetchCursor]) -> None:
        """Seek each cursor without a position. A permanent error goes to `on_nowhere`, or is raised."""
        if not cursors:
            return
        found, failed = await self._commits.positions_of(cursors, patience_ms=self._patience_ms)
        for cursor, error in failed.items():
            if may_pass(error):
                continue
            if self._on_nowhere is None:
                raise error
            self._on_nowhere([cursor], error)
        self.failed |= failed
        for cursor, committed in found.items():
            if cursor.position < 0:
                self._fetcher.seek(cursor, committed.offset, last_epoch=committed.leader_epoch)
            if self._fetcher.numbered(cursor.number) is cursor:
                self._commits.ledger.note_committed({cursor: committed.offset})
