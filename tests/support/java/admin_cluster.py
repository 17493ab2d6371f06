"""Calls about the cluster and its replicas, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import kafwire
from kafwire.admin import (
    ClusterDescription,
    FeatureDescription,
    FeatureUpdate,
    LogDirDescription,
    MetadataQuorum,
    RaftVoterEndpoint,
    ReplicaLogDirs,
)
from kafwire.types import TopicPartition
from tests.support.java.admin_comparison import Comparison, OnError, Scene, all_but, only, shown
from tests.support.java.admin_descriptions import text_of

DIRECTORY, DIRECTORY_TEXT = uuid.UUID(int=7), "AAAAAAAAAAAAAAAAAAAABw"
NONE = 7  # a partition that the topic lacks


# --- the cluster


def operations(found: Iterable[str] | None) -> list[str] | None:
    return None if found is None else sorted(each.replace("_", "").upper() for each in found)


def described(cluster: ClusterDescription) -> list[Any]:
    brokers = map(attrgetter("node_id", "host", "port", "rack"), cluster.brokers.values())
    return [sorted(brokers), cluster.controller_id, cluster.cluster_id, operations(cluster.authorized_operations)]


def described_by_java(found: dict[str, Any]) -> list[Any]:
    brokers = map(itemgetter("id", "host", "port", "rack"), found["nodes"])
    controller, allowed = found["controller"]["id"], operations(found["authorizedOperations"])
    return [sorted(brokers), controller, found["clusterId"], allowed]


def descriptions(*, everything: bool) -> Comparison:
    return Comparison(
        "describeCluster",
        lambda _: {"fenced": everything, "operations": everything},
        lambda admin, _, __: {"cluster": admin.describe_cluster(fenced=everything, authorized_operations=everything)},
        ours=described,
        theirs=described_by_java,
        aspect="everything" if everything else "",
    )


def ranges(found: Mapping[str, Any], levels: Callable[[Any], Any]) -> list[Any]:
    return sorted((name, levels(each)) for name, each in found.items())


def features(found: FeatureDescription) -> list[Any]:
    """The levels. Of the epoch, which grows with each record of the metadata log, only that there is one."""
    levels = attrgetter("min_version", "max_version")
    return [(found.finalized_epoch or 0) > 0, ranges(found.finalized, levels), ranges(found.supported, levels)]


def features_of_java(found: dict[str, Any]) -> list[Any]:
    finalized = ranges(found["finalizedFeatures"], itemgetter("minVersionLevel", "maxVersionLevel"))
    supported = ranges(found["supportedFeatures"], itemgetter("minVersion", "maxVersion"))
    return [found["finalizedFeaturesEpoch"] > 0, finalized, supported]


def update(aspect: str, feature: str, level: int, kind: str) -> Comparison:
    """A check of an update, which changes nothing."""
    updates = {feature: FeatureUpdate(level, kind)}
    return Comparison(
        "updateFeatures",
        lambda _: {"features": [[feature, level, kind.upper()]], "validateOnly": True},
        lambda admin, _, on_error: only(feature, lambda: admin.update_features(updates, validate_only=True), on_error),
        aspect=aspect,
    )


def quorum(found: MetadataQuorum) -> list[Any]:
    """The quorum without the offsets and times that grow between two calls."""
    voters = [
        (
            *(each.replica_id, text_of(each.directory_id or uuid.UUID(int=0))),
            *(each.last_fetch_ms is None, each.last_caught_up_ms is None),
        )
        for each in found.voters
    ]
    nodes = {str(node): list(map(attrgetter("name", "host", "port"), its)) for node, its in found.nodes.items()}
    return [found.leader_id, found.leader_epoch, voters, len(found.observers), nodes]


def quorum_of_java(found: dict[str, Any]) -> list[Any]:
    voters = [
        (
            *(each["replicaId"], each["replicaDirectoryId"]),
            *(each["lastFetchTimestamp"] is None, each["lastCaughtUpTimestamp"] is None),
        )
        for each in found["voters"]
    ]
    nodes = {
        node: [(each.get("listener") or each["name"], each["host"], each["port"]) for each in its["endpoints"]]
        for node, its in found["nodes"].items()
    }
    return [found["leaderId"], found["leaderEpoch"], voters, len(found["observers"]), nodes]


def member(method: str, key: str, node: int, call: Callable[[kafwire.Admin], object], **arguments: Any) -> Comparison:
    """A call about one node, which the cluster refuses."""
    return Comparison(
        method,
        lambda _: {key: node, **arguments},
        lambda admin, _, on_error: only(node, lambda: call(admin), on_error),
    )


# --- replicas


def with_record(scene: Scene) -> None:
    """Write a record to the topic, and note the directory that has it."""
    with kafwire.Producer(scene.bootstrap) as producer, kafwire.Admin(scene.bootstrap) as admin:
        producer.send(scene.topic(), b"value").result(30)
        (scene.facts["path"],) = admin.describe_log_dirs([1])[1]


def replicas(scene: Scene) -> list[tuple[str, int, int]]:
    """The replica of the topic, and one that does not exist."""
    return [(scene.existing, 0, 1), (scene.existing, NONE, 1)]


def dirs(found: Mapping[str, LogDirDescription]) -> list[Any]:
    """Directories as a list of their replicas; the free bytes of a volume change between two calls."""
    replica = attrgetter("size", "offset_lag", "is_future")
    return sorted(
        (shown(where), path, its.error, its.total_bytes, its.usable_bytes is None, its.is_cordoned, *replica(each))
        for path, its in found.items()
        for where, each in its.replicas.items()
    )


def dirs_of_java(found: dict[str, Any]) -> list[Any]:
    replica = itemgetter("size", "offsetLag", "isFuture")
    return sorted(
        (
            where,
            path,
            its["error"],
            its["totalBytes"],
            its["usableBytes"] is None,
            its.get("isCordoned", False),
            *replica(each),
        )
        for path, its in found.items()
        for where, each in its["replicaInfos"].items()
    )


def replica_dirs(found: ReplicaLogDirs) -> list[Any]:
    return [found.current_dir, found.current_lag, found.future_dir, found.future_lag]


def replica_dirs_of_java(found: dict[str, Any]) -> list[Any]:
    lags = [found[f"get{which}ReplicaOffsetLag"] for which in ("Current", "Future")]
    current, future = (None if lag < 0 else lag for lag in lags)
    return [found["getCurrentReplicaLogDir"], current, found["getFutureReplicaLogDir"], future]


def directory_changes(aspect: str, paths: Callable[[Scene], Sequence[str]]) -> Comparison:
    """Moves of `replicas` to directories."""

    def changes(scene: Scene) -> dict[tuple[str, int, int], str]:
        return dict(zip(replicas(scene), paths(scene), strict=False))

    return Comparison(
        "alterReplicaLogDirs",
        lambda scene: {"replicas": [[*where, path] for where, path in changes(scene).items()]},
        lambda admin, scene, on_error: all_but(
            changes(scene), lambda failed: admin.alter_replica_log_dirs(changes(scene), on_error=failed), on_error
        ),
        aspect=aspect,
        prepare=with_record,
    )


def moves(aspect: str, *wanted: list[int] | None, allows: bool = True) -> Comparison:
    """Reassignments of the topic's partition, and of one that does not exist."""

    def changes(scene: Scene) -> dict[TopicPartition, list[int] | None]:
        places = [TopicPartition(scene.existing, number) for number in (0, NONE)]
        return dict(zip(places, wanted, strict=False))

    return Comparison(
        "alterPartitionReassignments",
        lambda scene: {"moves": [[*where, its] for where, its in changes(scene).items()], "allows": allows},
        lambda admin, scene, on_error: all_but(
            changes(scene),
            lambda failed: admin.alter_partition_reassignments(
                changes(scene), allow_replication_factor_change=allows, on_error=failed
            ),
            on_error,
        ),
        aspect=aspect,
        prepare=Scene.topic,
    )


