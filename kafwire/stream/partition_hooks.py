"""`PartitionHooks`: functions that a stream calls as partitions are assigned, revoked and replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire.stream.interfaces import SourcePartition
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.stream.partition_run import PartitionRun

Hook = Callable[[TopicPartition, int | None], Any]


@dataclass(frozen=True, slots=True)
class PartitionHooks:
    """The user's functions, sync or async; None: none. See `Pipeline.on_partitions`."""

    assigned: Hook | None = None
    revoked: Hook | None = None
    aborted: Hook | None = None


class _Held:
    """One assignment of a partition, from its first hook call to the last."""

    __slots__ = ("committed", "is_open", "name", "task")

    def __init__(self) -> None:
        self.committed: int | None = None
        self.is_open = False  # `assigned` has returned
        self.name = ""
        self.task: asyncio.Task[None] | None = None  # the running call of the hook `name`


class HookCalls:
    """Calls the hooks of one run in order: for each partition `assigned`, then any `aborted`, then `revoked` once.

    A partition that is assigned again waits until `revoked` was called for its earlier assignment. A call continues
    when the task that waits for it is cancelled, and the next task that needs it waits for the same call.
    """

    def __init__(self, hooks: PartitionHooks) -> None:
        self._hooks = hooks
        self._held: dict[PartitionRun, _Held] = {}
        self._changed = asyncio.Event()
        self._is_stopping = False

    async def assigned(self, run: PartitionRun) -> bool:
        """Call before an assignment's first record; False: it does not begin, as it is lost or the stream stops."""
        while run not in self._held:
            if not any(other.where == run.where for other in self._held):
                if run.partition.is_lost:
                    return False
                self._held[run] = _Held()
                break
            if self._is_stopping:
                return False
            self._changed.clear()
            await self._changed.wait()
        held = self._held[run]
        if not held.is_open:
            await self._call(held, "assigned", partial(self._open, run, held))
        return True

    async def _open(self, run: PartitionRun, held: _Held) -> None:
        hook = self._hooks.assigned
        try:
            if hook is not None:
                held.committed = await _committed(run.partition)
                await _called(hook, run.where, held.committed)
            held.is_open = True
        except BaseException:
            self._forget(run)
            raise

    def stop(self) -> None:
        """Release partitions that wait for an earlier assignment: the stream stops."""
        self._is_stopping = True
        self._changed.set()

    async def revoked(self, run: PartitionRun) -> None:
        """Call after an assignment's last record; does nothing if `assigned` was not called, or this already was."""
        held = self._held.get(run)
        if held is not None:
            await self._call(held, "revoked", partial(self._leave, run, held))

    async def _leave(self, run: PartitionRun, held: _Held) -> None:
        try:
            if held.is_open and self._hooks.revoked is not None:
                offset = None if run.partition.is_lost else run.reached(held.committed)
                await _called(self._hooks.revoked, run.where, offset)
        finally:
            self._forget(run)

    async def aborted(self, run: PartitionRun) -> None:
        """Call before records of an aborted transaction are replayed, or the stream ends without a replay.

        A lost partition is not replayed here: `revoked` follows.
        """
        held, hook = self._held.get(run), self._hooks.aborted
        if held is not None and hook is not None and run.taken and not run.partition.is_lost:
            await self._call(held, "aborted", partial(_called, hook, run.where, run.committed))

    async def close(self) -> None:
        """Cancel the running calls: they took longer than the stop of the stream may take."""
        running = [held.task for held in self._held.values() if held.task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _forget(self, run: PartitionRun) -> None:
        self._held.pop(run, None)
        self._changed.set()

    async def _call(self, held: _Held, name: str, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call a hook after the assignment's running one, or wait for that if it is the same hook."""
        while held.task is not None:
            if held.name == name:
                await asyncio.shield(held.task)
                return
            await asyncio.wait({held.task})

        def on_done(task: asyncio.Task[None]) -> None:
            held.task = None
            if not task.cancelled():
                task.exception()  # raised by the task that waits for it, if there still is one

        task = held.task = asyncio.ensure_future(function())
        held.name = name
        task.add_done_callback(on_done)
        await asyncio.shield(task)


async def _called(hook: Hook, where: TopicPartition, committed: int | None) -> None:
    try:
        result = hook(where, committed)
        if isinstance(result, Awaitable):
            await result
    except Exception as error:
        error.add_note(f"a hook of on_partitions() raised this for {where.topic}-{where.partition}")
        raise


async def _committed(partition: SourcePartition) -> int | None:
    """Return the group's committed position of a partition; None: none, or the source does not know it."""
    ask: Callable[[], Awaitable[int | None]] | None = getattr(partition, "committed", None)
    return None if ask is None else await ask()
