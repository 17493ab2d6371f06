"""The same questions about a cluster and its replicas by kafwire and by Java's Admin: the outcome of each, as text."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafwire
from kafwire.admin import FeatureUpdate, RaftVoterEndpoint, TopicPartitionReplica
from kafwire.errors import BrokerError
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, class_path, java
from kafwire.types import TopicPartition
from tests.support.java.client import compiled

DIRECTORY = uuid.UUID(int=7)


def by_java(bootstrap: str, topic: str) -> dict[str, str]:
    """The output of tests/java/ClusterScript.java, by step."""
    source = Path(__file__).parents[2] / "java" / "ClusterScript.java"
    classes = f"{compiled(source)}:{class_path(DEFAULT_VERSION)}"
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [java(), *options, "-cp", classes, "ClusterScript", bootstrap, topic]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    lines = [line[2:].split(": ", 1) for line in done.stdout.splitlines() if line.startswith("> ")]
    return dict(lines)


def by_kafwire(bootstrap: str, topic: str, *, with_messages: bool = False) -> dict[str, str]:
    """The same by kafwire; `with_messages`: with the texts of errors, the broker's included."""
    found: dict[str, str] = {}

    def say(step: str, call: Callable[[], Any]) -> None:
        try:
            outcome = call()
            found[step] = "done" if outcome is None else _java_text(outcome)
        except BrokerError as error:
            found[step] = str(error) if with_messages else error.name

    with kafwire.Admin(bootstrap) as admin:
        _of_cluster(admin, say)
        _of_replicas(admin, say, topic)
    return found


def _of_cluster(admin: kafwire.Admin, say: Callable[[str, Callable[[], Any]], None]) -> None:
    cluster = admin.describe_cluster(fenced=True, authorized_operations=True)
    features = admin.describe_features()
    say("brokers", lambda: sorted(cluster.brokers))
    say("controller", lambda: cluster.controller_id)
    say("operations", lambda: sorted(name.upper() for name in cluster.authorized_operations or ()))
    for step, ranges in (("finalized", features.finalized), ("supported", features.supported)):
        shown = [f"{name} {its.min_version} {its.max_version}" for name, its in sorted(ranges.items())]
        say(step, lambda shown=shown: shown)  # type: ignore[misc]
    say("quorum", lambda: _quorum(admin.describe_metadata_quorum()))
    for step, feature, level, kind in (
        ("raise", "share.version", 1, "upgrade"),
        ("lower", "share.version", 0, "safe_downgrade"),
        ("beyond", "share.version", 99, "upgrade"),
        ("nothing", "no.such", 1, "upgrade"),
        ("metadata", "metadata.version", 7, "safe_downgrade"),
        ("unsafe", "metadata.version", 7, "unsafe_downgrade"),
    ):
        updates = {feature: FeatureUpdate(level, kind)}
        say(step, lambda updates=updates: admin.update_features(updates, validate_only=True))  # type: ignore[misc]
    say("broker", lambda: admin.unregister_broker(77))
    say("unknown controller", lambda: admin.unregister_controller(77))
    say("voter", lambda: admin.remove_raft_voter(77, DIRECTORY))
    say("again", lambda: admin.add_raft_voter(1, DIRECTORY, [RaftVoterEndpoint("CONTROLLER", "localhost", 1)]))


def _of_replicas(admin: kafwire.Admin, say: Callable[[str, Callable[[], Any]], None], topic: str) -> None:
    first, none = TopicPartition(topic, 0), TopicPartition(topic, 7)
    here, gone = (TopicPartitionReplica(*place, 1) for place in (first, none))
    dirs = admin.describe_log_dirs([1])[1]
    path = next(iter(dirs))
    places = admin.describe_replica_log_dirs([here, gone])
    say("dirs", lambda: "; ".join(_dir(name, its, first) for name, its in sorted(dirs.items())))
    say("replica", lambda: [places[here].current_dir, places[here].current_lag, places[here].future_dir])
    say("no replica", lambda: [places[gone].current_dir, places[gone].current_lag, places[gone].future_dir])
    say("wrong dir", lambda: admin.alter_replica_log_dirs({here: "/none"}))
    say("same dir", lambda: admin.alter_replica_log_dirs({here: path}))
    say("no such replica", lambda: admin.alter_replica_log_dirs({gone: path}))
    for step, partition, replicas, changes in (
        ("move", first, [9], True),
        ("stay", first, [1], False),
        ("factor", first, [1, 1], False),
        ("missing", none, [1], True),
        ("cancel", first, None, True),
    ):
        moves = {partition: replicas}
        say(
            step,
            lambda moves=moves, changes=changes: admin.alter_partition_reassignments(  # type: ignore[misc]
                moves, allow_replication_factor_change=changes
            ),
        )
    say("moves", lambda: admin.list_partition_reassignments([first]))
    say("preferred", lambda: admin.elect_leaders("preferred", [first]))
    say("unclean", lambda: admin.elect_leaders("unclean", [first]))
    say("absent", lambda: admin.elect_leaders("preferred", [none]))
    say("all", lambda: len(admin.elect_leaders("preferred")))


def _java_text(value: Any) -> str:
    """A value as Java's `toString` writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_java_text, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quorum(quorum: Any) -> str:
    voters = [
        f"{each.replica_id} {_directory(each.directory_id)} {_java_text(each.last_fetch_ms is not None)} "
        f"{_java_text(each.last_caught_up_ms is not None)}"
        for each in quorum.voters
    ]
    endpoints = [f"{each.name} {each.host} {each.port}" for its in quorum.nodes.values() for each in its]
    numbers = f"{quorum.leader_id} {quorum.leader_epoch}"
    return f"{numbers} {_java_text(voters)} {len(quorum.observers)} {_java_text(endpoints)}"


def _directory(directory_id: uuid.UUID | None) -> str:
    made = uuid.UUID(int=0) if directory_id is None else directory_id
    return base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")


def _dir(path: str, log_dir: Any, partition: tuple[str, int]) -> str:
    replica = log_dir.replicas[partition]
    parts = [log_dir.total_bytes, log_dir.usable_bytes is not None, log_dir.is_cordoned]
    parts += [replica.size, replica.offset_lag, replica.is_future]
    return " ".join([path, *map(_java_text, parts)])
