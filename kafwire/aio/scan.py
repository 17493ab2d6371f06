"""`AsyncScan`: `Scan` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from kafwire.aio.bridge import AwaitedClosing
from kafwire.errors import KafkaError
from kafwire.handles import refuse_copy
from kafwire.scanner.reader import BoundedRead

if TYPE_CHECKING:
    from kafwire.records import Batch, Record
    from kafwire.records._records import RecordIterator

# A thread waits at most this long for records at a time, so that the thread of a cancelled task ends soon.
_LONGEST_WAIT_MS = 100


class AsyncScan(BoundedRead, AwaitedClosing):
    """A bounded read for asyncio. Consume it once: by `batches()`, record by record, or as an Arrow stream in a thread.

    The records of a partition come in order; partitions are mixed. `ranges` has the offsets that are read.
    `AsyncClient.scan` makes it.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncClient(bootstrap) as client:
        ...         scan = await client.scan(topic)
        ...         return await asyncio.to_thread(pa.table, scan)
        >>> asyncio.run(main()).num_rows
        3
    """

    __reduce_ex__ = refuse_copy

    _decoding: asyncio.Future[Batch | None] | None = None
    _busy = False
    _records: RecordIterator | None = None

    async def batches(self) -> AsyncIterator[Batch]:
        """Iterate over the records as batches, each of one partition.

        Batches are decoded in another thread. A task that is cancelled loses nothing: call `batches()` again.

        Returns:
            An async iterator of `Batch`.

        Raises:
            KafkaError: the read failed, or another task is reading.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(bootstrap) as client:
            ...         scan = await client.scan(topic)
            ...         return [record.offset async for batch in scan.batches() for record in batch]
            >>> asyncio.run(main())
            [0, 1, 2]
        """
        self._start()
        while True:
            if self._decoding is None:
                loop = asyncio.get_running_loop()
                self._decoding = loop.run_in_executor(None, self._read)
            if self._busy:
                raise KafkaError("a scan is read by one task at a time: wait for the other")
            self._busy = True
            try:
                batch = await asyncio.shield(self._decoding)
            finally:
                self._busy = False
            self._decoding = None
            if batch is not None:
                yield batch
            elif self._reader.ended:  # it has closed itself
                return

    def _read(self) -> Batch | None:
        """Read a batch, and look up its schemas, in another thread."""
        batch = self._reader.read(_LONGEST_WAIT_MS)
        return batch if batch is None or self._deserializers is None else self._deserializers.resolve(batch)

    def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over single records. A second loop continues where the first one stopped.

        Returns:
            An async iterator of `Record`.

        Raises:
            KafkaError: as `batches` does; after a `SerializationError`, the next read starts at the same record.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(bootstrap) as client:
            ...         return [record.offset async for record in await client.scan(topic)]
            >>> asyncio.run(main())
            [0, 1, 2]
        """
        return self._each()

    async def _each(self) -> AsyncIterator[Record]:
        deserializers, batches = self._deserializers, self.batches()
        if deserializers is not None and self._records is not None and self._records.batch is not None:
            await deserializers.resolve_again(cast("Batch", self._records.batch))
        while True:
            records = self._records
            if records is not None and deserializers is not None and deserializers.is_async:
                async for record in deserializers.records(records):
                    yield record
            elif records is not None:
                for record in records:
                    yield record
            batch = await anext(batches, None)
            self._records = None if batch is None else iter(batch)
            if batch is None:
                return

    async def close(self) -> None:
        """Stop reading. The end of the read does this too."""
        try:
            if self._decoding is not None:
                await asyncio.wait([self._decoding])
        finally:
            self._end()
