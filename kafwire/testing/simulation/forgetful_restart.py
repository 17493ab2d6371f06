"""A broker that restarts so soon that it still leads, and has forgotten producers' last batches.

Some of the batches in flight to it are stored and not acknowledged, some may not arrive, and all are in doubt: the
broker remembers fewer batches of each producer than before (KIP-98), or none if a producer's state has expired. So only
the log shows the fate of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.broker.api.fetch import FetchSessions
from kafwire.broker.faults import Fault, Faults
from kafwire.testing.simulation.schedule import MAIN, SECOND, Event

if TYPE_CHECKING:
    from kafwire.testing.simulation.cluster import ClusterWorld

FORGOTTEN = (0, 1, 2)  # batches of a producer that the broker still knows
MOST_STORED = 4  # stored requests, before the network holds others


class ForgetfulRestart:
    """A fault that starts when it is created, restarts the broker in the middle of its event, and ends with `end`.

    The event's `place` and `amount` decide: whether the broker holds responses or returns REQUEST_TIMED_OUT, whether
    the network holds requests after the first ones, how many these are, how many batches the broker remembers, and
    whether followers lag.
    """

    def __init__(self, world: ClusterWorld, event: Event) -> None:
        self._world = world
        self._node = event.node
        self._link = world.links[event.node]
        self._script: Faults = world.state.part(Faults)
        self._kept = FORGOTTEN[(event.place >> 2) % len(FORGOTTEN)]
        self._cuts_requests = bool(event.place & 2)
        self._lagging = [node for node in world.state.nodes if node != event.node] if event.amount < 0.5 else []
        for node in self._lagging:
            world.state.replication.hold(node)
        self._times_out: Fault | None = None
        if event.place & 1:
            self._link.holds_responses = True
        else:
            self._times_out = self._script.fail_next(
                "Produce", "REQUEST_TIMED_OUT", times=None, executed=True, node=self._node
            )
        self._counted = self._script.delay("Produce", 0.0, times=1 + (event.place >> 4) % MOST_STORED, node=self._node)
        self._script.watchers.append(self._on_fault)
        self._timer = world.loop.call_later(event.lasts_s / 2, self._restart)

    def _on_fault(self, met: Fault) -> None:
        if met is self._counted and met.times_left == 1:  # this is the last one
            self._link.holds_requests = self._cuts_requests

    def _restart(self) -> None:
        world, node = self._world, self._node
        self._script.watchers.remove(self._on_fault)
        self._script.release(self._counted)
        if self._times_out is None:
            self._link.holds_responses = False
        else:
            self._script.release(self._times_out)
        self._link.holds_requests = False
        world.break_connections(node)
        world.state.part(FetchSessions).of(node).sessions.clear()
        # A producer in a transaction is not forgotten.
        topics = [world.state.topics.find(name) for name in (MAIN, SECOND)]
        partitions = [partition for topic in topics if topic is not None for partition in topic.partitions]
        is_open = any(partition.producers.first_open_offset is not None for partition in partitions)
        world.state.forget_producers(node, max(self._kept, 1) if is_open else self._kept)
        world.deliver_held(node)

    def end(self) -> None:
        """End the fault; if the broker has not restarted yet, it restarts now."""
        if self._world.loop.time() < self._timer.when():
            self._timer.cancel()
            self._restart()
        for node in self._lagging:
            self._world.state.replication.release(node)
