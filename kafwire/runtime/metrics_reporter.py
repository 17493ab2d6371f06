"""The ways of a client's metrics out of it: calls of a user's hook with snapshots, and pushes to the cluster (KIP-714).

A hook is called periodically, in a thread, while the snapshot's object lives. Of pushes only the begin is here: every
client has it, so it imports nothing of `kafwire.telemetry` before a broker takes metrics.
"""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.runtime.interfaces import Engine, Work
from kafwire.runtime.log import log
from kafwire.timeouts import timeout_of

# The first request for a subscription, and the import of its modules, must not delay the client's first records.
FIRST_S = 0.5


class Reporter:
    """Calls a hook every `interval_ms`, until it is stopped; a snapshot for a busy hook is skipped, never queued.

    Runs on the engine.
    """

    def __init__(self, engine: Engine, hook: Callable[[dict[str, Any]], object], interval_ms: int) -> None:
        self._engine = engine
        self._hook = hook
        self._interval_ms = interval_ms
        self._task: asyncio.Task[None] | None = None
        self._is_busy = False
        self._stopped = False

    def start(self, snapshot: Callable[[], dict[str, Any]]) -> None:
        """Start; the first report comes after one interval.

        `snapshot` is a method, of which only a weak reference is kept.
        """
        if not self._stopped:
            self._task = asyncio.ensure_future(self._repeat(weakref.WeakMethod(snapshot)))

    def stop(self) -> None:
        """Stop reporting, without waiting for a busy hook."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _repeat(self, snapshot: weakref.WeakMethod[Callable[[], dict[str, Any]]]) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            if self._is_busy:
                continue
            take = snapshot()
            if take is None:
                return
            try:
                found = take()
            except Exception:
                log.exception("kafwire: the snapshot for the metrics hook failed")
                continue
            finally:
                del take
            self._is_busy = True
            if not self._engine.reports.submit(partial(self._call, found)):
                self._is_busy = False

    def _call(self, found: dict[str, Any]) -> None:
        try:
            self._hook(found)
        except Exception:
            log.exception("kafwire: the metrics hook failed")
        finally:
            self._is_busy = False


class Subscribable(Protocol):
    """A cluster."""

    when_subscribable: Callable[[], object] | None

    @property
    def config(self) -> Any:
        """The options of the client."""

    async def refresh(self) -> None:
        """Connect to a broker, and fetch the metadata."""


class Push(Protocol):
    """Pushes that have begun; see `kafwire.telemetry.metrics_push`."""

    @property
    def instance_id(self) -> uuid.UUID | None:
        """The client instance id; None: not known yet."""

    async def close(self, timeout_s: float) -> None:
        """Push the last metrics, within `timeout_s`, and end."""

    def stop(self) -> None:
        """End without a last push."""


class Pushing:
    """The pushes of one client. Runs on the engine.

    `make` begins them; it is called once, `FIRST_S` after the first connection to a broker that takes metrics. Its
    argument is a function to call once the client instance id is known.
    """

    def __init__(
        self, cluster: Subscribable, make: Callable[[Callable[[], object]], Push], *, is_enabled: bool
    ) -> None:
        self._cluster = cluster
        self._make = make
        self._is_enabled = is_enabled
        self._timer: asyncio.TimerHandle | None = None
        self._push: Push | None = None
        self._settled = asyncio.Event()  # the id is known, or the client is closed
        if is_enabled:
            cluster.when_subscribable = self._wait

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FIRST_S, self._begin)

    def _begin(self) -> None:
        self._push = self._make(self._settled.set)

    @property
    def has_begun(self) -> bool:
        """True once the subscription is requested; `close` takes time then."""
        return self._push is not None

    def instance_id_call(self, timeout: float | None) -> Work[uuid.UUID]:
        """Check the time limit of a user's call, in seconds, and return the call."""
        seconds = timeout_of(timeout)
        limit_s = self._cluster.config.default_api_timeout_ms / 1000 if seconds is None else seconds
        return partial(self.instance_id, limit_s)

    async def instance_id(self, timeout_s: float) -> uuid.UUID:
        """Return the client instance id, once the cluster has given it.

        Raises `ConfigError` if pushes are turned off, `KafkaConnectionError`, `KafkaTimeoutError`, as for a cluster
        that takes no metrics, and `KafkaError` if the client is closed meanwhile.
        """
        if not self._is_enabled:
            raise ConfigError(
                "this client pushes no metrics, as enable_metrics_push is False or its connections are another client's"
            )
        try:
            async with asyncio.timeout(timeout_s):
                if self._push is None and self._timer is None:
                    await self._cluster.refresh()  # a producer connects with its first record
                await self._settled.wait()
        except TimeoutError:
            raise KafkaTimeoutError(
                f"no client instance id within {timeout_s:g} s: the cluster has no plug-in for metrics of clients, or "
                "does not respond"
            ) from None
        found = None if self._push is None else self._push.instance_id
        if found is None:
            raise KafkaError("the client was closed while this call waited")
        return found

    async def close(self, timeout_s: float) -> None:
        """Push the last metrics, within `timeout_s`, and end."""
        try:
            if self._push is not None:
                await self._push.close(timeout_s)
        finally:
            self.stop()

    def stop(self) -> None:
        """End without a last push."""
        if self._is_enabled:
            self._cluster.when_subscribable = None
        if self._timer is not None:
            self._timer.cancel()
        if self._push is not None:
            self._push.stop()
        self._settled.set()
