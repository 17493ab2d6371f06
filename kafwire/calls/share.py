"""The calls of `ShareConsumer` and `AsyncShareConsumer`: arguments checked, and the records in the caller's hand.

A loop over records takes the next one from `hand` without a call here, as a layer would cost each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafwire.calls.consumer import closing_seconds, layouts, names_of
from kafwire.cluster.cluster import Cluster
from kafwire.config import ShareConsumerConfig, from_config
from kafwire.consumer.share.records_in_hand import RecordsInHand
from kafwire.consumer.share.share_core import ShareCore
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine, Work
from kafwire.serializer_calls import Deserializers
from kafwire.timeouts import milliseconds

ARGUMENTS = ("topics", "columns", "layout")
keywords_of = partial(from_config, ShareConsumerConfig, arguments=ARGUMENTS)


class ShareCalls:
    """The calls of `ShareConsumer` and `AsyncShareConsumer`, which document them."""

    _core: ShareCore

    def __init__(self, core: ShareCore) -> None:
        self._core = core
        self.hand = RecordsInHand(core)

    def read(self, timeout: float | None, *, by_silence: bool) -> Callable[[], Work[None]]:
        """Return the function that begins a read: it counts the records in hand as processed.

        It returns the work that waits for the next ranges until the timeout, and adds them to the hand: a cancelled or
        interrupted call loses none.
        """
        return partial(self._begin, milliseconds(timeout), by_silence=by_silence)

    def _begin(self, limit_ms: int, *, by_silence: bool) -> Work[None]:
        core, now_ms = self._core, self._core.cluster.engine.now_ms
        until_ms = now_ms() + limit_ms
        silence = core.silence(limit_ms) if by_silence else None
        self.hand.settle()

        async def more() -> None:
            left_ms = None if limit_ms < 0 else max(0.0, until_ms - now_ms())
            self.hand.fetched.extend(await core.next(left_ms, silence))

        return more

    def commit(self, timeout: float | None) -> Work[None]:
        """Wait for the responses to all acknowledgements."""
        limit_ms = self._core.config.default_api_timeout_ms if timeout is None else milliseconds(timeout)
        return partial(self._core.commit, float(limit_ms))

    def subscribe(self, topics: str | Iterable[str]) -> Work[None]:
        """Read only these topics."""
        return partial(self._core.subscribe, names_of(topics, in_share_group=True))

    def close(self, timeout: float) -> Work[None]:
        """Send all acknowledgements, release other records, and leave."""
        return partial(self._core.close, closing_seconds(timeout))


def share_core(
    bootstrap_servers: str | Iterable[str],
    options: Mapping[str, Any],
    engine: Engine | None,
    topics: str | Iterable[str],
    columns: Sequence[str] | None,
    layout: Mapping[str, Any] | None,
) -> ShareCore:
    """Return the core of a new share consumer, not started; `ConfigError` for bad arguments of its constructor."""
    config = ShareConsumerConfig.build({"bootstrap_servers": bootstrap_servers, **options}, others=ARGUMENTS)
    make_layout = layouts(columns, layout)
    names = names_of(topics, in_share_group=True)
    deserializers = Deserializers.of(config, layout, blocking=True)
    cluster = Cluster(default_engine() if engine is None else engine, config)
    return ShareCore(cluster, config, names, make_layout, deserializers)
