"""Fetch sessions against the model of a broker: random schedules of wanted keys, losses and faults.

    KAFWIRE_EXAMPLES=100 pytest tests/unit/consumer/fetch/test_session_model.py    # the long form; else a thousand
    KAFWIRE_SEED=7 ...                                                    # the same schedules again

Each schedule checks, at every request, that the broker reads what was wanted when the request was made up, with the
same offsets; that a request says nothing needless; that no partition with data waits longer than is proven; that a
session ends only when something ended it, and that one round mends it; and at its end, that everything was read once,
in order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from kafwire.broker.log.fetch_sessions import Context, Read, SessionBroker, share
from kafwire.consumer.fetch.session import LAST_EPOCH, Asked, FetchSession, Plan
from tests.support import seeds

SCHEDULES = 1000
AT_ONCE = 200  # schedules in one test

# Events of a request, and their weights in a schedule full of trouble.
GOOD = "good"
TROUBLES = {
    "lost before the broker had it": 3,
    "response lost": 3,
    "connection lost while it waited": 2,
    "broker restarted": 2,
    "session evicted": 2,
    "refused as a whole": 2,
    "throttled": 3,
}


@dataclass
class Partition:
    """One key's log, as sizes of batches of one record each, and how far it was read."""

    batches: list[int] = field(default_factory=list)
    error: int = 0
    read: list[int] = field(default_factory=list)
    start: int = 0

    def sizes(self, offset: int) -> list[int]:
        return [] if self.error else self.batches[offset:]


@dataclass
class Round:
    """A request that the broker has, and its response."""

    plan: Plan[int]
    wanted: dict[int, Asked]  # when it was made up
    by_id: bool
    context: Context[int, Asked] | None = None
    sizes: dict[int, int] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)  # keys with data
    head: tuple[int, int, list[int]] = (0, 0, [])
    throttled: bool = False
    dropped: set[int] = field(default_factory=set)  # since it was made up, and perhaps wanted again


