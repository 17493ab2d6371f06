"""`producer.transactions.state` against a model of the coordinator: whatever is lost or comes late, nothing is torn."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafwire.broker.transactions.transaction_coordinator import Coordinator
from kafwire.broker.transactions.transaction_coordinator import State as CoordinatorState
from kafwire.errors import ErrorCode, KafkaError, ProducerFencedError, TransactionError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.actions import API, Action, AddOffsets, AddPartitions, CommitOffsets, End, Initialize
from kafwire.producer.transactions.state import NO_PRODUCER, State, Transaction
from kafwire.types import ConsumerGroupMetadata

PLACES = [("t", 0), ("t", 1), ("u", 0)]
GROUP = "g"


@dataclass(eq=False)
class Record:
    """A record, or a group's offset, of a transaction; `decided` by a marker."""

    transaction: int
    where: tuple[str, int]
    decided: bool | None = None
    sent: bool = False


class World:
    """One coordinator, logs, requests on their way, and the outcomes that the user got."""

    def __init__(self, seed: int, *, lose: float, late: float, version: int) -> None:
        self.chance = random.Random(seed)
        self.lose, self.late, self.version = lose, late, version
        self.coordinator = Coordinator()
        self.logs: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self.epochs: dict[tuple[str, int], int] = defaultdict(int)
        self.underway: list[Callable[[], object]] = []  # requests without a waiting call any more
        self.delivered_late = 0
        self.producer = Transaction("x")
        self.batches: list[Record] = []  # sent or to be sent, not acknowledged
        self.given: dict[int, list[Record]] = {}  # what the user put into each transaction
        self.reported: dict[int, bool | None] = {}  # transaction: committed, aborted, not known
        self.spoken: dict[int, int] = {}  # by epoch, the version of what was asked under it
        self.opened_by = self.raised_by = ""  # what has begun the last transaction, and raised the coordinator's epoch

    # -- brokers

    def append(self, record: Record, who: Identity, version: int) -> int:
        if who.epoch < self.epochs[record.where]:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if version >= 2:
            code = self.coordinator.add(who, {record.where})
            if code:
                return code
        elif self.coordinator.verify(who, record.where):
            return ErrorCode.INVALID_TXN_STATE  # KIP-890: verified also with version 1
        self.epochs[record.where] = max(self.epochs[record.where], who.epoch)
        if record not in self.logs[record.where]:
            self.logs[record.where].append(record)
        return 0

    def write_markers(self) -> None:
        if self.coordinator.preparing:
            committed = self.coordinator.state is CoordinatorState.PREPARE_COMMIT
            places = set(self.coordinator.partitions)
            self.coordinator.complete()
            for where in places:
                self.epochs[where] = max(self.epochs[where], self.coordinator.epoch)
                for record in self.logs[where]:
                    if record.decided is None:
                        record.decided = committed

    # -- the network

    def send(self, execute: Callable[[], object], what: str, *, may_be_late: bool = True) -> object | None:
        """The outcome of a request, or None when its response is lost: executed before, later or never."""
        if self.chance.random() >= self.lose:
            return self.execute(execute, what)
        if may_be_late and self.chance.random() < self.late:
            self.underway.append(lambda: self.execute(execute, f"late {what}"))
        elif self.chance.random() < 0.5:
            self.execute(execute, f"{what}, without a response")
        return None

    def execute(self, request: Callable[[], object], what: str) -> object:
        state, epoch = self.coordinator.state, self.coordinator.epoch
        response = request()
        if self.coordinator.epoch != epoch:
            self.raised_by = f"{what}, {state.value}"
        if self.coordinator.state is CoordinatorState.ONGOING is not state:
            self.opened_by = what
        return response

    def speak(self, who: Identity, version: int) -> None:
        """KIP-890: with the version the epoch changes, or a broker could not assign a request to its transaction."""
        assert self.spoken.setdefault(who.epoch, version) == version, f"epoch {who.epoch} is used in both versions"

    def happen(self) -> None:
        """An event beside the producer's doing."""
        if self.chance.random() < 0.5:
            self.write_markers()
        if self.underway and self.chance.random() < 0.3:
            self.delivered_late += 1
            self.underway.pop(self.chance.randrange(len(self.underway)))()

    # -- the producer

    def ask(self, action: Action) -> None:
        producer, coordinator = self.producer, self.coordinator
        who, version = producer.identity or NO_PRODUCER, producer.version

        if not isinstance(action, Initialize):
            self.speak(who, version)

        def execute() -> object:
            if isinstance(action, Initialize):
                return coordinator.initialize(action.current or NO_PRODUCER, new_id=lambda: 7)
            if isinstance(action, AddPartitions):
                return coordinator.add(who, set(action.partitions))
            if isinstance(action, AddOffsets):
                return coordinator.add(who, {(action.group_id, 0)})
            if isinstance(action, CommitOffsets):
                (record,) = action.offsets.values()
                assert isinstance(record, Record)
                return self.append(record, who, version)
            return coordinator.end(who, commit=action.committed, version=version, new_id=lambda: 7)

        # One that gets its first identity may be fenced by its own late question: nothing is open then.
        response = self.send(execute, API[type(action)], may_be_late=not isinstance(action, Initialize))
        if response is None:
            producer.lost(action)
        elif isinstance(response, tuple):
            code, identity = response
            producer.on_response(action, code, None if isinstance(action, End) and version < 2 else identity)
        elif isinstance(action, AddPartitions):
            assert isinstance(response, int)
            producer.on_response(action, dict.fromkeys(action.partitions, response))
        else:
            assert isinstance(response, int)
            producer.on_response(action, response)

    def step(self) -> None:
        """The network, the coordinator and the producer, each a bit."""
        self.happen()
        producer = self.producer
        if producer.state in (State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR):
            for record in self.batches:
                producer.batch_failed(KafkaError("dropped"), numbered=record.sent)
            self.batches.clear()
        if self.batches and producer.admits(self.batches[0].where):
            self.produce(self.batches[0])
        action = producer.next(settled=not self.batches)
        if action is not None:
            self.ask(action)

    def produce(self, record: Record) -> None:
        who, version = self.producer.identity, self.producer.version
        assert who is not None
        self.speak(who, version)
        record.sent = True
        code = self.send(lambda: self.append(record, who, version), "Produce")
        assert version >= 2 or code != ErrorCode.INVALID_TXN_STATE or self.delivered_late, "sent before it was added"
        if code == 0:
            self.batches.pop(0)
        elif code not in (None, 51) or (code is None and self.chance.random() < 0.2):  # its time is up
            self.batches.pop(0)
            self.producer.batch_failed(KafkaError(f"error {code}"), numbered=True)

    def run(self, until: Callable[[], bool]) -> None:
        for _ in range(3000):
            if until():
                return
            self.step()
        raise AssertionError(f"no end: {self.producer.state}, {self.coordinator}")

    def transact(self, *, commit: bool) -> None:
        producer = self.producer
        while not producer.begin(self.version):
            self.run(lambda: producer.state is not State.INITIALIZING)
        number = producer.number
        self.reported[number] = None
        try:
            self.batches = [Record(number, where) for where in self.chance.choices(PLACES, k=self.chance.randrange(6))]
            self.given[number] = list(self.batches)
            if self.chance.random() < 0.5:
                offset = Record(number, (GROUP, 0))
                self.given[number].append(offset)
                producer.add_offsets(CommitOffsets(ConsumerGroupMetadata(GROUP), {("in", 0): offset}))
            for _ in range(self.chance.randrange(10)):
                self.step()
            if commit:
                producer.commit()
                self.run(lambda: producer.state is not State.COMMITTING)
            else:
                producer.abort()
            if producer.ended == number and commit:
                self.reported[number] = True
                return
        except TransactionError as error:
            assert error.abortable or error.fatal, error
        if producer.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
            producer.abort()
        self.run(lambda: producer.state is not State.ABORTING)
        if producer.ended == number:
            self.reported[number] = False

    def check(self) -> None:
        """All of a transaction or nothing of it, as its user was informed; nothing twice, nothing open for ever."""
        for _ in range(3):
            self.write_markers()
        fates: dict[int, set[bool | None]] = defaultdict(set)
        for log in self.logs.values():
            assert len(log) == len(set(map(id, log)))
            for record in log:
                fates[record.transaction].add(record.decided)
        for number, reported in self.reported.items():
            for record in self.given[number]:
                there = self.logs[record.where].count(record)
                assert reported is not True or (there, record.decided) == (1, True), (
                    f"of transaction {number} a record is lost"
                )
                assert reported is not False or record.decided is not True, (
                    f"transaction {number} was reported as aborted"
                )
        for number, found in fates.items():
            reported = self.reported[number]
            assert len(found) == 1, f"transaction {number} is torn"
            assert reported is None or found in ({reported}, {None}), (
                f"transaction {number}: {found}, but {reported} was reported"
            )
            assert found != {None} or number == self.producer.number, f"transaction {number} hangs"


