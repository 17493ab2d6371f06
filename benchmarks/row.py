"""A row of the benchmark: its topic, its contenders, and the goals that the figures are held against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal[
    "consume",
    "tls",
    "produce",
    "beside",
    "cpu",
    "memory",
    "pressure",
    "wait",
    "latency",
    "trickle",
    "decode",
    "encode",
    "message",
    "values",
    "import",
    "start",
    "group",
    "rebalance",
    "commit",
    "stream",
    "share",
]

LARGE_BATCH = 1_000_000  # with its header just under the broker's default limit of 1,048,588
SMALL_BATCH = 16_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to read: filled by the floor with batches of `batch_bytes` before compression.

    Its records are shared out evenly among `partitions`; `key_bytes` 0 is no keys.
    """

    value_bytes: int
    codec: str
    batch_bytes: int
    partitions: int = 1
    key_bytes: int = 0

    @property
    def name(self) -> str:
        """The form in the names of rows: 100-lz4-1m, 100-lz4-16k-x8 with 8 partitions."""
        size = "1m" if self.batch_bytes == LARGE_BATCH else "16k"
        partitions = f"-x{self.partitions}" if self.partitions > 1 else ""
        return f"{self.value_bytes}-{self.codec}-{size}{partitions}{'-keys' if self.key_bytes else ''}"


@dataclass(frozen=True, slots=True)
class Contender:
    """One competitor of a row.

    `program` is a worker module of `benchmarks.workers`, or "floor" or "rdkafka" for a C program; `task` its first
    argument; `options` further arguments. With `tls` it speaks TLS. `variants` are configurations by name: each is
    tried once, the fastest runs the rounds. A `context` contender takes part only when asked for (`--all`). `folder` is
    where its process starts and finds the library; None: this tree.
    """

    name: str
    program: str
    task: str
    options: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"default": {}})
    context: bool = False
    tls: bool = False
    folder: Path | None = None

    @property
    def is_kafwire(self) -> bool:
        """True if it measures this project's library, and no peer."""
        return self.program.startswith("kafwire") or (
            self.program in {"import", "start"} and self.task.startswith("kafwire")
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """`of` is at least `least` or at most `most` times `over`; without `over`, of the row's unit."""

    of: str
    over: str = ""
    least: float = 0.0
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. `topic` is the topic that is read, or the shape of the records that are written.

    `figure` names one of several figures that a round comes to; rows that differ in nothing else share their rounds.
    A `replayed` row is served from memory, by a server in C and not by Kafka.
    """

    name: str
    kind: Kind
    unit: str
    topic: Topic
    contenders: Sequence[Contender]
    goals: Sequence[Goal] = ()
    short: bool = False
    figure: str = ""
    replayed: bool = False
