"""The protocol of the exactly-once sink: take over, commit, abort. Every request goes through `Coordination`.

The sink on Spark's driver runs this code on `KafkaCoordination`, and the random model runs it on simulated brokers.

- `fence` is InitProducerId of the sink's coordinator id. A driver that was fenced writes no decision any more.
- The state topic is read after the fence, to the high watermark at that time, once the last stable offset has reached
  it: an open transaction of another program hides records after it.
- A decision that is not done is rolled forward before anything else. It is never aborted.
- A stray is an open transaction that no decision names. The sweep ends strays by EndTxn with the epoch found, and never
  by InitProducerId. Its list is older than the marker record that follows it: a fenced driver cannot write the marker,
  so a driver that paused cannot abort transactions that a later driver decides to commit.
- A batch is decided only if no other driver fenced the sink since the batch was planned: an earlier list of strays may
  name its transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafwire.errors import KafkaError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.spark.exactly_once.decisions import (
    Decision,
    Prepared,
    Record,
    coordinator_id,
    decode,
    encode,
    encode_done,
    prefix_of,
    removal,
)
from kafwire.spark.exactly_once.outcomes import (
    ONGOING,
    BatchAbortedError,
    Described,
    HalfCommittedError,
    Outcome,
    OvertakenError,
    committed,
    found,
)
from kafwire.types import TransactionHandle

log = logging.getLogger("kafwire.spark")

_LAST_EPOCH = 32_766  # the next producer has another id, at epoch 0
RUN = "run:"  # before the id of a batch write, which no later write repeats


class Coordination(Protocol):
    """The brokers, as the sink sees them. Methods retry passing errors, and raise `KafkaError`."""

    async def fence(self) -> Identity:
        """InitProducerId of the coordinator id; returns its identity, without an open transaction of an earlier one."""

    async def high_watermark(self) -> int:
        """The end of the state partition, open transactions included."""

    async def last_stable_offset(self) -> int:
        """The end of the state partition, up to the first open transaction."""

    async def wait(self) -> None:
        """Pause before the last stable offset is requested again; raises `KafkaTimeoutError` after too long a wait."""

    async def read(self, end: int) -> Sequence[Record]:
        """The committed records of the state partition before the offset `end`."""

    async def write(self, records: Sequence[Record]) -> Identity:
        """Write records in one transaction of the coordinator id; returns its identity after it.

        After an error, the outcome is open until the next `fence`.
        """

    async def end(self, handles: Sequence[TransactionHandle], *, commit: bool) -> Sequence[int]:
        """EndTxn of each handle; returns error codes."""

    async def describe(self, transactional_ids: Sequence[str]) -> Mapping[str, Described]:
        """The transactional ids that their coordinators know."""

    async def ongoing(self, prefix: str) -> Sequence[str]:
        """The transactional ids with a prefix whose transaction is open."""

    def now_ms(self) -> int:
        """The time, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A sink that was taken over: its coordinator's identity, and the last done batch of each query."""

    identity: Identity
    done: Mapping[str, int]

    def is_done(self, query: str, batch: int) -> bool:
        """Return True if the batch was committed before. Raises `BatchAbortedError` if later ones were."""
        last = self.done.get(query, -1)
        if batch < last:
            raise BatchAbortedError(
                f"batch {batch} of query {query} is older than batch {last}, which the sink has committed: the "
                "checkpoint is an old copy. Go on with the newest checkpoint, or give the query another `sink` name"
            )
        return batch == last


