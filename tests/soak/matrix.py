"""The workloads of a segment, as a pure function of seed and segment. No clock, no sockets.

A segment has topics of its own, and producers that are numbered in its histories. All of kafwire's write to the same
topics, those with transactions too; the control, confluent-kafka, has topics of its own and is judged for itself.
"""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

KAFWIRE, CONTROL = "kafwire", "confluent-kafka"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# The kinds of producers. "send": one by one, many under way; "wait": one by one, waiting for each; "batch": from Arrow;
# "transactions": a few records to several partitions, some aborted; "transform": records read, transformed and written
# in a transaction with the offsets.
SEND, WAIT, BATCH, TRANSACTIONS, TRANSFORM = KINDS = ("send", "wait", "batch", "transactions", "transform")


# How a reader reads.
BLOCKING = "blocking"
FLAVOURS = (BLOCKING, "async")
POLL, BATCHES, STREAMS, ARROW, RECORDS = WAYS = ("poll", "batches", "streams", "arrow", "records")
STRATEGIES = ("hybrid", "per_partition", "per_node", "single socket")
LEVELS = ("read_uncommitted", "read_committed")
AUTO, MANUAL = "auto", "manual"
READERS = "kafwire-readers"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a segment."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of one producer, at `rate` records a second at most, `rows` at a time, to `topics` in turn.

    `placement` is "key" (by the key's hash), "sticky" (without a key), or "partition" (it is named). `size` is a
    value's, in bytes; `keys` the number of keys; `window` the number of records under way at most; `aborts` the share
    of transactions that are; `headers` the number of each record's headers; `timed`: the records' times are named.
    `options` are the producer's, as kafwire spells them. `source` is the topic that a transform reads.
    """

    producer: int
    client: str
    kind: str
    topics: tuple[Topic, ...]
    rate: float
    rows: int
    size: int
    keys: int
    window: int
    placement: str
    options: dict[str, Any] = field(default_factory=dict)
    aborts: float = 0.0
    source: Topic | None = None
    identity: str = ""
    headers: int = 0
    timed: bool = False

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"{self.client} {self.kind} {self.producer} ({self.options.get('compression_type', 'none')})"

    @property
    def group(self) -> str:
        """The group whose offsets a transform commits."""
        return f"{self.identity}-group"

    def as_json(self) -> dict[str, Any]:
        """The form that `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> Self:
        """The same from what JSON makes of it."""
        source = known["source"]
        return cls(
            **known
            | {
                "topics": tuple(Topic(**topic) for topic in known["topics"]),
                "source": Topic(**source) if source else None,
            }
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader that is there all the time; `commits` says how its offsets are committed: it starts over from them.

    That it does every `restart_s` seconds, about. `options` are the consumer's.
    """

    identity: str
    flavour: str
    way: str
    strategy: str
    isolation_level: str
    commits: str
    restart_s: float
    topics: tuple[Topic, ...]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"{self.identity} {self.flavour} {self.way} {self.strategy} {self.commits}".strip()

    def as_json(self) -> dict[str, Any]:
        """The form that `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> Self:
        """The same from what JSON makes of it."""
        return cls(**known | {"topics": tuple(Topic(**topic) for topic in known["topics"])})


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a chain: everything of `source`, as `read_committed` shows it, is written on to `target`.

    `producer` and `consumer` are their options.
    """

    identity: str
    source: Topic
    target: Topic
    producer: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Segment:
    """The topics, producers and readers of one segment.

    `processes` are groups of producers: each runs in a process of its own. So do all readers together, and each of the
    hops. The first topic of these is one of `topics`; the others are not in the histories.
    """

    number: int
    topics: tuple[Topic, ...]
    control_topics: tuple[Topic, ...]
    processes: Mapping[str, tuple[Workload, ...]]
    readings: tuple[Reading, ...] = ()
    hops: tuple[Hop, ...] = ()

    @property
    def every_topic(self) -> tuple[Topic, ...]:
        """The topics of all, the control's too."""
        return (*self.topics, *self.control_topics, *(hop.target for hop in self.hops))

    @property
    def workloads(self) -> list[Workload]:
        """All of them."""
        return [one for some in self.processes.values() for one in some]


def segment(seed: int, number: int, *, rate: float = 1.0) -> Segment:
    """The segment of this number; `rate` multiplies all rates."""
    chance = random.Random(f"{seed}/segment/{number}")
    name = f"soak-{number}"
    topics = tuple(Topic(f"{name}-{place}", chance.choice((1, 2, 3, 4))) for place in range(2))
    source = Topic(f"{name}-source", chance.choice((2, 3)))
    control = Topic(f"{name}-control", chance.choice((2, 3)))
    links = chance.choice((1, 2, 3))
    chain = tuple(Topic(f"{name}-chain-{place}", links) for place in range(3))
    codecs = [*chance.sample(CODECS, 5), *chance.sample(CODECS, 5)]

    def drawn(
        producer: int,
        kind: str,
        where: tuple[Topic, ...],
        records: float,
        rows: tuple[int, ...],
        placement: tuple[str, ...],
        client: str = KAFWIRE,
        **more: Any,
    ) -> Workload:
        request_timeout_ms = chance.choice((2_000, 4_000, 8_000))
        at_once = chance.choice(rows)
        # Above linger and request time-out, as it must be; the short ones leave records whose fate is unknown.
        options = {
            "compression_type": codecs[producer - 1],
            "linger_ms": chance.choice((0, 1, 5, 20)),
            # A small batch of many rows would wait for many round trips.
            "batch_size": chance.choice((16_384, 1 << 20) if kind == BATCH else (2_000, 16_384, 1 << 20)),
            "request_timeout_ms": request_timeout_ms,
            "delivery_timeout_ms": chance.choice((request_timeout_ms + 1_000, 20_000, 20_000, 60_000, 60_000)),
            "max_in_flight_requests_per_connection": chance.choice((1, 2, 5, 5, 5)),
            "client_id": f"{name}-{producer}",
        }
        return Workload(
            producer,
            client,
            kind,
            where,
            records * rate,
            at_once,
            chance.choice((24, 100, 100, 300)),
            chance.choice((1, 7, 100)),
            min(10_000, 200 * at_once) if kind == BATCH else 1_000,
            chance.choice(placement),
            options,
            identity=f"{name}-{producer}",
            headers=chance.choice((0, 0, 1, 2)),
            timed=chance.random() < 0.5,
            **more,
        )

    every, placed = ("key", "sticky", "partition"), ("partition",)
    plain = (
        drawn(1, BATCH, topics, 4_000, (500, 1_000, 2_000), placed),
        drawn(2, BATCH, topics, 1_500, (10, 50, 200), placed),
        drawn(3, SEND, topics, 500, (1, 5, 20), every),
        drawn(4, SEND, (source,), 300, (1, 5, 20), every),
        drawn(5, WAIT, topics, 100, (1,), every),
        drawn(9, SEND, (chain[0],), 150, (1, 5, 20), every),
    )
    aborts = 0.25
    transactional = (
        drawn(6, TRANSACTIONS, topics, 300, (4, 20), placed, aborts=aborts),
        drawn(7, TRANSACTIONS, (*topics, source), 200, (4, 20), placed, aborts=aborts),
        drawn(8, TRANSFORM, topics, 200, (20,), placed, aborts=aborts, source=source),
        drawn(10, TRANSACTIONS, (chain[0],), 100, (4, 20), placed, aborts=aborts),
    )
    compared = (
        drawn(1, SEND, (control,), 200, (1, 5, 20), placed, CONTROL),
        drawn(2, TRANSACTIONS, (control,), 100, (4, 20), placed, CONTROL, aborts=aborts),
    )
    processes = {KAFWIRE: plain, "kafwire-transactions": transactional, CONTROL: compared}
    hops = tuple(
        Hop(
            f"{name}-hop-{place}",
            chain[place],
            chain[place + 1],
            {
                "compression_type": chance.choice(CODECS),
                "linger_ms": chance.choice((0, 5)),
                "request_timeout_ms": chance.choice((2_000, 4_000, 8_000)),
            },
            {"request_timeout_ms": chance.choice((2_000, 4_000, 8_000)), "chunk_bytes": chance.choice((1, 4 << 20))},
        )
        for place in range(2)
    )
    every_topic = (*topics, source, chain[0])
    return Segment(number, every_topic, (control,), processes, _readings(chance, name, every_topic), hops)


def _readings(chance: random.Random, name: str, topics: tuple[Topic, ...]) -> tuple[Reading, ...]:
    """Four: each fetch strategy, each flavour twice, both isolation levels in each flavour."""
    strategies = chance.sample(STRATEGIES, 4)
    commits = chance.sample((AUTO, MANUAL, "", ""), 4)
    levels = chance.sample(LEVELS, 2)
    ways = [chance.choice((POLL, BATCHES, STREAMS, RECORDS if number % 2 else ARROW)) for number in range(4)]
    return tuple(
        Reading(
            f"{name}-reader-{number}",
            FLAVOURS[number % 2],
            ways[number],
            strategies[number],
            levels[number // 2],
            commits[number],
            chance.choice((4.0, 10.0, 30.0)),
            topics,
            {
                "client_id": f"{name}-reader-{number}",
                "request_timeout_ms": chance.choice((2_000, 4_000, 8_000)),
                "fetch_max_bytes": chance.choice((1 << 16, 1 << 20, 8 << 20)),
                "chunk_bytes": chance.choice((1, 1 << 16, 4 << 20)),
                # More than a stream's turn lasts: it is left while requests for it, or for others, are parked.
                "fetch_max_wait_ms": 500,
                **(
                    {"single_socket": True}
                    if strategies[number] == "single socket"
                    else {"fetch_strategy": strategies[number]}
                ),
            },
        )
        for number in range(4)
    )
