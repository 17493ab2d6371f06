"""Calls about topics, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

from typing import Any

import kafwire
from kafwire.admin import CreatedTopic, NewTopic
from tests.support.java.admin_comparison import Comparison, OnError, Scene, all_but


def created(topic: CreatedTopic) -> dict[str, Any]:
    config = topic.config or {}
    return {"numPartitions": topic.partitions, "replicationFactor": topic.replication_factor, "config": config}


def created_by_java(topic: dict[str, Any]) -> dict[str, Any]:
    return topic | {"config": {entry["name"]: entry["value"] for entry in topic["config"]["entries"]}}


NEW: list[tuple[str, dict[str, Any]]] = [
    ("new", {"partitions": 3, "config": {"retention.ms": "5000"}}),
    ("odd", {"config": {"no.such": "1"}}),
]


def new_topics(scene: Scene) -> list[dict[str, Any]]:
    made = [{"name": f"{scene.name}-{name}", **arguments} for name, arguments in NEW]
    many = {"name": f"{scene.name}-many", "partitions": 1, "replicas": 9}
    return [*made, many, {"name": scene.existing}, {"name": f"{scene.name} no name"}]


def create(admin: kafwire.Admin, scene: Scene, on_error: OnError, *, validate_only: bool) -> dict[str, CreatedTopic]:
    topics = [
        NewTopic(
            each["name"],
            partitions=each.get("partitions", -1),
            replication_factor=each.get("replicas", -1),
            config=each.get("config"),
        )
        for each in new_topics(scene)
    ]
    return admin.create_topics(topics, validate_only=validate_only, on_error=on_error)


def counts(scene: Scene) -> dict[str, int]:
    return {scene.existing: 3, f"{scene.name}-none": 2}


def deleted(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
    names = [scene.existing, f"{scene.name}-none"]
    return all_but(names, lambda failed: admin.delete_topics(names, on_error=failed), on_error)


def grown(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
    wanted = counts(scene)
    return all_but(wanted, lambda failed: admin.create_partitions(wanted, on_error=failed), on_error)


COMPARISONS = [
    Comparison(
        "createTopics",
        lambda scene: {"topics": new_topics(scene)},
        lambda admin, scene, on_error: create(admin, scene, on_error, validate_only=False),
        ours=created,
        theirs=created_by_java,
        prepare=Scene.topic,
        twins=True,
    ),
    Comparison(
        "createTopics",
        lambda scene: {"topics": new_topics(scene), "validateOnly": True},
        lambda admin, scene, on_error: create(admin, scene, on_error, validate_only=True),
        ours=created,
        theirs=created_by_java,
        aspect="validate_only",
        prepare=Scene.topic,
    ),
    Comparison(
        "deleteTopics",
        lambda scene: {"topics": [scene.existing, f"{scene.name}-none"]},
        deleted,
        prepare=Scene.topic,
        twins=True,
    ),
    Comparison("createPartitions", lambda scene: {"counts": counts(scene)}, grown, prepare=Scene.topic, twins=True),
]
