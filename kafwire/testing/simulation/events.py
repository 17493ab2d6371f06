"""The faults of a schedule in the simulated world: each kind begins here, and those that last end here.

- crash, stop, crash_unflushed: a broker ends uncleanly, cleanly, or losing all records without a copy; then it starts
- move_leader, unclean_election: another replica leads; a replica without the newest records leads, and they are lost
- move_coordinator: another broker coordinates a group and a transactional id
- controller_failover: no leader is elected meanwhile
- reset_connections, refuse_connections, half_open: connections end; none is accepted; they are dead, without a notice
- delay, drip, cut_requests, cut_responses, late_requests, lose_response: faults of bytes in transit, see `links.py`
- lag_followers, lag_metadata: followers get no records; a broker returns stale metadata
- disk_full: a broker can store nothing, and others lead its partitions
- jump_clock: the brokers' wall clocks are set to another time
- move_address: a broker listens at another address from now on
- add_partitions, recreate_topic, delete_records: a topic grows, is recreated, loses its oldest records
- forget_sessions, throttle: fetch sessions are gone; responses ask clients to wait
- forget_producers: a broker remembers fewer batches of each producer
- forgetful_restart: a broker stores batches, acknowledges none, and restarts so soon that it still leads. It then
  remembers fewer batches of each producer. Its followers may lag
- crash_all: all brokers end at once, as by a power cut, and start one after the other
- store_and_fail: the leader stores the next batches to a partition, but its response says that they may be lost
- unready_leader: another replica leads, and refuses the first requests
- no_leader: a partition has no leader for a while
- stale_metadata: another replica leads, and no other broker knows it for a while
- recreate_in_doubt: a topic is recreated when the leader stored a batch and did not acknowledge it
- response_error: a broker fails the next requests of an API with an error that passes by itself. If the broker returns
  this error only for stored batches, it stores them
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kafwire.broker.api.fetch import FetchSessions
from kafwire.broker.faults import Fault
from kafwire.broker.faults import Faults as Script
from kafwire.broker.log.partition import NO_LEADER, Partition
from kafwire.testing.simulation.forgetful_restart import ForgetfulRestart
from kafwire.testing.simulation.response_errors import ERRORS, LATER_EPOCH, MAYBE_STORED, STORED, UNREADY
from kafwire.testing.simulation.schedule import MAIN, SECOND, SIDE, Event

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState
    from kafwire.testing.simulation.cluster import ClusterWorld

LONGEST_DELAY_S = 3.0
MOST_LOST = 50  # records, by an unclean election
LONGEST_JUMP_MS = 3_000_000.0  # brokers refuse records that are an hour ahead of them
LONGEST_THROTTLE_MS = 1_500
IDENTITIES = ("transactions", "chain", "roaming")  # transactional ids and groups of the workload
# The APIs of responses that are lost; "" stands for any API.
LOST = ("", "Produce", "Produce", "Fetch", "EndTxn", "TxnOffsetCommit", "InitProducerId", "AddPartitionsToTxn")
KEPT = (1, 2, 5)  # batches per producer that a restarted broker remembers
MOST_ERRORS = 5
OF_PARTITIONS = ("no_leader", "lag_followers")  # faults of single partitions
RECREATED_S = (0.005, 0.09)  # after the leader stored the batch, before its producer retries it
SIDE_KEPT = 3  # partitions of the recreated topic


class Faults:
    """The faults of one run. `met` counts which fault met which state of the clients' requests."""

    def __init__(self, world: ClusterWorld, say: Callable[[str], None]) -> None:
        self.world = world
        self.say = say
        self.met: Counter[tuple[str, str]] = Counter()
        self._active: list[Event] = []
        self._wall_offset_ms = world.state.wall_offset_ms
        self._ends: dict[Event, Callable[[], None]] = {}
        self.buried: list[bytes | None] = []  # the values in the logs of topics that were deleted and recreated

    @property
    def _state(self) -> ClusterState:
        return self.world.state

    def begin(self, event: Event) -> None:
        """Start a fault; one that lasts ends by itself."""
        for met in self.states():
            self.met[event.kind, met] += 1
        self.say(
            f"{event.kind.replace('_', ' ')}, node {event.node}" + (f", {event.lasts_s:.1f} s" if event.lasts_s else "")
        )
        end = getattr(self, f"_{event.kind}")(event)
        if end is not None:
            self._active.append(event)
            self._ends[event] = end
            self.world.loop.call_later(event.lasts_s, self._end, event)
        self._note_calm()

    def _note_calm(self) -> None:
        now_s = self.world.loop.time()
        self.world.calm_since_s = math.inf if self._active else now_s
        is_disturbed = any(event.kind not in OF_PARTITIONS for event in self._active)
        self.world.reachable_since_s = math.inf if is_disturbed else now_s

    def _end(self, event: Event) -> None:
        end = self._ends.pop(event, None)
        if end is not None:
            self._active.remove(event)
            self.say(f"end of {event.kind.replace('_', ' ')}, node {event.node}")
            end()
            self._note_calm()

    def heal(self) -> None:
        """End all faults that last: all brokers run, and the network is free of faults."""
        for event in list(self._active):
            self._end(event)
        self._state.part(Script).clear()
        for link in self.world.links.values():
            link.heal()
        for node in self._state.nodes.values():
            if not node.is_up:
                self.world.revive(node.number)

    def states(self) -> set[str]:
        """Return the states of the clients' requests and partitions that the brokers and the network see."""
        found = {f"{call.name} in flight" for call in self.world.in_flight()} or {"nothing in flight"}
        for partition in self._partitions(MAIN, SECOND):
            if partition.leader < 0:
                found.add("a partition without a leader")
            if len(partition.isr) < len(partition.replicas):
                found.add("a replica out of sync")
            if partition.high_watermark < partition.log.end_offset:
                found.add("records not replicated yet")
            if partition.producers.first_open_offset is not None:
                found.add("a transaction open")
        found |= {f"beside {event.kind}" for event in self._active}
        return found

    def _partitions(self, *topics: str) -> Iterator[Partition]:
        for name in topics:
            topic = self._state.topics.find(name)
            if topic is not None:
                yield from topic.partitions

    def _partition(self, event: Event) -> Partition:
        found = list(self._partitions(MAIN, SECOND))
        return found[event.place % len(found)]

    # --- brokers

    def _crash(self, event: Event) -> Callable[[], None] | None:
        return self._down(event, clean=False)

    def _stop(self, event: Event) -> Callable[[], None] | None:
        return self._down(event, clean=True)

    def _crash_unflushed(self, event: Event) -> Callable[[], None] | None:
        """Lose the records that only this leader has, and stop the broker."""
        for topic in self._state.topics:
            for partition in topic.partitions:
                if partition.leader == event.node:
                    partition.truncate(partition.high_watermark)
        return self._down(event, clean=False)

    def _down(self, event: Event, *, clean: bool) -> Callable[[], None] | None:
        if not self._state.nodes[event.node].is_up:
            return None
        self.world.kill(event.node, clean=clean)
        return lambda: self.world.revive(event.node)

    def _move_leader(self, event: Event) -> None:
        partition = self._partition(event)
        others = [n for n in partition.isr if n != partition.leader and self._state.replication.can_lead(n)]
        if others:
            partition.lead(others[event.node % len(others)])

    def _unclean_election(self, event: Event) -> None:
        partition = self._partition(event)
        others = [n for n in partition.replicas if n != partition.leader and self._state.replication.can_lead(n)]
        if others:
            node = others[event.node % len(others)]
            end = partition.log.end_offset - round(event.amount * MOST_LOST)
            # Followers get batches whole.
            headers = partition.log.headers(partition.log.start_offset, max(end, 0))
            whole = [header.next_offset for header in headers if header.next_offset <= end]
            partition.replica_ends[node] = max([partition.log.start_offset, *whole[-1:]])
            partition.lead(node)

    def _move_coordinator(self, event: Event) -> None:
        if self._state.nodes[event.node].is_up:
            for identity in IDENTITIES:
                self._state.move_coordinator(identity, event.node)

    def _controller_failover(self, event: Event) -> Callable[[], None]:
        del event
        self._state.replication.lose_controller()
        return self._state.replication.find_controller

    def _disk_full(self, event: Event) -> Callable[[], None] | None:
        """Take the log folder offline: like Kafka's broker, this one gives up all its partitions."""
        if not self._state.nodes[event.node].is_up:
            return None
        self._state.replication.take_offline(event.node)
        return lambda: self._state.replication.bring_online(event.node)

    def _jump_clock(self, event: Event) -> None:
        self._state.wall_offset_ms = self._wall_offset_ms + (event.amount - 0.5) * 2 * LONGEST_JUMP_MS

    def _lag_followers(self, event: Event) -> Callable[[], None]:
        """Let followers on this broker get no records meanwhile."""
        self._state.replication.hold(event.node)
        return lambda: self._state.replication.release(event.node)

    def _lag_metadata(self, event: Event) -> Callable[[], None]:
        self.world.lag(event.node)
        return lambda: self.world.catch_up(event.node)

    def _forget_sessions(self, event: Event) -> None:
        self._state.part(FetchSessions).of(event.node).sessions.clear()

    def _throttle(self, event: Event) -> Callable[[], None]:
        self.world.throttles[event.node] = max(1, round(event.amount * LONGEST_THROTTLE_MS))

        def end() -> None:
            self.world.throttles.pop(event.node, None)

        return end

    def _crash_all(self, event: Event) -> Callable[[], None]:
        gone = [node.number for node in self._state.nodes.values() if node.is_up]
        for number in gone:
            self.world.kill(number)
        last = gone.index(event.node) if event.node in gone else 0

        def end() -> None:
            for number in (*gone[last:], *gone[:last]):
                if not self._state.nodes[number].is_up:
                    self.world.revive(number)

        return end

    def _forgetful_restart(self, event: Event) -> Callable[[], None]:
        return ForgetfulRestart(self.world, event).end

    def _store_and_fail(self, event: Event) -> None:
        partition = self._partition(event)
        self._state.part(Script).fail_next(
            "Produce",
            STORED[event.place % len(STORED)],
            times=1 + int(event.amount * 2),
            executed=True,
            topic=partition.topic.name,
            partition=partition.index,
        )

    def _unready_leader(self, event: Event) -> None:
        partition = self._partition(event)
        others = [n for n in partition.isr if n != partition.leader and self._state.replication.can_lead(n)]
        if not others:
            return
        node = others[event.node % len(others)]
        partition.lead(node)
        error, times = UNREADY[event.place % len(UNREADY)], 1 + int(event.amount * MOST_ERRORS)
        script = self._state.part(Script)
        script.fail_next(
            "Produce", error, times=times, node=node, topic=partition.topic.name, partition=partition.index
        )

    def _no_leader(self, event: Event) -> Callable[[], None]:
        partition = self._partition(event)
        partition.lead(NO_LEADER)

        def end() -> None:
            if partition.leader == NO_LEADER:
                partition.lead(self._state.replication.successor(partition))

        return end

    def _stale_metadata(self, event: Event) -> Callable[[], None] | None:
        partition = self._partition(event)
        others = [n for n in partition.isr if n != partition.leader and self._state.replication.can_lead(n)]
        if not others:
            return None
        node = others[event.node % len(others)]
        lagging = [number for number in self._state.nodes if number != node]
        for number in lagging:
            self.world.lag(number)
        partition.lead(node)

        def end() -> None:
            for number in lagging:
                self.world.catch_up(number)

        return end

    # --- topics

    def _add_partitions(self, event: Event) -> None:
        del event
        topic = self._state.topics.find(SIDE)
        if topic is not None:
            self._state.topics.add_partitions(topic, 1, len(self._state.nodes))

    def _recreate_in_doubt(self, event: Event) -> None:
        """Recreate the topic after the leader stores its next batch, and before the producer retries the batch."""
        script = self._state.part(Script)
        if event.place & 1:
            fault = script.fail_next("Produce", "REQUEST_TIMED_OUT", executed=True, topic=SIDE)
        else:
            fault = script.drop_response("Produce", topic=SIDE)
        first, last = RECREATED_S

        def on_fault(met: Fault) -> None:
            if met is fault:
                script.watchers.remove(on_fault)
                self.world.loop.call_later(first + (last - first) * event.amount, self._recreate_topic, event)

        script.watchers.append(on_fault)

    def _recreate_topic(self, event: Event) -> None:
        del event
        topic = self._state.topics.find(SIDE)
        if topic is not None:
            self.buried += itertools.chain.from_iterable(partition.values() for partition in topic.partitions)
            self._state.topics.delete(topic)
        self._state.topics.create(SIDE, SIDE_KEPT, len(self._state.nodes))

    def _delete_records(self, event: Event) -> None:
        for partition in self._partitions(SIDE):
            start = partition.log.start_offset
            partition.delete_before(start + round(event.amount * (partition.high_watermark - start)))

    # --- the network

    def _reset_connections(self, event: Event) -> None:
        self.world.break_connections(event.node)

    def _half_open(self, event: Event) -> None:
        self.world.deaden_connections(event.node)

    def _move_address(self, event: Event) -> None:
        if event.node != min(self._state.nodes):  # one address stays, for the bootstrap servers
            self.world.move_broker(event.node)

    def _refuse_connections(self, event: Event) -> Callable[[], None]:
        link = self.world.links[event.node]
        link.is_refusing = True
        self.world.break_connections(event.node)

        def end() -> None:
            link.is_refusing = False

        return end

    def _delay(self, event: Event) -> Callable[[], None]:
        return self._changed(event, "latency_s", event.amount * LONGEST_DELAY_S)

    def _drip(self, event: Event) -> Callable[[], None]:
        return self._changed(event, "bytes_per_s", 500 + event.amount * 20_000)

    def _cut_requests(self, event: Event) -> Callable[[], None]:
        return self._changed(event, "holds_requests", True)

    def _cut_responses(self, event: Event) -> Callable[[], None]:
        return self._changed(event, "holds_responses", True)

    def _late_requests(self, event: Event) -> Callable[[], None]:
        link = self.world.links[event.node]
        link.holds_requests = link.runs_late = True

        def end() -> None:
            link.holds_requests = False
            self.world.deliver_held(event.node)
            link.runs_late = False

        return end

    def _changed(self, event: Event, name: str, value: object) -> Callable[[], None]:
        link = self.world.links[event.node]
        before = getattr(type(link)(), name)
        setattr(link, name, value)

        def end() -> None:
            setattr(link, name, before)
            self.world.deliver_held(event.node)

        return end

    def _lose_response(self, event: Event) -> None:
        self.world.links[event.node].resets.append(LOST[event.place % len(LOST)])

    def _forget_producers(self, event: Event) -> None:
        """Shrink a broker's memory of producers, as a restart does; of producers in a transaction it keeps all."""
        if not self._state.topics.by_name[MAIN].partitions[0].producers.first_open_offset:
            self._state.forget_producers(event.node, KEPT[event.place % len(KEPT)])

    def _response_error(self, event: Event) -> None:
        """Fail some of the next requests to this broker, whole or at one partition, mostly without executing them."""
        api, error = ERRORS[event.place % len(ERRORS)]
        times = 1 + int(event.amount * MOST_ERRORS)
        script = self._state.part(Script)
        if error == LATER_EPOCH:  # this topic has no transactions, which this error would end
            script.fail_next(api, error, topic=SIDE)
            return
        executed = api == "Produce" and (error in STORED or (error == MAYBE_STORED and event.place & 2 > 0))
        if api in ("Produce", "Fetch") and event.place & 1:
            script.fail_next(api, error, times=times, executed=executed, node=event.node, topic=MAIN, partition=0)
        else:
            script.fail_next(api, error, times=times, executed=executed, node=event.node)
