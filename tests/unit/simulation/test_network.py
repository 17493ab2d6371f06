"""`testing.simulation.network`: the time that frames are in transit."""

from __future__ import annotations

import itertools
from typing import Any

from kafwire import protocol
from kafwire.protocol.framing import encode_request
from kafwire.testing.simulation.links import LATENCY_S
from tests.support.simulated.world import World


class Chain:
    """A client that sends its next request from within the callback of a response."""

    def __init__(self, world: World, count: int) -> None:
        self.left = count
        self.connection: Any = world.connect((world.nodes[1].host, world.nodes[1].port), self, 1 << 20)

    def on_connected(self) -> None:
        self._send()

    def on_sent(self, token: int) -> None:
        """Nothing is to be done."""

    def on_response(self, token: int, frame: Any) -> None:
        del token, frame
        self._send()

    def on_closed(self, number: int, reason: str) -> None:
        raise AssertionError(reason)

    def _send(self) -> None:
        if self.left:
            self.left -= 1
            frame = encode_request(protocol.ApiVersionsRequest(), 0, self.left, "chain")
            self.connection.submit(self.left, self.left, [bytes(frame)], expect_response=True)


def test_a_request_from_within_a_callback_is_in_transit_like_others() -> None:
    with World() as world:
        Chain(world, 5)
        world.pass_time(1)
        times = [call.at_ms for call in world.calls]
        assert len(times) == 5
        assert all(after - before >= LATENCY_S * 1000 * 0.99 for before, after in itertools.pairwise(times))
