"""`PartitionHooks`: functions that a stream calls as partitions come, go, and are replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafwire.stream.interfaces import SourcePartition
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.stream.partition_run import PartitionRun

Hook = Callable[[TopicPartition, int | None], Any]


@dataclass(frozen=True, slots=True)
class PartitionHooks:
    """The user's functions, sync or async; None: nothing is called. See `Pipeline.on_partitions`."""

    assigned: Hook | None = None
    revoked: Hook | None = None
    aborted: Hook | None = None


class HookCalls:
    """Calls the hooks of one run in order: for each partition `assigned`, then any `aborted`, then `revoked` once.

    A partition that comes back waits until `revoked` was called for its earlier assignment. A call goes on when the
    task that waits for it is cancelled, and the next task that needs it waits for the same call.
    """

    def __init__(self, hooks: PartitionHooks) -> None:
        self._hooks = hooks
        self._known: dict[PartitionRun, int | None] = {}  # with the position that was committed at the assignment
        self._running: dict[tuple[Hook, PartitionRun], asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._is_stopping = False

    async def assigned(self, run: PartitionRun) -> bool:
        """Before the first record of an assignment; False: the stream stops, and the partition does not begin."""
        if run in self._known:
            return True
        while any(other.where == run.where for other in self._known):
            if self._is_stopping:
                return False
            self._changed.clear()
            await self._changed.wait()
        hook = self._hooks.assigned
        committed = None if hook is None else await _committed(run.partition)
        await self._call(hook, run, committed)
        self._known[run] = committed
        return True

    def stop(self) -> None:
        """The stream stops: no partition waits for an earlier assignment."""
        self._is_stopping = True
        self._changed.set()

    async def revoked(self, run: PartitionRun) -> None:
        """After the last record of an assignment; nothing if `assigned` was not called, or this was."""
        if run not in self._known:
            return
        lost = run.partition.is_lost
        await self._call(self._hooks.revoked, run, None if lost else run.reached(self._known[run]))
        self._known.pop(run, None)
        self._changed.set()

    async def aborted(self, run: PartitionRun) -> None:
        """Before records of an aborted transaction are replayed, or the stream ends without a replay.

        A lost partition is not replayed here: `revoked` follows.
        """
        if run in self._known and run.taken and not run.partition.is_lost:
            await self._call(self._hooks.aborted, run, run.committed)

    async def close(self) -> None:
        """Cancel the calls that still run: they took longer than the stream's stop may take."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _call(self, hook: Hook | None, run: PartitionRun, committed: int | None) -> None:
        if hook is None:
            return
        task = self._running.get((hook, run))
        if task is None:
            task = self._running[hook, run] = asyncio.ensure_future(_called(hook, run.where, committed))
        try:
            await asyncio.shield(task)
        finally:
            if task.done():
                self._running.pop((hook, run), None)


async def _called(hook: Hook, where: TopicPartition, committed: int | None) -> None:
    try:
        result = hook(where, committed)
        if isinstance(result, Awaitable):
            await result
    except Exception as error:
        error.add_note(f"a hook of on_partitions() raised this for {where.topic}-{where.partition}")
        raise


async def _committed(partition: SourcePartition) -> int | None:
    """The group's committed position of a partition; None: nothing is committed, or the source does not know."""
    ask: Callable[[], Awaitable[int | None]] | None = getattr(partition, "committed", None)
    return None if ask is None else await ask()
