"""Calls about producers and transactions, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

from typing import Any

import kafwire
from kafwire.admin import ProducerState, TransactionDescription
from kafwire.types import TopicPartition
from tests.support.deadlines import until
from tests.support.java.admin_comparison import Comparison, OnError, Scene, only


def open_transaction(scene: Scene) -> None:
    """A transaction "open" in partition 1 of 2; a transactional id "idle" without one."""
    topic = scene.topic(partitions=2)
    scene.producer(f"{scene.name}-idle")
    producer = scene.producer(f"{scene.name}-open", transaction_timeout_ms=50_000)
    producer.begin_transaction()
    producer.send(topic, b"v", partition=1).result(30)
    with kafwire.Admin(scene.bootstrap) as admin:
        where = TopicPartition(topic, 1)
        (scene.facts["state"],) = admin.describe_producers([where])[where]
    scene.facts["where"] = where


def partitions(scene: Scene) -> list[TopicPartition]:
    return [TopicPartition(scene.existing, number) for number in (0, 1)]


def producers(states: list[ProducerState]) -> dict[str, Any]:
    return {
        "activeProducers": [
            {
                "producerId": state.producer_id,
                "producerEpoch": state.producer_epoch,
                "lastSequence": state.last_sequence,
                "lastTimestamp": state.last_timestamp_ms,
                "coordinatorEpoch": state.coordinator_epoch,
                "currentTransactionStartOffset": state.start_offset,
            }
            for state in states
        ]
    }


def ids(scene: Scene) -> list[str]:
    return [f"{scene.name}-{name}" for name in ("open", "idle", "none")]


def description(found: TransactionDescription) -> dict[str, Any]:
    return {
        "coordinatorId": found.coordinator,
        "state": found.state,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "transactionTimeoutMs": found.timeout_ms,
        "transactionStartTimeMs": found.started_ms,
        "topicPartitions": [{"topic": topic, "partition": number} for topic, number in found.partitions],
    }


def listed(admin: kafwire.Admin, _: Scene, on_error: OnError, **filters: Any) -> dict[str, list[dict[str, Any]]]:
    found = admin.list_transactions(on_error=on_error, **filters)
    return {
        "all": [
            {"transactionalId": each.transactional_id, "producerId": each.producer_id, "state": each.state}
            for each in found
        ]
    }


def sorted_ids(listings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(listings, key=lambda each: str(each["transactionalId"]))


def producer_ids(scene: Scene) -> list[int]:
    return [scene.facts["state"].producer_id]


def marker(scene: Scene, coordinator_epoch: int) -> dict[str, int]:
    state = scene.facts["state"]
    return {
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "coordinator_epoch": coordinator_epoch,
    }


def marker_of_java(scene: Scene, coordinator_epoch: int) -> dict[str, Any]:
    ours = marker(scene, coordinator_epoch)
    return {
        "partition": list(scene.facts["where"]),
        "producerId": ours["producer_id"],
        "producerEpoch": ours["producer_epoch"],
        "coordinatorEpoch": ours["coordinator_epoch"],
    }


def marked(admin: kafwire.Admin, scene: Scene) -> list[tuple[int | None, int | None]]:
    """The coordinator epoch and the open transaction of each producer."""
    where = scene.facts["where"]
    return [(state.coordinator_epoch, state.start_offset) for state in admin.describe_producers([where])[where]]


def marked_before(scene: Scene) -> None:
    """A transaction that a marker of coordinator epoch 7 ended."""
    open_transaction(scene)
    with kafwire.Admin(scene.bootstrap) as admin:
        admin.abort_transaction(scene.facts["where"], **marker(scene, 7))


def settled(admin: kafwire.Admin, scene: Scene) -> Any:
    """The states of the ids, when no transaction ends."""
    names = [f"{scene.name}-open", f"{scene.name}-idle"]

    def states() -> list[str]:
        return [found.state for found in admin.describe_transactions(names).values()]

    until(lambda: not any(state.startswith("Prepare") for state in states()), "the transactions ended")
    return states(), marked(admin, scene)


def raised(_: object, error: Exception) -> None:
    raise error


COMPARISONS = [
    Comparison(
        "describeProducers",
        lambda scene: {"partitions": [list(where) for where in partitions(scene)]},
        lambda admin, scene, on_error: admin.describe_producers(partitions(scene), on_error=on_error),
        ours=producers,
        prepare=open_transaction,
    ),
    Comparison(
        "describeProducers",
        lambda scene: {"partitions": [list(where) for where in partitions(scene)], "broker": 1},
        lambda admin, scene, on_error: admin.describe_producers(partitions(scene), broker=1, on_error=on_error),
        ours=producers,
        aspect="broker",
        prepare=open_transaction,
    ),
    Comparison(
        "describeTransactions",
        lambda scene: {"ids": ids(scene)},
        lambda admin, scene, on_error: admin.describe_transactions(ids(scene), on_error=on_error),
        ours=description,
        prepare=open_transaction,
    ),
    Comparison(
        "listTransactions",
        lambda _: {},
        listed,
        theirs=sorted_ids,
        prepare=open_transaction,
        own_by="transactionalId",
    ),
    Comparison(
        "listTransactions",
        lambda scene: {"pattern": f"{scene.name}.*"},
        lambda admin, scene, on_error: listed(admin, scene, on_error, pattern=f"{scene.name}.*"),
        theirs=sorted_ids,
        aspect="pattern",
        prepare=open_transaction,
    ),
    Comparison(
        "listTransactions",
        lambda _: {"states": ["Ongoing"]},
        lambda admin, scene, on_error: listed(admin, scene, on_error, prefix=scene.name, states=["Ongoing"]),
        theirs=sorted_ids,
        aspect="states",
        prepare=open_transaction,
        own_by="transactionalId",
    ),
    Comparison(
        "listTransactions",
        lambda scene: {"producerIds": producer_ids(scene), "duration": 0},
        lambda admin, scene, on_error: listed(
            admin, scene, on_error, producer_ids=producer_ids(scene), longer_than_ms=0
        ),
        aspect="producers",
        prepare=open_transaction,
    ),
    Comparison(
        "listTransactions",
        lambda _: {"pattern": "("},
        lambda admin, scene, on_error: only("all", lambda: listed(admin, scene, raised, pattern="("), on_error),
        aspect="wrong",
    ),
    Comparison(
        "abortTransaction",
        lambda scene: marker_of_java(scene, 3),
        lambda admin, scene, on_error: only(
            scene.facts["where"],
            lambda: admin.abort_transaction(scene.facts["where"], **marker(scene, 3)),
            on_error,
        ),
        prepare=open_transaction,
        twins=True,
        after=marked,
    ),
    Comparison(
        "abortTransaction",
        lambda scene: marker_of_java(scene, 3),
        lambda admin, scene, on_error: only(
            scene.facts["where"],
            lambda: admin.abort_transaction(scene.facts["where"], **marker(scene, 3)),
            on_error,
        ),
        aspect="fenced",
        prepare=marked_before,
        after=marked,
    ),
    Comparison(
        "fenceProducers",
        lambda scene: {"ids": ids(scene)},
        lambda admin, scene, on_error: admin.fence_producers(ids(scene), on_error=on_error),
        ours=lambda found: found.producer_epoch,
        theirs=lambda found: found["epochId"],
        prepare=open_transaction,
        twins=True,
        after=settled,
    ),
    Comparison(
        "forceTerminateTransaction",
        lambda scene: {"id": f"{scene.name}-open"},
        lambda admin, scene, on_error: only(
            f"{scene.name}-open", lambda: admin.force_terminate_transaction(f"{scene.name}-open"), on_error
        ),
        prepare=open_transaction,
        twins=True,
        after=settled,
    ),
]
