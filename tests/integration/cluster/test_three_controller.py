"""The active controller of three nodes dies while `Admin` changes topics: the cluster has the reported changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import kafwire
from kafwire.admin import ConfigResource, NewTopic
from kafwire.admin.asking import UNCERTAIN
from kafwire.errors import BrokerError, ErrorCode, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import ended, until

ROUNDS = 18  # more than the calls before and during an election need
# A retry finds the change of the lost request: the topic exists, is gone, has its partitions.
MADE_BEFORE = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PARTITIONS}
RETENTION = "retention.ms"
Change = tuple[str, str]  # a method of `Admin`, and the topic


class Changes:
    """Calls one after the other, each about two topics, and the outcome of each topic."""

    def __init__(self, admin: kafwire.Admin, name: str) -> None:
        self._admin = admin
        self._name = name
        self.outcomes: dict[Change, KafkaError | None] = {}
        self.rounds = 0
        self.enough = threading.Event()

    def topics(self, kind: str, number: int) -> list[str]:
        return [f"{self._name}-{kind}-{number}-{letter}" for letter in "ab"]

    def prepare(self) -> None:
        kinds = ("grown", "altered", "deleted")
        self._admin.create_topics([name for kind in kinds for n in range(ROUNDS) for name in self.topics(kind, n)])

    def run(self) -> None:
        for number in range(ROUNDS):
            if self.enough.is_set():
                return
            # Every other call ends before a new controller is elected.
            self._round(number, timeout=30.0 if number % 2 else 0.3)
            self.rounds += 1

    def _round(self, number: int, timeout: float) -> None:
        admin = self._admin
        created = self.topics("created", number)
        new = [NewTopic(name, partitions=2, config={RETENTION: "7000"}) for name in created]
        self._note("create_topics", created, lambda failed: admin.create_topics(new, on_error=failed, timeout=timeout))
        grown = dict.fromkeys(self.topics("grown", number), 2)
        self._note(
            "create_partitions", grown, lambda failed: admin.create_partitions(grown, on_error=failed, timeout=timeout)
        )
        altered = {ConfigResource.topic(name): {RETENTION: "7000"} for name in self.topics("altered", number)}
        self._note(
            "alter_configs", altered, lambda failed: admin.alter_configs(altered, on_error=failed, timeout=timeout)
        )
        deleted = self.topics("deleted", number)
        self._note(
            "delete_topics", deleted, lambda failed: admin.delete_topics(deleted, on_error=failed, timeout=timeout)
        )

    def _note(self, method: str, keys: Iterable[Any], call: Callable[[Any], Any]) -> None:
        errors: dict[Any, KafkaError] = {}
        results = call(errors.__setitem__)
        assert set(keys) >= errors.keys()
        if isinstance(results, dict):
            assert set(keys) == results.keys() | errors.keys()
            assert results.keys().isdisjoint(errors)
        for key in keys:
            self.outcomes[method, key.name if isinstance(key, ConfigResource) else key] = errors.get(key)

    def uncertain(self) -> dict[Change, KafkaError]:
        """The changes that may or may not have been made, by their errors."""

        def is_uncertain(error: KafkaError) -> bool:
            if isinstance(error, BrokerError):
                return error.code == ErrorCode.REQUEST_TIMED_OUT
            return isinstance(error, KafkaTimeoutError | KafkaConnectionError)

        return {change: error for change, error in self.outcomes.items() if error is not None and is_uncertain(error)}

    def contradictions(self) -> list[str]:
        """The topics that differ from the outcomes of their calls."""

        def ignore(*_: object) -> None:
            """A broker that follows the controller's log later than another lacks a topic."""

        there = self._admin.list_topics()
        wanted = [name for method, name in self.outcomes if method != "delete_topics" and name in there]
        partitions = {
            name: len(each.partitions) for name, each in self._admin.describe_topics(wanted, on_error=ignore).items()
        }
        described = self._admin.describe_configs(map(ConfigResource.topic, wanted), on_error=ignore)
        retention = {resource.name: entries[RETENTION].value for resource, entries in described.items()}
        whole = {
            "create_topics": lambda name: (partitions.get(name), retention.get(name)) == (2, "7000"),
            "create_partitions": lambda name: partitions.get(name) == 2,
            "alter_configs": lambda name: retention.get(name) == "7000",
            "delete_topics": lambda name: name not in there,
        }
        uncertain = self.uncertain()
        return [
            f"{method} {name}: {error}"
            for (method, name), error in self.outcomes.items()
            if not whole[method](name)
            and ((method, name) not in uncertain or (method == "create_topics" and name in there))
        ]


def test_what_admin_reports_is_what_the_cluster_has(three: KafkaCluster, topic_name: str) -> None:
    with kafwire.Admin(three.bootstrap, retry_backoff_ms=20, retry_backoff_max_ms=200) as admin:
        changes = Changes(admin, topic_name)
        changes.prepare()
        victim = three.node(admin.describe_metadata_quorum().leader_id)
        thread = threading.Thread(target=changes.run)
        thread.start()
        try:
            until(lambda: changes.rounds >= 4, "calls before the controller dies")  # the next round has short limits
            victim.kill()
            killed_in = changes.rounds
            until(lambda: changes.rounds >= killed_in + 6, "calls after a new controller is elected", 120)
        finally:
            changes.enough.set()
            ended(thread)
        victim.start(wait=False)  # the next test waits for it
        assert admin.describe_metadata_quorum().leader_id
        made, uncertain = changes.outcomes, changes.uncertain()
        assert len(made) == 8 * changes.rounds
        final = {change: error for change, error in made.items() if error is not None and change not in uncertain}
        assert all(isinstance(error, BrokerError) and error.code in MADE_BEFORE for error in final.values()), final
        for error in uncertain.values():
            assert isinstance(error, BrokerError) or UNCERTAIN in str(error), error
        with suppress(AssertionError):
            until(lambda: not changes.contradictions(), "the brokers show the changes of the new controller", 20)
        assert changes.contradictions() == []
        print(f"killed in round {killed_in} of {changes.rounds}: {len(uncertain)} uncertain, {len(final)} found made")
        admin.delete_topics([name for name in admin.list_topics() if name.startswith(topic_name)])
