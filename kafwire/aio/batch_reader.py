"""The batch reader of an `AsyncConsumer`, in the user's event loop: of all partitions, or of one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kafwire.aio.bridge import INLINE_BYTES, on_engine
from kafwire.consumer.core import ConsumerCore, nothing_assigned
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.delivery.partition_claim import Claim
from kafwire.consumer.offsets.hand import Hand, UnreadRemainder, rests_of
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.timeouts import milliseconds

if TYPE_CHECKING:
    from kafwire.records import Batch


class BatchReading:
    """One reader, awaited. A batch that a cancelled task had begun to decode goes to the next task."""

    def __init__(
        self,
        core: ConsumerCore,
        engine: Engine,
        start: Callable[[], Awaitable[None]],
        give_back: Callable[[UnreadRemainder], None],
        hand: Hand,
        claim: Claim | None = None,
    ) -> None:
        """`start` starts the consumer, `give_back` fetches a batch's rest again, `hand` has the user's records.

        The reader reads the partition of a `claim`, or all unclaimed partitions.
        """
        self._core = core
        self._engine = engine
        self._start = start
        self._give_back = give_back
        self._hand = hand
        self._claim = claim
        self._reader: FetchReader | None = None
        self._decoding: asyncio.Future[Batch | None] | None = None
        self._ownership: PartitionOwnership | None = None  # of the batch last decoded in another thread
        self._busy = False
        self.needs_offsets = False

    async def next(
        self,
        timeout: float | None,  # noqa: ASYNC109  # None then, no error
        caller: object,
        *,
        by_silence: bool = False,
        limit: int = -1,
    ) -> Batch | None:
        """Return the next batch to the task `caller`, and count the records before it as processed.

        `by_silence`: the timeout begins at a member's first assignment. `limit`: most records; 0: no limit, -1: the
        limit of the consumer's option.
        """
        limit_ms = milliseconds(timeout)
        core, claim = self._core, self._claim
        loop = asyncio.get_running_loop()
        until = None if limit_ms < 0 else loop.time() + limit_ms / 1000
        silence = core.silence(limit_ms) if by_silence and limit_ms >= 0 else None
        if claim is None:  # a taken claim belongs to a started consumer, and ends with it
            await self._start()
            if not core.fetcher.cursors and not core.is_member:
                raise nothing_assigned()
        if self._busy:
            raise KafkaError("a consumer is read by one task at a time: wait for the other, or take partition_stream")
        self._busy = True
        denied = core.denied
        if core.membership is not None:
            core.membership.reads(self, begun=True)
        try:
            if claim is None and core.needs_attention:
                await on_engine(self._engine, core.rejoin_after_error(None if limit_ms < 0 else limit_ms))
            if denied.are_due:
                await on_engine(self._engine, denied.try_due())
            if self._reader is None:
                await on_engine(self._engine, core.assignment.ask(claim))
                self._reader = core.reader(claim, calls_handlers=False)
            if self._decoding is None:
                self._settle()
                self._hand.read_by(caller)
                if self.needs_offsets:
                    self._reader.need_offsets()
            while True:
                await self.attend()
                batch = await self._ready(core.batch_limit if limit < 0 else limit)
                if batch is not None or self._reader.ended:
                    return batch
                left = None if until is None else max(0.0, until - loop.time())
                waits = None if left is None else left * 1000
                if left == 0.0 or not await on_engine(self._engine, core.readable(claim, waits)):
                    more_ms = 0 if silence is None else core.silence_left_ms(silence)
                    if more_ms <= 0:
                        return None
                    until = loop.time() + more_ms / 1000
                self._settle()  # no batch came since: only skipped records lie before the position
        except KafkaError as error:
            denied.note(error)
            raise
        finally:
            self._busy = False
            if core.membership is not None:
                core.membership.reads(self, begun=False)

    @property
    def _number(self) -> int:
        return -1 if self._claim is None else self._claim.number

    def _settle(self) -> None:
        """Count delivered records as processed."""
        if self._reader is not None:
            self._hand.ask()
            self._reader.settle()
            self._core.settled()

    async def attend(self) -> None:
        """Raise the error that ended the membership, if any, and call due handlers."""
        core = self._core
        membership = core.membership
        if membership is None or self._claim is not None or not membership.needs_attention:
            return
        core.fetcher.queue.woken()
        membership.check()
        while (call := membership.handlers.take()) is not None:
            await call.call_awaited()

    def at_once(self, limit: int) -> Batch | None:
        """Return another batch if one is queued, and small enough to be decoded in the event loop."""
        size = self._core.fetcher.queue.ready(self._number)
        if self._reader is None or size is None or size >= INLINE_BYTES:
            return None
        return self._if_resolved(self._reader.read(0, limit))

    def _if_resolved(self, batch: Batch | None) -> Batch | None:
        """Return the batch, or None if another thread looks up its schemas first; it is the next one then."""
        deserializers = self._core.deserializers
        if batch is None or deserializers is None or not (needed := deserializers.unresolved(batch)):
            return batch
        self._ownership = self._core.ownership_of(batch)
        self._decoding = asyncio.get_running_loop().run_in_executor(None, deserializers.resolve, batch, needed)
        return None

    async def _ready(self, limit: int) -> Batch | None:
        reader = self._reader
        assert reader is not None
        if self._decoding is None:
            size = self._core.fetcher.queue.ready(self._number)
            if size is None:
                return None
            if size < INLINE_BYTES or reader.is_withholding:
                batch = self._if_resolved(reader.read(0, limit))
                if self._decoding is None:
                    return batch
            else:
                self._decoding = asyncio.get_running_loop().run_in_executor(None, self._decode, reader, limit)
        try:
            batch = await asyncio.shield(self._decoding)
        except asyncio.CancelledError:
            raise  # the next call gets the batch
        except BaseException:
            self._decoding = None
            raise
        self._decoding = None
        batch = self._still_owned(batch)
        if batch is not None and limit and len(batch) > limit:  # decoded for a cancelled task, which had a higher limit
            for rest in rests_of([batch]):
                self._give_back(rest)
            return None
        return batch

    def _decode(self, reader: FetchReader, limit: int) -> Batch | None:
        """Decode in another thread. The batch may wait for its task, and lose its partition meanwhile."""
        batch = reader.read(0, limit)
        self._ownership = None if batch is None else self._core.ownership_of(batch)
        deserializers = self._core.deserializers
        return batch if batch is None or deserializers is None else deserializers.resolve(batch)

    def _still_owned(self, batch: Batch | None) -> Batch | None:
        """Return the batch that was decoded last, unless its partition is not owned any more."""
        return batch if self._ownership is not None and self._ownership.is_owned else None

    async def begun(self) -> Batch | None:
        """Wait for the batch that a cancelled task had begun to decode; return it, or None."""
        if self._busy or self._decoding is None:
            return None
        await asyncio.wait([self._decoding])
        if self._decoding is not None and self._decoding.exception() is not None:
            self._decoding = None  # the next read raises the error again, if it still exists
        return None if self._decoding is None else self._still_owned(self._decoding.result())

    def forget(self) -> None:
        """Drop the batch that a cancelled task had begun to decode."""
        self._decoding = None

    def leave(self, claim: Claim) -> None:
        """Close the claim. If another thread still decodes, first put its rows back."""
        if self._decoding is None:
            claim.close()
        else:
            self._decoding.add_done_callback(partial(self._left, claim))

    def _left(self, claim: Claim, decoding: asyncio.Future[Batch | None]) -> None:
        if not decoding.cancelled() and decoding.exception() is None:
            batch = self._still_owned(decoding.result())
            for rest in rests_of([] if batch is None else [batch]):
                self._give_back(rest)
        claim.close()
