"""`runtime.metrics_reporter.Pushing`: the begin and the end of a client's pushes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest

from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.runtime.metrics_reporter import FIRST_S, Pushing

ID = uuid.UUID(int=5)


class Cluster:
    """A cluster whose first broker with the API connects when the test calls `when_subscribable`."""

    config: object = None

    def __init__(self) -> None:
        self.when_subscribable: Callable[[], object] | None = None
        self.refreshes = 0

    async def refresh(self) -> None:
        self.refreshes += 1


class Push:
    """Pushes that get their id when the test calls `on_id`."""

    def __init__(self, on_id: Callable[[], object]) -> None:
        self.on_id = on_id
        self.instance_id: uuid.UUID | None = None
        self.closes: list[float] = []
        self.stops = 0

    async def close(self, timeout_s: float) -> None:
        self.closes.append(timeout_s)

    def stop(self) -> None:
        self.stops += 1


class Scene:
    """A client's `Pushing`."""

    def __init__(self, *, is_enabled: bool = True) -> None:
        self.cluster, self.pushes = Cluster(), list[Push]()
        self.pushing = Pushing(self.cluster, self.make, is_enabled=is_enabled)

    def make(self, on_id: Callable[[], object]) -> Push:
        self.pushes.append(Push(on_id))
        return self.pushes[-1]

    async def begin(self) -> Push:
        assert self.cluster.when_subscribable is not None
        self.cluster.when_subscribable()
        assert self.pushes == [], "not before the client's first records"
        await asyncio.sleep(FIRST_S + 0.05)
        (push,) = self.pushes
        return push


def test_the_id_wakes_all_waiting_calls() -> None:
    async def main() -> None:
        scene = Scene()
        calls = [asyncio.ensure_future(scene.pushing.instance_id(30)) for _ in range(2)]
        await asyncio.sleep(0)  # they begin before the first connection
        push = await scene.begin()
        push.instance_id = ID
        push.on_id()
        assert await asyncio.gather(*calls) == [ID, ID]
        assert await scene.pushing.instance_id(0) == ID
        assert scene.cluster.refreshes == 2, "one for each"

    asyncio.run(main())


def test_a_close_ends_waiting_calls() -> None:
    async def main() -> None:
        scene = Scene()
        call = asyncio.ensure_future(scene.pushing.instance_id(30))
        push = await scene.begin()
        await scene.pushing.close(2.0)
        assert (push.closes, push.stops) == ([2.0], 1)
        with pytest.raises(KafkaError, match="was closed while this call waited"):
            await asyncio.wait_for(call, 1)

    asyncio.run(main())


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_closed_client_begins_no_pushes(is_connected: bool) -> None:
    async def main() -> None:
        scene = Scene()
        if is_connected:
            assert scene.cluster.when_subscribable is not None
            scene.cluster.when_subscribable()
        await scene.pushing.close(2.0)
        assert scene.cluster.when_subscribable is None, "a connection for the last requests begins none"
        await asyncio.sleep(FIRST_S + 0.05)
        assert scene.pushes == []

    asyncio.run(main())


def test_a_client_without_pushes_leaves_the_cluster_alone() -> None:
    async def main() -> None:
        scene = Scene(is_enabled=False)
        assert scene.cluster.when_subscribable is None
        scene.cluster.when_subscribable = lambda: None  # of the client that owns the connections
        scene.pushing.stop()
        assert scene.cluster.when_subscribable is not None
        with pytest.raises(ConfigError, match="pushes no metrics"):
            await scene.pushing.instance_id(1)

    asyncio.run(main())


def test_no_id_in_time() -> None:
    async def main() -> None:
        scene = Scene()
        with pytest.raises(KafkaTimeoutError, match="within 0 s"):
            await scene.pushing.instance_id(0)

    asyncio.run(main())
