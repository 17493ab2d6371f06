"""One unit of fuzzing: a few requests, their delivery on the wire, and the damage to their bytes.

A case is data. It is written to JSON and read back, so that a replay can send it again to any server.
"""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kafwire.protocol.kafka_json import camel_case, from_json, snake_case, to_json
from kafwire.protocol.spec import Request
from kafwire.testing.fuzzer import paths
from kafwire.testing.fuzzer.damage import Damage
from kafwire.testing.fuzzer.safety import request_class

VALID, ODD, DAMAGED, CONNECTION = "valid", "odd", "damaged", "connection"

# turns: each request waits for the response before. The others send all requests at once, and differ in the writes.
TURNS, PIPELINED, JOINED, BYTEWISE, SPLIT, HALF_CLOSED = (
    "turns",
    "pipelined",
    "joined",
    "bytewise",
    "split",
    "half-closed",
)


@dataclass(frozen=True)
class Bind:
    """Before a step is sent, `target` in its message takes the value at `source` of the response to an earlier `step`.

    A target ending in "@producer" is the producer id and epoch inside a record batch; its source is a response that has
    both.
    """

    target: str
    step: int
    source: str


@dataclass(frozen=True)
class Step:
    """One request. `damage` is applied to its encoded bytes, in order."""

    api: str
    version: int
    message: Request[Any]
    binds: tuple[Bind, ...] = ()
    damage: tuple[Damage, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON, the message with Kafka's names."""
        found: dict[str, Any] = {
            "api": self.api,
            "version": self.version,
            "request": to_json(self.message, self.version),
        }
        if self.binds:
            found["binds"] = [
                {"target": _camel(bind.target), "step": bind.step, "source": _camel(bind.source)} for bind in self.binds
            ]
        if self.damage:
            found["damage"] = [each.to_json() for each in self.damage]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Step":
        """Return the step that `to_json` wrote."""
        version = found["version"]
        return cls(
            found["api"],
            version,
            from_json(request_class(found["api"]), found["request"], version),
            tuple(
                Bind(_snake(bind["target"]), bind["step"], _snake(bind["source"])) for bind in found.get("binds", ())
            ),
            tuple(Damage.from_json(each) for each in found.get("damage", ())),
        )


def _camel(path: str) -> str:
    return paths.text(tuple(camel_case(step) if isinstance(step, str) else step for step in paths.parse(path)))


def _snake(path: str) -> str:
    return paths.text(tuple(snake_case(step) if isinstance(step, str) else step for step in paths.parse(path)))


@dataclass(frozen=True)
class Case:
    """Requests in order. The judge checks every response; `kind` and `delivery` decide what it may expect."""

    seed: int
    number: int
    kind: str
    steps: tuple[Step, ...]
    delivery: str = TURNS
    pieces: tuple[int, ...] = ()
    topics: dict[str, UUID] = field(default_factory=dict, compare=False)

    @property
    def target(self) -> Step:
        """The step under test: the last."""
        return self.steps[-1]

    @property
    def damaged(self) -> bool:
        """True if the bytes of a step are no longer those of a valid request."""
        return any(step.damage for step in self.steps)

    def with_steps(self, steps: tuple[Step, ...]) -> "Case":
        """Return the same case with other steps."""
        return replace(self, steps=steps)

    def to_json(self) -> dict[str, Any]:
        """Return the case as JSON. `topics` are the server's ids of its topics; a replay replaces them."""
        used = repr([step.message.to_dict() for step in self.steps])
        return {
            "seed": self.seed,
            "case": self.number,
            "kind": self.kind,
            "delivery": self.delivery,
            **({"pieces": list(self.pieces)} if self.pieces else {}),
            "topics": {name: str(topic_id) for name, topic_id in self.topics.items() if str(topic_id) in used},
            "steps": [step.to_json() for step in self.steps],
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Case":
        """Return the case that `to_json` wrote."""
        return cls(
            seed=found["seed"],
            number=found["case"],
            kind=found["kind"],
            delivery=found["delivery"],
            pieces=tuple(found.get("pieces", ())),
            topics={name: UUID(topic_id) for name, topic_id in found.get("topics", {}).items()},
            steps=tuple(Step.from_json(step) for step in found["steps"]),
        )
