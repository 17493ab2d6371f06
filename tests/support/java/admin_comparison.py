"""A call of Java's `Admin` beside the same call of kafwire's, and their outcomes in one form.

A family of calls has a module `admin_<family>` beside this one, with a list `COMPARISONS` that
tests/conformance/test_java_admin.py runs. Each needs a case in tests/java/JavaAdmin.java.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import kafwire
from kafwire.admin.group_types import CLASSIC, CONSUMER, GROUP_TYPES
from kafwire.errors import BrokerError, KafkaError
from tests.support.java.admin import JavaAdmin, JavaOutcome

_OF_GROUPS = [("describe", "s"), ("delete", "s"), *((verb, "Offsets") for verb in ("list", "alter", "delete"))]
OnError = Callable[[Any, KafkaError], object]

# Methods, and options of methods, that Java's Admin of the oldest Kafka lacks, and the proposal that added each.
NOT_IN_OLDEST = {
    "listGroups": "KIP-1043",
    "describeClassicGroups": "KIP-1043",
    **dict.fromkeys((f"{verb}ShareGroup{of}" for verb, of in _OF_GROUPS), "KIP-932, share groups"),
    **dict.fromkeys((f"{verb}StreamsGroup{of}" for verb, of in _OF_GROUPS), "KIP-1071, streams groups"),
    "listConfigResources": "KIP-1142",
    "forceTerminateTransaction": "KIP-939",
    "unregisterController": "an API of Kafka 4.4",
    "describeCluster-everything": "KIP-1073, fenced brokers",
    "alterPartitionReassignments-same": "KIP-860, replication factors",
    "alterPartitionReassignments-factor": "KIP-860, replication factors",
    "listOffsets-pending": "KIP-1023",
    "listTransactions-pattern": "KIP-1152, patterns",
    "listTransactions-wrong": "KIP-1152, patterns",
}
# Comparisons whose outcomes differ on the oldest Kafka, because its Java does less.
DIFFERENT_IN_OLDEST = {
    "describeConsumerGroups": "no epochs and targets of members; a group that does not exist is Dead",
}


@dataclass
class Scene:
    """The place of a call: topics, groups and ids of a scene begin with its name.

    `is_oldest` of the oldest Kafka; `facts` are those that a call of its preparation leaves; `stack` closes clients at
    the end.
    """

    name: str
    bootstrap: str
    stack: ExitStack
    is_oldest: bool = False
    facts: dict[str, Any] = field(default_factory=dict)

    def producer(self, transactional_id: str, **options: Any) -> kafwire.Producer:
        """A transactional producer, open until the end of the test."""
        made = kafwire.Producer(self.bootstrap, transactional_id=transactional_id, linger_ms=0, **options)
        self.stack.callback(made.close, 0)
        made.init_transactions()
        return made

    @property
    def group_types(self) -> tuple[str, ...]:
        """The types of groups that the cluster has."""
        return (CLASSIC, CONSUMER) if self.is_oldest else GROUP_TYPES

    @property
    def existing(self) -> str:
        """The name of the topic that `topic` creates."""
        return f"{self.name}-topic"

    def topic(self, *, partitions: int = 1) -> str:
        """Create the topic, and wait until it is ready."""
        with kafwire.Client(self.bootstrap) as client:
            client.create_topic(self.existing, partitions=partitions)
        return self.existing


def nothing(_: Scene) -> None:
    """Prepare nothing."""


def as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Comparison:
    """A call of both.

    Args:
        method: the method of Java's `Admin`.
        arguments: the arguments of its case in JavaAdmin.java.
        call: the same call of kafwire: it returns the results by key, and passes the errors on.
        ours: changes a result of kafwire into the form to compare: by default it is left as it is.
        theirs: changes a result of Java into that form.
        aspect: tells comparisons of one method apart.
        prepare: makes the topics and ids that the call needs.
        twins: each side has a scene of its own, for calls that change something; without it, they have the same one.
        after: reads, by kafwire, the effect of the call in a scene: of twins, both have the same.
        on: the cluster: "plain", or "authorized" with ACLs, where ANONYMOUS is a super user.
        own_by: the name of an entry of a list, by a field or a function: other tests own those whose name does not
            begin with the scene's; an entry without a name (None) belongs to the cluster.
    """

    method: str
    arguments: Callable[[Scene], Mapping[str, Any]]
    call: Callable[[kafwire.Admin, Scene, OnError], Mapping[Any, Any]]
    ours: Callable[[Any], Any] = as_it_is
    theirs: Callable[[Any], Any] = as_it_is
    aspect: str = ""
    prepare: Callable[[Scene], object] = nothing
    twins: bool = False
    after: Callable[[kafwire.Admin, Scene], Any] | None = None
    on: str = "plain"
    own_by: str | Callable[[Any], str | None] | None = None

    def __str__(self) -> str:
        return f"{self.method}-{self.aspect}" if self.aspect else self.method

    @property
    def is_in_oldest(self) -> bool:
        """Whether Java's Admin of the oldest Kafka can make the call."""
        return NOT_IN_OLDEST.keys().isdisjoint((self.method, str(self)))

    def by_java(self, java: JavaAdmin, scene: Scene) -> JavaOutcome:
        """The outcome of Java's call."""
        found = java.call(scene.bootstrap, self.method, self.arguments(scene))
        results = {key: self._own(self.theirs(value), scene) for key, value in found.results.items()}
        return _unnamed(JavaOutcome(results, found.errors), scene)

    def by_kafwire(self, admin: kafwire.Admin, scene: Scene) -> JavaOutcome:
        """The outcome of kafwire's call."""
        errors: dict[str, str] = {}

        def on_error(key: Any, error: KafkaError) -> None:
            errors[shown(key)] = error.name if isinstance(error, BrokerError) else type(error).__name__

        found = self.call(admin, scene, on_error)
        results = {shown(key): self._own(self.ours(value), scene) for key, value in found.items()}
        return _unnamed(JavaOutcome(results, errors), scene)

    def _own(self, listed: Any, scene: Scene) -> Any:
        """The part of a list that belongs to the scene: other tests share the cluster."""
        if self.own_by is None:
            return listed
        by = self.own_by if callable(self.own_by) else itemgetter(self.own_by)
        return [each for each in listed if (name := by(each)) is None or name.startswith(scene.name)]


def shown(key: Any) -> str:
    """A key as Java shows it."""
    return "-".join(map(str, key)) if isinstance(key, tuple) else str(key)


def only(key: Any, call: Callable[[], Any], on_error: OnError) -> dict[Any, Any]:
    """The outcome of a call about one key, which raises its error."""
    try:
        return {key: call()}
    except KafkaError as error:
        on_error(key, error)
        return {}


def all_but(keys: Iterable[Any], call: Callable[[OnError], object], on_error: OnError) -> dict[Any, None]:
    """The outcome of a call that returns no results."""
    failed: dict[Any, KafkaError] = {}
    call(failed.__setitem__)
    for key, error in failed.items():
        on_error(key, error)
    return {key: None for key in keys if key not in failed}


def all_comparisons() -> list[Comparison]:
    """The comparisons of all families."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("admin_*.py"))
    families = [import_module(f"{__package__}.{name}") for name in names if f"{__package__}.{name}" != __name__]
    return [each for family in families for each in family.COMPARISONS]


def _unnamed(outcome: JavaOutcome, scene: Scene) -> JavaOutcome:
    """An outcome without the scene's name, as twins have different ones."""
    text = json.dumps(outcome._asdict(), sort_keys=True).replace(scene.name, "*")
    return JavaOutcome(**json.loads(text))