def play(
    seed: int, *, lose: float, late: float, version: Callable[[int], int], count: int = 8, before_4: bool = False
) -> World:
    world = World(seed, lose=lose, late=late, version=version(0))
    world.coordinator.before_4 = before_4
    producer = world.producer
    producer.initialize()
    world.run(lambda: producer.state is not State.INITIALIZING)
    for number in range(count):
        world.run(lambda: producer.state is not State.INITIALIZING)
        if producer.state is not State.READY:
            break
        world.version = version(number)
        world.transact(commit=world.chance.random() < 0.7)
    world.check()
    return world


VERSIONS: dict[str, Callable[[int], int]] = {
    "1": lambda _: 1,
    "2": lambda _: 2,
    "upgraded": lambda number: 1 if number < 4 else 2,
    "downgraded": lambda number: 2 if number < 4 else 1,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_torn_when_responses_are_lost(version: str) -> None:
    for seed in range(400):
        world = play(seed, lose=0.3, late=0.0, version=VERSIONS[version])
        assert world.producer.state is not State.FATAL_ERROR, f"seed {seed}: {world.producer.error}"
        assert world.producer.ended == 8, f"seed {seed}"


# Of 600 schedules, those that end in a fenced producer, by what came late and opened a transaction after the last one's
# end: the question for a fresh epoch meets it there, as one of another producer's would. Kafka 3.9 aborts it, and then
# does not know the producer; 4.3 does, and responds when the producer asks again.
FENCED = {
    "1": {},
    "2": {},
    "upgraded": {},
    "downgraded": {},
    "1 of 3.9": {"late AddPartitionsToTxn": 84, "late AddOffsetsToTxn": 29},
}


@pytest.mark.parametrize("version", FENCED)
def test_nothing_is_torn_when_requests_are_executed_late(version: str) -> None:
    """The fault is KAFKA-17754's: an EndTxn whose response no call waits for any more meets the next transaction."""
    late = 0
    fenced: Counter[str] = Counter()
    for seed in range(600):
        before_4 = version.endswith("3.9")
        world = play(seed, lose=0.3, late=0.7, version=VERSIONS[version.split(maxsplit=1)[0]], before_4=before_4)
        late += world.delivered_late
        if world.producer.state is State.FATAL_ERROR:
            assert isinstance(world.producer.error, ProducerFencedError), f"seed {seed}: {world.producer.error}"
            assert "InitProducerId was refused" in str(world.producer.error), f"seed {seed}: {world.producer.error}"
            assert world.raised_by.startswith("InitProducerId"), f"seed {seed}: {world.raised_by}"
            fenced[world.opened_by] += 1
    assert late > 500
    assert fenced == FENCED[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_on_a_sound_network_all_ends_as_reported(version: str) -> None:
    for seed in range(200):
        world = play(seed, lose=0.0, late=0.0, version=VERSIONS[version])
        assert world.producer.ended == 8
        assert None not in world.reported.values()
