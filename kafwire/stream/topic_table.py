"""`TopicTable`: the last value of each key of a compacted topic, in memory, for steps that need lookups."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.handles import refuse_copy
from kafwire.records._records import Batch, Record
from kafwire.runtime.log import stream_log as log
from kafwire.stream.errors import StreamError
from kafwire.stream.failed_record import text_of
from kafwire.stream.interfaces import SourcePartition
from kafwire.stream.invocation import is_async
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


# Offsets without a record, such as a transaction marker, bring no batch that would end the wait.
LOOK_AGAIN_S = 0.05
PATIENCE_S = 60.0  # for sources without their own


class TableSource(Protocol):
    """A source that knows its partitions' end offsets: `ConsumerSource` and `MemorySource`."""

    def partitions(self) -> AsyncIterator[SourcePartition]:
        """See `Source`."""

    async def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Return the end offset of each partition."""

    async def close(self) -> None:
        """See `Source`."""


class TopicTable:
    """The last value of each key of a topic. A record without a value (a tombstone) deletes its key.

    The table reads the topic to its end when it is entered, and follows it until it is left: by `async with` in the
    running event loop, or by `with` in a thread of its own. It has the whole topic in memory, and serves all reads from
    there, from any thread. Each process that uses a table reads the topic itself: its consumer has no `group_id`.

    Args:
        source: the topic, from its beginning: a `ConsumerSource`, or in tests a `MemorySource`. The table closes it.
        key: converts a record's key to the row's key; None: unchanged.
        value: converts a record's value to the row's value, but no tombstone; None: unchanged.

    Raises:
        ConfigError: the source has no end offsets, its consumer is in a group, or a function is not a function, or
            async.

    Example:
        >>> source = kafwire.stream.MemorySource({"prices": [(b"lamp", b"20"), (b"book", b"9"), (b"lamp", b"25")]})
        >>> with kafwire.stream.TopicTable(source, key=bytes.decode, value=int) as prices:
        ...     print(prices["lamp"], prices.get("chair", 0), sorted(prices))
        25 0 ['book', 'lamp']
    """

    __reduce_ex__ = refuse_copy

    __module__ = "kafwire.stream"

    def __init__(
        self,
        source: TableSource,
        *,
        key: Callable[[Any], Any] | None = None,
        value: Callable[[Any], Any] | None = None,
    ) -> None:
        if not callable(getattr(source, "end_offsets", None)):
            raise ConfigError(f"TopicTable({source!r}): it must be a ConsumerSource or a MemorySource")
        if getattr(source, "is_member", False):
            raise ConfigError("a table reads all partitions: give its consumer no group_id")
        for function in (key, value):
            if function is not None and (not callable(function) or is_async(function)):
                raise ConfigError(f"TopicTable(key={key!r}, value={value!r}): give functions that are not async")
        self._source = source
        self._key = key
        self._value = value
        self._rows: dict[Any, Any] = {}
        self._partitions: dict[TopicPartition, SourcePartition] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._error: BaseException | None = None
        self._has_keyless = False
        self._leave: Callable[[], object] | None = None  # used by `with`
        self._thread: threading.Thread | None = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key.

        Args:
            key: the key.
            default: returned if the table has no such key.

        Returns:
            The current value.

        Raises:
            KafkaError: the table no longer follows its topic.
        """
        self._check()
        return self._rows.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._check()
        return self._rows[key]

    def __contains__(self, key: Any) -> bool:
        self._check()
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the current keys.

        Returns:
            An iterator.
        """
        self._check()
        return iter(tuple(self._rows))

    def items(self) -> list[tuple[Any, Any]]:
        """Return the current keys and values.

        Returns:
            Pairs, in the order in which the keys first appeared.

        Raises:
            KafkaError: the table no longer follows its topic.
        """
        self._check()
        return list(self._rows.items())

    def to_arrow(self) -> pa.Table:
        """Return the current rows as a pyarrow.Table.

        Returns:
            Columns `key` and `value`, of the types that pyarrow infers.

        Raises:
            KafkaError: the table no longer follows its topic.
        """
        import pyarrow as pa

        rows = self.items()
        columns = {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
        made = {"key": self._key, "value": self._value}
        return pa.table(
            {name: pa.array(values, None if made[name] or values else pa.binary()) for name, values in columns.items()}
        )

    def _check(self) -> None:
        if self._error is not None:
            text = f"the table no longer follows its topic: {type(self._error).__name__}: {text_of(self._error)}"
            raise KafkaError(text) from self._error

    # --- following --------------------------------------------------------------------------------------------------

    async def read_to_end(self) -> None:
        """Wait until the table has all current records of the topic.

        Raises:
            KafkaError: the end offsets could not be fetched, or the table no longer follows its topic.
            KafkaTimeoutError: the named partition had no records for `default_api_timeout_ms`.
        """
        missing = dict(await self._source.end_offsets())
        patience_s = getattr(self._source, "patience_s", PATIENCE_S)
        loop = asyncio.get_running_loop()
        # The position of each partition, and since when it is the same.
        since: dict[TopicPartition, tuple[int, float]] = dict.fromkeys(missing, (-1, loop.time()))
        while True:
            self._check()
            missing = {where: end for where, end in missing.items() if self._position(where) < end}
            if not missing:
                return
            for where, end in missing.items():
                position, reached_s = since[where]
                if self._position(where) > position:
                    since[where] = self._position(where), loop.time()
                elif loop.time() - reached_s >= patience_s:
                    raise KafkaTimeoutError(
                        f"the table has not read {where.topic}-{where.partition} to offset {end}: no record came after "
                        f"offset {position} for {patience_s:g} s; see its consumer's warnings, or start the table later"
                    )
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._changed.wait()

    def _position(self, where: TopicPartition) -> int:
        """Return how far the table has read. The source may have skipped offsets after the last batch."""
        position = getattr(self._partitions.get(where), "position", None)
        return max(self._positions.get(where, 0), 0 if position is None else position())

    def _begin(self, coroutine: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._error is None:
            self._error = error
            log.error("kafwire: a table no longer follows its topic", exc_info=error, error=error)
        self._changed.set()

    async def _follow(self) -> None:
        async for partition in self._source.partitions():
            self._begin(self._read(partition))

    async def _read(self, partition: SourcePartition) -> None:
        where = TopicPartition(partition.topic, partition.partition)
        self._partitions[where] = partition
        async for batch in partition:
            self._apply(where, batch)
            self._positions[where] = batch.next_offset
            partition.complete(batch.base_offset, batch.next_offset)
            self._changed.set()

    def _apply(self, where: TopicPartition, batch: Batch) -> None:
        offset = batch.base_offset
        try:
            for record in batch:
                offset = record.offset
                self._take(record)
        except Exception as error:
            text = (
                f"the record at offset {offset} of {where.topic}-{where.partition} cannot become a row of the table: "
                f"{type(error).__name__}: {text_of(error)}"
            )
            raise StreamError(text, topic=where.topic, partition=where.partition, offset=offset) from error

    def _take(self, record: Record) -> None:
        if record.key is None:
            if not self._has_keyless:
                self._has_keyless = True
                log.warning(
                    "kafwire: a table skips records without a key: the first one is at offset %d of %s-%s",
                    *(record.offset, record.topic, record.partition),
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                )
            return
        key = record.key if self._key is None else self._key(record.key)
        if record.value is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = record.value if self._value is None else self._value(record.value)

    # --- beginning and end ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._begin(self._follow())
        try:
            await self.read_to_end()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for partition in self._partitions.values():
            await partition.close()
        await self._source.close()

    def __enter__(self) -> Self:
        begun: Future[None] = Future()
        thread = threading.Thread(target=lambda: asyncio.run(self._live(begun)), name="kafwire-table", daemon=True)
        self._thread = thread
        thread.start()
        begun.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave is not None and self._thread is not None:
            self._leave()
            self._thread.join()

    async def _live(self, begun: Future[None]) -> None:
        """Follow the topic until the block that entered the table ends."""
        loop, left = asyncio.get_running_loop(), asyncio.Event()
        self._leave = lambda: loop.call_soon_threadsafe(left.set)
        try:
            async with self:
                begun.set_result(None)
                await left.wait()
        except BaseException as error:
            if begun.done():
                raise
            begun.set_exception(error)
