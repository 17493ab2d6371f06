"""`AsyncScan`: what `Scan` does, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafwire.errors import KafkaError
from kafwire.scanner.reader import BoundedRead

if TYPE_CHECKING:
    from kafwire.records import Batch

# A thread waits no longer than that for records at a time: one whose task was cancelled holds nobody up.
_LONGEST_WAIT_MS = 100


class AsyncScan(BoundedRead):
    """A bounded read, to be consumed once: by `batches()`; or in a thread, as an Arrow stream (`pyarrow.table(scan)`).

    A partition's records come in order; partitions are mixed. `ranges` says what is read.
    """

    _decoding: asyncio.Future[Batch | None] | None = None
    _busy = False

    async def batches(self) -> AsyncIterator[Batch]:
        """The records as `Batch` objects of one partition each; raises `KafkaError` where the read fails.

        They are decoded in another thread. Whoever is cancelled while waiting loses nothing: `batches()` goes on.
        """
        self._start()
        while True:
            if self._decoding is None:
                loop = asyncio.get_running_loop()
                self._decoding = loop.run_in_executor(None, self._reader.read, _LONGEST_WAIT_MS)
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

    async def close(self) -> None:
        """Read no more. Happens by itself at the end of the read."""
        try:
            if self._decoding is not None:
                await asyncio.wait([self._decoding])
        finally:
            self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
