"""`kafwire.Admin` and Java's `Admin` have the same outcomes on one cluster: a real Kafka, and an embedded broker.

Kafka 3.9.1 is compared with its own Java classes, in all that these have: `NOT_IN_OLDEST` and `DIFFERENT_IN_OLDEST`
name the rest.

To compare another call, add a case to tests/java/JavaAdmin.java if there is none, and a `Comparison` to the list of its
family, which is a module `admin_<family>` of tests/support/java. `python -m scripts.admin_table` names it in
docs/reference/admin.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import kafwire
from kafwire.admin import NewTopic
from kafwire.testing import EmbeddedKafka, KafkaCluster
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION
from scripts.admin_table import PAGE, with_compared
from tests.support.broker.either_kafka import CONFIGS
from tests.support.deadlines import until
from tests.support.doc_names import rows
from tests.support.java.admin import JavaAdmin
from tests.support.java.admin_comparison import DIFFERENT_IN_OLDEST, NOT_IN_OLDEST, Comparison, Scene, all_comparisons

AUTHORIZED: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


# The oldest Kafka does not have the new groups of consumers unless it is asked to.
PROPERTIES: dict[str, dict[str, object]] = {
    "plain": {"group.coordinator.rebalance.protocols": "classic,consumer"},
    "authorized": AUTHORIZED,
}
VERSIONS = {"real": DEFAULT_VERSION, "embedded": DEFAULT_VERSION, "oldest": OLDEST_VERSION}
COMPARISONS = all_comparisons()
CALLS = [(kind, each) for each in COMPARISONS for kind in VERSIONS if kind != "oldest" or each.is_in_oldest]


@pytest.fixture(scope="module")
def javas() -> Iterator[dict[str, JavaAdmin]]:
    """Java's Admin of each release."""
    with JavaAdmin() as newest, JavaAdmin(OLDEST_VERSION) as oldest:
        yield {DEFAULT_VERSION: newest, OLDEST_VERSION: oldest}


@pytest.fixture(scope="module")
def kafkas(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The address of a cluster, real or embedded, by its kind; each starts when it is first needed."""
    with ExitStack() as stack:
        found: dict[tuple[str, str], Any] = {}

        def of(kind: str, on: str) -> str:
            if (kind, on) not in found:
                if kind == "embedded":
                    found[kind, on] = stack.enter_context(EmbeddedKafka(configs=CONFIGS | PROPERTIES[on]))
                elif (kind, on) == ("real", "plain"):
                    found[kind, on] = request.getfixturevalue("cluster")
                else:
                    found[kind, on] = stack.enter_context(KafkaCluster(1, VERSIONS[kind], PROPERTIES[on]))
            return str(found[kind, on].bootstrap)

        yield of


@pytest.mark.parametrize(("kind", "comparison"), CALLS, ids=str)
def test_both_have_the_same_outcome(
    javas: dict[str, JavaAdmin], kafkas: Any, topic_name: str, kind: str, comparison: Comparison
) -> None:
    bootstrap = kafkas(kind, comparison.on)
    sides = [f"{topic_name}.j", f"{topic_name}.k"] if comparison.twins else [topic_name]
    with ExitStack() as stack, kafwire.Admin(bootstrap) as admin:
        scenes = [Scene(side, bootstrap, stack, kind == "oldest") for side in sides]
        for scene in scenes:
            comparison.prepare(scene)
        theirs = comparison.by_java(javas[VERSIONS[kind]], scenes[0])
        ours = comparison.by_kafwire(admin, scenes[-1])
        if kind == "oldest" and str(comparison) in DIFFERENT_IN_OLDEST:
            assert ours != theirs
            return
        assert ours == theirs
        assert theirs.results or theirs.errors
        if comparison.after is not None and comparison.twins:
            catch_up(admin, f"{topic_name}.later")
            assert comparison.after(admin, scenes[1]) == comparison.after(admin, scenes[0])


def catch_up(admin: kafwire.Admin, topic: str) -> None:
    """Wait until the broker shows the changes of its controller: it applies them in order, a new topic last."""
    admin.create_topics([NewTopic(topic)])
    until(lambda: topic in admin.list_topics(), "the broker shows the topic")
    admin.delete_topics([topic])


# Methods of a Java object, not of a cluster.
NOT_OF_A_CLUSTER = {
    *("clientInstanceId", "close", "metrics"),
    *("registerMetricForSubscription", "unregisterMetricFromSubscription"),
}


def test_the_table_has_all_methods_of_java(javas: dict[str, JavaAdmin]) -> None:
    named = {row[0].strip("`") for row in rows(PAGE.read_text()) if row[0].startswith("`")}
    assert named == set(javas[DEFAULT_VERSION].methods()) - NOT_OF_A_CLUSTER


def test_the_oldest_java_lacks_only_the_named(javas: dict[str, JavaAdmin], kafkas: Any) -> None:
    newest, oldest = (set(java.methods()) - NOT_OF_A_CLUSTER for java in javas.values())
    assert {name for name in NOT_IN_OLDEST if "-" not in name} == newest - oldest
    options = {str(each): each for each in COMPARISONS if str(each) in NOT_IN_OLDEST and each.method in oldest}
    assert options.keys() == {name for name in NOT_IN_OLDEST if "-" in name}
    bootstrap = kafkas("oldest", "plain")
    for each in options.values():
        with ExitStack() as stack, pytest.raises(AssertionError, match="NoSuchMethodError"):
            each.by_java(javas[OLDEST_VERSION], Scene("none", bootstrap, stack))


def test_the_table_names_the_compared_methods() -> None:
    assert PAGE.read_text() == with_compared(PAGE.read_text()), "python -m scripts.admin_table writes it"