class Sink:
    """One sink on one driver. `margin_ms`: a transaction that has less time left is not committed."""

    def __init__(self, name: str, cluster: Coordination, margin_ms: int) -> None:
        """Send no request yet."""
        self.name = name
        self._cluster = cluster
        self._margin_ms = margin_ms
        self._identity = Identity(-1, -1)
        self._decisions: dict[str, Decision] = {}

    async def plan(self, query: str | None = None) -> Plan:
        """Take over before the tasks of a batch start: roll forward, then abort leftover transactions."""
        await self._take_over()
        await self._sweep()
        await self._remove_runs(query)
        return Plan(self._identity, {each.query: each.batch for each in self._decisions.values()})

    async def commit(self, query: str, batch: int, prepared: Sequence[Prepared], planned: Identity) -> None:
        """Commit the transactions of a batch: all, or none. After an error, call `abort`."""
        if not prepared:
            return  # a batch without rows, or one that was committed before
        fenced = await self._take_over()
        if self._is_decided(query, batch):
            await self._abort(prepared)
            return
        if not follows(fenced, planned):
            await self._abort(prepared)
            raise OvertakenError(
                f"another driver took over the sink {self.name} while batch {batch} ran, so the batch was aborted: "
                "stop the other query, or give one of the two another `sink` name"
            )
        await self._check_open(batch, prepared)
        self._warn_of_another_query(query, batch)
        decision = Decision(query, batch, tuple(prepared))
        await self._write(encode(self.name, decision))
        await self._roll_forward(decision)
        try:
            await self._sweep()
        except KafkaError as error:
            log.warning(
                "batch %d is committed; leftover transactions of the sink %s stay open until the next batch: %s",
                batch,
                self.name,
                error,
            )

    async def abort(self, query: str, batch: int, prepared: Sequence[Prepared]) -> bool:
        """Abort a batch whose commit failed or was never tried. Returns True if the batch is committed after all."""
        if not prepared:
            return False
        await self._take_over()
        await self._abort(prepared)
        return self._is_decided(query, batch)

    async def half_committed(self) -> list[HalfCommittedError]:
        """Take over for a recovery; returns the decisions that cannot be carried out, instead of raising the first."""
        await self._fence_and_read()
        failures = []
        for decision in list(self._decisions.values()):
            try:
                await self._finish(decision)
            except HalfCommittedError as error:
                failures.append(error)
        if not failures:
            await self._sweep()
        return failures

    async def accept_loss(self, decision: Decision) -> None:
        """Leave a half-committed batch as it is: aborted rows stay lost."""
        await self._mark_done(decision)

    async def rewrite(self, decision: Decision) -> None:
        """Have Spark run a half-committed batch again: the rows that it committed become duplicates."""
        removed: list[Record] = [(key, None) for key, _ in encode(self.name, decision)]
        before = Decision(decision.query, decision.batch - 1, is_done=True)
        await self._write(removed + (encode(self.name, before) if decision.batch else []))

    async def _take_over(self) -> Identity:
        fenced = await self._fence_and_read()
        for decision in list(self._decisions.values()):
            await self._finish(decision)
        return fenced

    async def _fence_and_read(self) -> Identity:
        self._identity = fenced = await self._cluster.fence()
        end = await self._cluster.high_watermark()
        while await self._cluster.last_stable_offset() < end:
            await self._cluster.wait()
        self._decisions = decode(self.name, await self._cluster.read(end))
        return fenced

    async def _finish(self, decision: Decision) -> None:
        if not decision.is_done:
            await self._roll_forward(decision)

    def _is_decided(self, query: str, batch: int) -> bool:
        last = self._decisions.get(query)
        return last is not None and last.batch >= batch

    async def _roll_forward(self, decision: Decision) -> None:
        handles = [each.handle for each in decision.prepared]
        codes = await self._cluster.end(handles, commit=True)
        outcomes = [committed(handle, code) for handle, code in zip(handles, codes, strict=True)]
        if Outcome.UNKNOWN in outcomes:
            described = await self._cluster.describe([handle.transactional_id for handle in handles])
            outcomes = [
                found(handle, described.get(handle.transactional_id)) if outcome is Outcome.UNKNOWN else outcome
                for handle, outcome in zip(handles, outcomes, strict=True)
            ]
        if any(outcome is not Outcome.COMMITTED for outcome in outcomes):
            await self._confirm()  # the batch may be done by now: another driver may have taken over
            raise HalfCommittedError(self.name, decision, outcomes)
        await self._mark_done(decision)

    async def _mark_done(self, decision: Decision) -> None:
        await self._write(encode_done(self.name, decision))
        self._decisions[decision.query] = decision.done

    def _warn_of_another_query(self, query: str, batch: int) -> None:
        """Warn before the first decision of a query if its name or its checkpoint may be another query's."""
        if query in self._decisions or query.startswith(RUN):
            return
        others = sorted(name for name in self._decisions if not name.startswith(RUN))
        if others:
            log.warning(
                "option sink=%s: the sink has committed batches of query %s, and now commits one of query %s. Give "
                "each query a `sink` name of its own: two running queries abort each other's batches",
                *(self.name, ", ".join(others), query),
            )
        if batch:
            log.warning(
                "option sink=%s: batch %d is the first one of query %s with this name. If an earlier run wrote rows of "
                "this batch, with another `sink` name or without delivery=exactly-once, they are in the topic twice",
                *(self.name, batch, query),
            )

    async def _check_open(self, batch: int, prepared: Sequence[Prepared]) -> None:
        described = await self._cluster.describe([each.handle.transactional_id for each in prepared])
        now_ms = self._cluster.now_ms()
        for each in prepared:
            state = described.get(each.handle.transactional_id)
            if state is not None and state.is_open(each.handle) and 2 * state.left_ms(now_ms) < state.timeout_ms:
                log.warning(
                    "batch %d took more than half of kafka.transaction.timeout.ms=%d: make batches smaller "
                    "(maxOffsetsPerTrigger), or they fail",
                    *(batch, state.timeout_ms),
                )
            remedy = "make batches smaller (maxOffsetsPerTrigger), or raise kafka.transaction.timeout.ms"
            if state is None or not state.is_open(each.handle):
                why = f"its transaction {each.handle.transactional_id} is no longer open"
                remedy = f"end other drivers of the sink, which abort it; if there are none, it timed out: {remedy}"
            elif state.left_ms(now_ms) < self._margin_ms:
                left = max(0, state.left_ms(now_ms))
                why = f"its transaction {each.handle.transactional_id} has {left} of {self._margin_ms} ms left"
            else:
                continue
            await self._abort(prepared)
            raise BatchAbortedError(f"batch {batch} was aborted before its commit: {why}; {remedy}")

    async def _abort(self, prepared: Iterable[Prepared]) -> None:
        """Abort transactions of a batch. Those named by a decision are committed by now, and an abort has no effect."""
        await self._cluster.end([each.handle for each in prepared], commit=False)

    async def _sweep(self) -> None:
        own = coordinator_id(self.name)
        names = [name for name in await self._cluster.ongoing(prefix_of(self.name)) if name != own]
        described = await self._cluster.describe(names) if names else {}
        strays = [
            TransactionHandle(name, state.producer_id, state.epoch)
            for name, state in described.items()
            if state.state == ONGOING
        ]
        if not strays:
            return
        await self._confirm()
        await self._cluster.end(strays, commit=False)

    async def _confirm(self) -> None:
        """Write a record that has no effect; a fenced driver cannot write it."""
        await self._write([(f"{self.name}//0".encode(), None)])

    async def _remove_runs(self, query: str | None) -> None:
        """Remove the decisions of earlier batch writes: no later write has their ids."""
        if query is None or not query.startswith(RUN):
            return
        runs = [name for name, each in self._decisions.items() if name.startswith(RUN) and each.is_done]
        if runs:
            await self._write([record for name in runs for record in removal(self.name, name)])

    async def _write(self, records: Sequence[Record]) -> None:
        self._identity = await self._cluster.write(records)


def follows(fenced: Identity, planned: Identity) -> bool:
    """Return True if one InitProducerId leads from `planned` to `fenced`.

    The identity after the last epoch has another producer id.
    """
    if planned.epoch >= _LAST_EPOCH:
        return fenced.epoch == 0 and fenced.producer_id != planned.producer_id
    return fenced == Identity(planned.producer_id, planned.epoch + 1)
