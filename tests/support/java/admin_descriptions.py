"""Lists and descriptions of topics, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from typing import Any

from kafwire.admin import TopicDescription, TopicListing
from tests.support.java.admin_comparison import Comparison, Scene


def text_of(topic_id: uuid.UUID | None) -> str | None:
    """A topic id as Kafka writes it."""
    return None if topic_id is None else urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def listing(topic: TopicListing) -> dict[str, Any]:
    return {"name": topic.name, "topicId": text_of(topic.topic_id), "isInternal": topic.is_internal}


def listings(found: dict[str, TopicListing]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, listing(found[name])) for name in sorted(found)]


def listings_of_java(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, {key: found[name][key] for key in ("name", "topicId", "isInternal")}) for name in sorted(found)]


def name_in_tests(topic: tuple[str, dict[str, Any]]) -> str | None:
    """The name of a topic that a test creates; None of an internal one."""
    name, listed = topic
    return None if listed["isInternal"] else name


def description(topic: TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": text_of(topic.topic_id),
        "internal": topic.is_internal,
        "operations": topic.authorized_operations,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "elr": [*(each.eligible_leaders or ())],
                "lastKnownElr": [*(each.last_known_eligible or ())],
            }
            for each in topic.partitions
        ],
    }


def description_of_java(topic: dict[str, Any]) -> dict[str, Any]:
    def ids(nodes: list[dict[str, Any]] | None) -> list[int]:
        return [node["id"] for node in nodes or ()]

    return {
        "name": topic["name"],
        "id": topic["topicId"],
        "internal": topic["isInternal"],
        "operations": topic["authorizedOperations"],
        "partitions": [
            {
                "partition": each["partition"],
                "leader": each["leader"]["id"],
                **{name: ids(each[name]) for name in ("replicas", "isr", "elr", "lastKnownElr")},
            }
            for each in topic["partitions"]
        ],
    }


def topics(scene: Scene) -> list[str]:
    return [scene.existing, f"{scene.name}-none"]


def lists_of_topics(*, internal: bool) -> Comparison:
    return Comparison(
        "listTopics",
        lambda _: {"internal": internal},
        lambda admin, _, __: {"all": admin.list_topics(internal=internal)},
        ours=listings,
        theirs=listings_of_java,
        own_by=name_in_tests,
        aspect="internal" if internal else "",
        prepare=Scene.topic,
    )


COMPARISONS = [
    lists_of_topics(internal=False),
    lists_of_topics(internal=True),
    Comparison(
        "describeTopics",
        lambda scene: {"topics": topics(scene)},
        lambda admin, scene, on_error: admin.describe_topics(topics(scene), on_error=on_error),
        ours=description,
        theirs=description_of_java,
        prepare=lambda scene: scene.topic(partitions=3),
    ),
]