class Schedule:
    """A client and a broker, and what chance does to them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        count = chance.choice([1, 2, 3, 5, 8, 8, 40])
        self.sessions = chance.random() < 0.9
        last_epoch = chance.choice([1, 3, 10, LAST_EPOCH])
        self.client: FetchSession[int] = FetchSession(sessions=self.sessions, last_epoch=last_epoch)
        self.broker: SessionBroker[int, Asked] = SessionBroker(
            slots=chance.choice([0, 1, 1, 2, 1000]), last_epoch=last_epoch
        )
        self.logs = {key: Partition() for key in range(count)}
        self.max_bytes = chance.choice([1, 50, 200, 100_000])
        self.partition_max = chance.choice([1, 50, 1000])
        self.trouble = chance.choice([0.0, 0.05, 0.3])
        self.by_id = True
        self.now_ms = 0.0
        self.disturbed = False  # the broker may respond to the next request with a session error
        self.orphans = 0  # sessions that the broker opened and the client does not know
        self.misses: dict[
            int, tuple[int, int]
        ] = {}  # good rounds that passed a partition with data over, and their bound
        self.in_flight: Round | None = None
        self.deepest = 0

    # Actions of the client's owner.

    def want(self, key: int, offset: int | None = None) -> None:
        log = self.logs[key]
        if offset is None:
            offset = log.start + len(log.read)
        elif offset != log.start + len(log.read):
            log.start, log.read = offset, []
        self.client.want(key, Asked(offset, self.partition_max, self.chance.choice([-1, 3])))

    def change(self) -> None:
        """A change of the wanted keys, or of the logs."""
        chance = self.chance
        key = chance.choice(list(self.logs))
        what = chance.random()
        if what < 0.35:
            self.logs[key].batches += [chance.randint(1, 60) for _ in range(chance.choice([1, 1, 5]))]
        elif what < 0.65:
            self.want(key)
        elif what < 0.8:
            self.client.drop(key)
            self.misses.pop(key, None)
            if self.in_flight is not None:
                self.in_flight.dropped.add(key)
        elif what < 0.85:
            self.want(key, chance.randint(0, len(self.logs[key].batches)))
        elif what < 0.9:
            self.logs[key].error = chance.choice([0, 0, 6])
        elif what < 0.93:
            self.by_id = not self.by_id
            self.client.renew()
        elif what < 0.95:
            closing = self.client.closing()
            if closing is not None:
                # The broker reads it and responds before anything else, or while a request waits there.
                assert not self.broker.begin(self.now_ms, *closing, []).asked
        elif what < 0.97:
            self.now_ms += chance.choice([10, 130_000])

    def send(self) -> None:
        wanted = {key: self.client.asked(key) for key in self.client}
        before = self.broker.sessions.get(self.client.session_id)
        had = {key: cached.asked for key, cached in before.partitions.items()} if before else {}
        plan = self.client.plan()
        self.in_flight = Round(plan, {key: asked for key, asked in wanted.items() if asked is not None}, self.by_id)
        assert plan.full == (plan.epoch in {0, -1})
        assert not set(dict(plan.add)) & set(plan.forget)
        if plan.full:
            assert dict(plan.add) == self.in_flight.wanted
            assert [key for key, _ in plan.add] == list(wanted)
            assert plan.forget == []
            assert self.sessions or plan[:2] == (0, -1)
        elif not self.disturbed:
            assert all(had.get(key) != asked for key, asked in plan.add), "said although the broker knows"
            assert set(plan.forget) <= set(had), "forgotten although the broker never had it"

    def arrive(self) -> None:
        """The broker takes the request in, and looks at its logs."""
        flight = self.in_flight
        assert flight is not None
        plan = flight.plan
        context = self.broker.begin(self.now_ms, *plan, by_id=flight.by_id)
        flight.context = context
        if context.error:
            assert self.disturbed, f"session error {context.error} although nothing has happened"
            flight.head = context.finish({})
            return
        assert context.asked == flight.wanted, "the broker reads something else than what was wanted"
        order = sorted(context.asked, key=lambda key: self.logs[key].error)
        flight.ready = {key for key in order if self.logs[key].sizes(context.asked[key].offset)}
        limits = [(key, context.asked[key].max_bytes) for key in order]
        flight.sizes = share(limits, lambda key: self.logs[key].sizes(context.asked[key].offset), self.max_bytes)

    def finish(self) -> None:
        """The broker makes the response's head."""
        flight = self.in_flight
        assert flight is not None
        assert flight.context is not None
        reads = {
            key: Read(size, len(self.logs[key].batches), error=self.logs[key].error)
            for key, size in flight.sizes.items()
        }
        flight.head = flight.context.finish(reads)

    def respond(self) -> None:
        """The client takes the response in; served keys are wanted again, mostly."""
        flight, self.in_flight = self.in_flight, None
        assert flight is not None
        error, session_id, reported = flight.head
        served = [key for key in reported if flight.sizes[key]]
        good = self.client.on_response(error, session_id, served)
        assert good == (error == 0)
        if not good:
            return
        self.disturbed = False
        for key in served:
            self._take(key, flight)
        if not flight.throttled:
            self._count_waiting(flight, served)

    def _take(self, key: int, flight: Round) -> None:
        log, asked = self.logs[key], flight.wanted[key]
        if key not in self.client or asked.offset != log.start + len(log.read):
            return  # dropped, or sought elsewhere, since
        left = flight.sizes[key]
        assert left >= log.batches[asked.offset], "no whole batch"
        for size in log.batches[asked.offset :]:
            left -= size
            if left < 0:
                break
            log.read.append(log.start + len(log.read))
        if self.chance.random() < 0.8:
            self.want(key)
        else:
            self.client.drop(key)

    def _count_waiting(self, flight: Round, served: Iterable[int]) -> None:
        assert flight.context is not None
        for key in flight.context.asked:
            if key in served or key in flight.dropped or key not in flight.ready:
                self.misses.pop(key, None)
                continue
            misses, bound = self.misses.get(key, (0, len(flight.context.asked)))
            bound += flight.context.opens and flight.head[1] > 0
            self.misses[key] = (misses + 1, bound)
            self.deepest = max(self.deepest, misses + 1)
            assert misses + 1 < bound, f"{key} had data, and was not served in {bound} good rounds"

    # Random actions.

    def round(self, what: str) -> None:
        """One request, from beginning to end; things are wanted and dropped meanwhile."""
        self.send()
        self.changes()
        if what == "lost before the broker had it":
            self.lose()
            return
        if what == "broker restarted":
            self.broker.sessions.clear()
            self.disturbed = True
        elif what == "session evicted" and self.broker.sessions:
            del self.broker.sessions[self.chance.choice(list(self.broker.sessions))]
            self.disturbed = True
        flight = self.in_flight
        assert flight is not None
        if what == "refused as a whole" and self.chance.random() < 0.5:
            flight.head = (self.chance.choice([-1, 106, 29]), 0, [])
            self.disturbed = True
            self.respond()
            return
        closed = self.client.session_id != flight.plan.session_id
        self.disturbed |= closed
        self.arrive()
        assert flight.context is not None
        if flight.context.error:
            self.respond()
            return
        if what == "connection lost while it waited":
            self.lose()
            return
        if what == "throttled":
            flight.head = flight.context.throttled()
            flight.throttled = True
        else:
            self.finish()
        self.changes()
        if what == "response lost":
            self.orphans += int(flight.plan.epoch == 0 and flight.head[1] > 0)
            self.lose()
        elif what == "refused as a whole":
            self.orphans += int(flight.plan.epoch == 0 and flight.head[1] > 0)
            flight.head = (self.chance.choice([-1, 71, 106]), 0, [])
            self.disturbed = True
            self.respond()
        else:
            self.respond()

    def lose(self) -> None:
        self.client.on_lost()
        self.in_flight = None
        self.disturbed = True

    def changes(self) -> None:
        for _ in range(self.chance.choice([0, 1, 1, 3])):
            self.change()

    def run(self) -> None:
        for _ in range(self.chance.randint(5, 30)):
            self.changes()
            if self.chance.random() < self.trouble:
                self.round(*self.chance.choices(list(TROUBLES), list(TROUBLES.values())))
                if self.chance.random() < 0.5:
                    self.recover()
            else:
                self.round(GOOD)
        self.drain()

    def recover(self) -> None:
        """Whatever went wrong, one request later the broker reads the wanted keys again: two, if it finds out by it."""
        for _ in range(2):
            self.quiet_round()
            if not self.disturbed:
                return
        raise AssertionError("one session error after the other")

    def quiet_round(self) -> None:
        """One in which nothing changes."""
        self.send()
        self.arrive()
        flight = self.in_flight
        assert flight is not None
        assert flight.context is not None
        if not flight.context.error:
            self.finish()
        else:
            assert not flight.plan.full
        self.respond()

    def drain(self) -> None:
        """Everything is read in the end, once and in order, and no session is left behind that is known of."""
        for key, log in self.logs.items():
            log.error = 0
            self.want(key)
        rounds = 2 + sum(len(log.batches) for log in self.logs.values())
        for _ in range(rounds):
            for key in self.logs:
                self.want(key)
            self.quiet_round()
        for log in self.logs.values():
            assert log.read == list(range(log.start, len(log.batches)))
        closing = self.client.closing()
        if closing is not None:
            self.broker.begin(self.now_ms, *closing, [])
        assert len(self.broker.sessions) <= self.orphans