def elections(aspect: str, kind: str, *numbers: int) -> Comparison:
    """Elections for partitions of the topic; without numbers: for all that need one."""

    def places(scene: Scene) -> list[TopicPartition] | None:
        return [TopicPartition(scene.existing, number) for number in numbers] or None

    def elected(admin: kafwire.Admin, scene: Scene, _: OnError) -> dict[str, Any]:
        errors: dict[Any, Any] = {}
        found = admin.elect_leaders(kind, places(scene), on_error=errors.__setitem__)
        names = dict.fromkeys(map(shown, found)) | {shown(where): error.name for where, error in errors.items()}
        return {"all": names}

    def arguments(scene: Scene) -> dict[str, Any]:
        given = places(scene)
        return {"type": kind.upper()} | ({} if given is None else {"partitions": [[*where] for where in given]})

    return Comparison("electLeaders", arguments, elected, aspect=aspect, prepare=Scene.topic)


COMPARISONS = [
    descriptions(everything=False),
    descriptions(everything=True),
    Comparison(
        "describeFeatures",
        lambda _: {},
        lambda admin, _, __: {"features": admin.describe_features()},
        ours=features,
        theirs=features_of_java,
        on="authorized",  # a test changes a level of the shared cluster
    ),
    update("raise", "share.version", 1, "upgrade"),
    update("lower", "share.version", 0, "safe_downgrade"),
    update("beyond", "share.version", 99, "upgrade"),
    update("unknown", "no.such", 1, "upgrade"),
    update("metadata", "metadata.version", 7, "safe_downgrade"),
    update("unsafe", "metadata.version", 7, "unsafe_downgrade"),
    Comparison(
        "describeMetadataQuorum",
        lambda _: {},
        lambda admin, _, __: {"quorum": admin.describe_metadata_quorum()},
        ours=quorum,
        theirs=quorum_of_java,
    ),
    member("unregisterBroker", "broker", 77, lambda admin: admin.unregister_broker(77)),
    member("unregisterController", "controller", 77, lambda admin: admin.unregister_controller(77)),
    member(
        "removeRaftVoter", "voter", 77, lambda admin: admin.remove_raft_voter(77, DIRECTORY), directory=DIRECTORY_TEXT
    ),
    member(
        "addRaftVoter",
        "voter",
        1,
        lambda admin: admin.add_raft_voter(1, DIRECTORY, [RaftVoterEndpoint("CONTROLLER", "localhost", 1)]),
        directory=DIRECTORY_TEXT,
        endpoints=[["CONTROLLER", "localhost", 1]],
    ),
    Comparison(
        "describeLogDirs",
        lambda _: {"brokers": [1]},
        lambda admin, _, on_error: admin.describe_log_dirs([1], on_error=on_error),
        ours=dirs,
        theirs=dirs_of_java,
        prepare=with_record,
        own_by=itemgetter(0),
    ),
    Comparison(
        "describeReplicaLogDirs",
        lambda scene: {"replicas": replicas(scene)},
        lambda admin, scene, on_error: admin.describe_replica_log_dirs(replicas(scene), on_error=on_error),
        ours=replica_dirs,
        theirs=replica_dirs_of_java,
        prepare=with_record,
    ),
    directory_changes("unknown", lambda scene: ["/none", scene.facts["path"]]),
    directory_changes("same", lambda scene: [scene.facts["path"]]),
    moves("unknown", [9], [1]),
    moves("same", [1], allows=False),
    moves("factor", [1, 1], allows=False),
    moves("cancel", None),
    Comparison(
        "listPartitionReassignments",
        lambda scene: {"partitions": [[scene.existing, 0]]},
        lambda admin, scene, _: {"all": admin.list_partition_reassignments([(scene.existing, 0)])},
        prepare=Scene.topic,
    ),
    elections("named", "preferred", 0, NONE),
    elections("unclean", "unclean", 0),
    elections("all", "preferred"),
]
