"""`admin.topics`: create and delete topics, add partitions, in both faces."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.admin import NewPartitions, NewTopic
from kafwire.errors import AdminError, BrokerError, ConfigError, ErrorCode, KafkaError, KafkaTimeoutError
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.flavours import Flavour


def test_topics_are_created(flavour: Flavour) -> None:
    admin = flavour.admin()
    topics = [NewTopic("t", partitions=3, config={"retention.ms": "5000"}), "u"]
    created = flavour.get(admin.create_topics(topics))
    assert list(created) == ["t", "u"]
    assert (created["t"].partitions, created["t"].topic_id) == (3, flavour.world.topics["t"].topic_id)
    assert created["t"].config is not None
    assert created["t"].config["retention.ms"] == "5000"


def test_a_topic_that_is_named_twice_is_created_once(flavour: Flavour) -> None:
    topics = [NewTopic("t", config={"preallocate": True}), NewTopic("t", config={"preallocate": True})]  # type: ignore[dict-item]
    flavour.get(flavour.admin().create_topics(topics))
    (call,) = flavour.world.made("CreateTopics")
    ((option,),) = [topic.configs for topic in call.message.topics]
    assert (option.name, option.value) == ("preallocate", "true"), "as alter_configs writes it"


def test_only_a_validation_creates_no_topic(flavour: Flavour) -> None:
    created = flavour.get(flavour.admin().create_topics(["t"], validate_only=True))
    assert list(created) == ["t"]
    assert "t" not in flavour.world.topics


def test_one_failure_does_not_hide_the_results_of_others(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    with pytest.raises(AdminError, match=r"1 of 2 failed: t: TOPIC_ALREADY_EXISTS") as caught:
        flavour.get(admin.create_topics(["t", "u"]))
    assert list(caught.value.results) == ["u"]
    assert list(caught.value.errors) == ["t"]
    assert "u" in flavour.world.topics


def test_the_error_of_the_only_key_is_raised_itself(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    with pytest.raises(BrokerError, match="creating topic 't'") as caught:
        flavour.get(flavour.admin().create_topics(["t"]))
    assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_errors_may_be_asked_for(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    errors: dict[str, KafkaError] = {}
    created = flavour.get(flavour.admin().create_topics(["t", "u"], on_error=errors.__setitem__))
    assert (list(created), list(errors)) == (["u"], ["t"])


def test_topics_are_deleted(flavour: Flavour) -> None:
    for name in ("t", "u"):
        flavour.world.create_topic(name)
    admin = flavour.admin()
    with pytest.raises(AdminError, match="x: UNKNOWN_TOPIC_OR_PARTITION"):
        flavour.get(admin.delete_topics(["t", "x"]))
    assert list(flavour.world.topics) == ["u"]
    assert len(flavour.world.made("DeleteTopics")) == 1, "an unknown topic is final"


def test_partitions_are_added(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    flavour.get(admin.create_partitions({"t": 3}, validate_only=True))
    assert len(flavour.world.topics["t"].partitions) == 1
    flavour.get(admin.create_partitions({"t": 3}))
    assert len(flavour.world.topics["t"].partitions) == 3
    with pytest.raises(BrokerError, match="INVALID_PARTITIONS"):
        flavour.get(admin.create_partitions({"t": 3}))


def test_a_lost_connection_is_retried(flavour: Flavour) -> None:
    lost = [True, True]

    def respond(_: Call) -> Any:
        return lost.pop() and HANGUP if lost else None

    flavour.world.on("CreateTopics", respond)
    assert list(flavour.get(flavour.admin().create_topics(["t"]))) == ["t"]
    assert len(flavour.world.made("CreateTopics")) == 3


def test_the_time_limit_names_the_last_error(flavour: Flavour) -> None:
    flavour.world.on("DeleteTopics", lambda _: HANGUP)
    started = flavour.engine.now_ms()
    with pytest.raises(KafkaError, match=r"deleting topics did not succeed within 2 s"):
        flavour.get(flavour.admin().delete_topics(["t"], timeout=2))
    assert flavour.engine.now_ms() - started <= 2100


def test_silence_ends_at_the_time_limit(flavour: Flavour) -> None:
    flavour.world.nodes[1].receive = lambda *_: None  # type: ignore[method-assign]
    flavour.world.nodes[2].receive = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(KafkaTimeoutError, match="within 1 s"):
        flavour.get(flavour.admin().create_topics(["t"], timeout=1))


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("create_topics", ("t",), "write a list"),
    ("create_topics", (None,), "write a list"),
    ("create_topics", ([3],), "is not a topic"),
    ("create_topics", ([NewTopic("t", partitions=1 << 31)],), "partitions=2147483648"),
    ("create_topics", ([NewTopic("t", replication_factor=1 << 15)],), "replication_factor=32768"),
    ("create_topics", ([NewTopic("t", partitions=-2)],), "partitions=-2"),
    ("create_topics", ([NewTopic("t", partitions="3")],), "must be a whole number"),  # type: ignore[arg-type]
    ("create_topics", ([NewTopic("t", partitions=3, assignment=[[1]])],), "leave it out"),
    ("create_topics", ([""],), "at least one character"),
    ("create_topics", ([NewTopic("t"), NewTopic("t", partitions=3)],), "'t' is named twice"),
    ("create_topics", (["t\ud800"],), "lone surrogate"),
    ("create_topics", ([NewTopic("t", config=["a"])],), "write a dict"),  # type: ignore[arg-type]
    ("create_topics", ([NewTopic("t", config={"retention.ms": None})],), "a NoneType is not"),  # type: ignore[dict-item]
    ("create_topics", ([NewTopic("t", config={1: "x"})],), "at least one character"),  # type: ignore[dict-item]
    ("create_topics", ([NewTopic("t", assignment=[1, 2])],), "write a list of node ids"),  # type: ignore[list-item]
    ("create_topics", ([NewTopic("t", assignment=[["a"]])],), "it must be a node's id"),  # type: ignore[list-item]
    ("create_topics", ([NewTopic("t", assignment="12")],), "the brokers of each partition"),  # type: ignore[arg-type]
    ("delete_topics", ("t",), "write a list of names"),
    ("create_partitions", (["t"],), "write a dict"),
    ("create_partitions", ({"t": 0},), "from 1"),
    ("create_partitions", ({"t": 1 << 31},), "total=2147483648: it must be"),
    ("create_partitions", ({"t": NewPartitions(3, [1])},), "write a list of node ids"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls
