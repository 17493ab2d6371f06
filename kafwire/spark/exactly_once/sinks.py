"""The sinks of one process of Spark's driver: warm from batch to batch, and dropped after an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kafwire.spark import processes
from kafwire.spark.exactly_once.kafka import KafkaCoordination, completed
from kafwire.spark.exactly_once.sink import Sink

if TYPE_CHECKING:
    from kafwire.spark.options import WriteOptions

_T = TypeVar("_T")
# A transaction with less of its time left is not committed.
_LARGEST_MARGIN_MS = 60_000

_open: dict[tuple[object, ...], KafkaCoordination] = {}


def run(options: WriteOptions, call: Callable[[Sink], Coroutine[Any, Any, _T]]) -> _T:
    """Call a method of the sink that `options` describe."""
    assert options.sink is not None
    key = (os.getpid(), options.sink, options.state_topic, *sorted((n, str(v)) for n, v in options.client.items()))
    coordination = _open.pop(key, None) or KafkaCoordination(options)
    timeout_ms = int(options.client["transaction_timeout_ms"])
    sink = Sink(options.sink, coordination, margin_ms=min(_LARGEST_MARGIN_MS, timeout_ms // 4))
    try:
        found = completed(call(sink))
    except BaseException:
        coordination.close()
        raise
    _open[key] = coordination
    processes.freeze_modules()
    return found