@seeds.several(SCHEDULES // AT_ONCE)
def test_random_schedules(seed: int) -> None:
    deepest = 0
    for number in range(AT_ONCE):
        schedule = Schedule(random.Random(f"{seed}-{number}"))
        try:
            schedule.run()
        except Exception as error:
            raise AssertionError(f"schedule {number} of seed {seed}: {error}") from error
        deepest = max(deepest, schedule.deepest)
    print(f"{AT_ONCE} schedules; the longest wait of a partition with data was {deepest} rounds")
    assert deepest > 0


@pytest.mark.parametrize("sessions", [True, False])
def test_the_bound_is_reached(sessions: bool) -> None:
    """With n full partitions and room for one, the last is served in the n-th round; then all in turn."""
    client: FetchSession[int] = FetchSession(sessions=sessions)
    broker: SessionBroker[int, Asked] = SessionBroker()
    for key in range(5):
        client.want(key, Asked(0, 1))
    order = []
    for number in range(15):
        plan = client.plan()
        if number == 7:
            broker.sessions.clear()
        context = broker.begin(0, *plan)
        sizes = share(((key, 1) for key in context.asked), lambda _: [10], 1)
        error, session_id, reported = context.finish({key: Read(size) for key, size in sizes.items()})
        served = [key for key in reported if sizes[key]]
        order += served
        assert client.on_response(error, session_id, served) == (error == 0)
    # A new session has the order of its request, and its first response does not move a key.
    assert order == ([0, 0, 1, 2, 3, 4, 0, 1, 1, 2, 3, 4, 0, 1] if sessions else [0, 1, 2, 3, 4] * 3)
