"""kafwire's `ShareConsumer`: records are acquired, and acknowledged in one of four ways. A group for each pass.

A pass begins with the first records, which it leaves out.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.workers.common import Options, Pass, work
from kafwire import Client, ShareConsumer, __version__, protocol

WAIT_SECONDS = 30.0
LOOK_AT_CLOCK = 64  # records between two looks at the clock


def implicit(options: Options) -> Callable[[], Pass]:
    """Batches as Arrow data, accepted by asking for the next."""
    return lambda: _timed(options, "implicit", _arrow_batches)


def column(options: Options) -> Callable[[], Pass]:
    """Batches as Arrow data, each acknowledged by a column."""
    return lambda: _timed(options, "explicit", _acknowledged_batches)


def records(options: Options) -> Callable[[], Pass]:
    """Records one by one, each accepted by asking for the next."""
    return lambda: _timed(options, "implicit", _records)


def each(options: Options) -> Callable[[], Pass]:
    """Records one by one, each accepted by a call."""
    return lambda: _timed(options, "explicit", _accepted_records)


def _arrow_batches(consumer: ShareConsumer) -> Iterator[int]:
    for batch in consumer.batches(WAIT_SECONDS):
        yield batch.to_arrow().num_rows


def _acknowledged_batches(consumer: ShareConsumer) -> Iterator[int]:
    for batch in consumer.batches(WAIT_SECONDS):
        rows = batch.to_arrow().num_rows
        batch.acknowledge(np.ones(rows, np.int8))
        yield rows


def _records(consumer: ShareConsumer) -> Iterator[int]:
    count = 0
    for record in consumer:
        record.value  # noqa: B018 - reading it is the measured work
        count += 1
        if count == LOOK_AT_CLOCK:
            yield count
            count = 0


def _accepted_records(consumer: ShareConsumer) -> Iterator[int]:
    for batch in consumer.batches(WAIT_SECONDS):
        for record in batch:
            record.value  # noqa: B018 - reading it is the measured work
            batch.accept(record)
        yield len(batch)


def _timed(options: Options, mode: str, read: Callable[[ShareConsumer], Iterator[int]]) -> Pass:
    """Read until the time is up, or nine tenths of the topic are read: its end would be a wait."""
    limit_s, most = float(options.text("seconds")), options.number("records") * 9 // 10
    group = f"bench-share-{time.time_ns()}"
    _begin_early(options.text("bootstrap"), group)
    conf: dict[str, Any] = {"share_acknowledgement_mode": mode, **options.keywords()}
    with ShareConsumer(options.text("bootstrap"), topics=options.text("topic"), group_id=group, **conf) as consumer:
        began, got, now = 0.0, 0, 0.0
        for count in read(consumer):
            now = time.perf_counter()
            if not began:
                began = now
                continue
            got += count
            if now - began >= limit_s or got >= most:
                break
    if not got:
        raise RuntimeError(f"no more than one response with records within {WAIT_SECONDS} s")
    return Pass(now - began, got, 0)


def _begin_early(bootstrap: str, group: str) -> None:
    """Let a share group begin at the first record."""
    alter = protocol.IncrementalAlterConfigsRequest
    config = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = alter.AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])
    with Client(bootstrap) as client:
        (altered,) = client.call(alter(resources=[resource])).responses
    if altered.error_code:
        raise RuntimeError(f"the broker refuses share.auto.offset.reset: error {altered.error_code}")


if __name__ == "__main__":
    work({"implicit": implicit, "column": column, "records": records, "each": each}, __version__)
