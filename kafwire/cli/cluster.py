"""`kafwire cluster`: brokers, features, the quorum of controllers, and log directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafwire.cli.admin_client import admin_of
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_rows, print_table, say, time_text, write_json

if TYPE_CHECKING:
    from kafwire.admin import FeatureDescription, QuorumReplica
    from kafwire.errors import KafkaError

__all__ = ["command"]

_HELP = """Show the brokers of a cluster, its features, its quorum of controllers, and its log directories.

\b
  kafwire cluster describe -b localhost:9092
  kafwire cluster features
  kafwire cluster quorum -J
  kafwire cluster log-dirs
"""

_json_option = click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each row.")
_connected = connection_options_for("ClientConfig")
_Settings = tuple[str, ...]


@click.group("cluster", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@command.command("describe")
@_connected
@click.option("--fenced", is_flag=True, help="Include registered brokers that serve no clients (Kafka 4.0).")
@_json_option
def describe(brokers: str | None, settings: _Settings, config_file: Path | None, fenced: bool, as_json: bool) -> None:
    """Show the brokers, and which one is the controller."""
    with admin_of(brokers, settings, config_file) as admin:
        cluster = admin.describe_cluster(fenced=fenced)
    found = [each for _, each in sorted(cluster.brokers.items())]
    if as_json:
        write_json(
            {
                "clusterId": cluster.cluster_id,
                "broker": each.node_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "controller": each.node_id == cluster.controller_id,
                "fenced": each.is_fenced,
            }
            for each in found
        )
        return
    say(f"cluster {cluster.cluster_id}")
    print_table(
        ("BROKER", "HOST", "PORT", "RACK", "STATE"),
        [
            (
                str(each.node_id),
                each.host,
                str(each.port),
                each.rack or "",
                "fenced" if each.is_fenced else "controller" if each.node_id == cluster.controller_id else "",
            )
            for each in found
        ],
    )


@command.command("features")
@_connected
@_json_option
def features(brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool) -> None:
    """Show the levels of features that are in effect, and those that each broker supports."""
    with admin_of(brokers, settings, config_file) as admin:
        described = {broker: admin.describe_features(broker=broker) for broker in admin.describe_cluster().brokers}
    rows = _feature_rows(described)
    if as_json:
        write_json(
            {
                "feature": name,
                "finalized": level,
                "supported": None if its is None else {"min": its[0], "max": its[1]},
                "supportedBy": nodes,
            }
            for name, level, its, nodes in rows
        )
        return
    print_table(
        ("FEATURE", "FINALIZED", "SUPPORTED", "BROKERS"),
        [
            (name, str(level), "-" if its is None else f"{its[0]} to {its[1]}", ",".join(map(str, nodes)))
            for name, level, its, nodes in rows
        ],
    )


_FeatureRow = tuple[str, int, tuple[int, int] | None, list[int]]


def _feature_rows(described: dict[int, FeatureDescription]) -> list[_FeatureRow]:
    """Return a row for each feature and each range of levels that brokers support."""
    newest = max(described.values(), key=lambda each: each.finalized_epoch or 0)
    names = sorted({name for each in described.values() for name in (*each.supported, *each.finalized)})
    rows = []
    for name in names:
        ranges: dict[tuple[int, int] | None, list[int]] = {}
        for broker, each in sorted(described.items()):
            its = each.supported.get(name)
            ranges.setdefault(None if its is None else (its.min_version, its.max_version), []).append(broker)
        level = newest.finalized[name].max_version if name in newest.finalized else 0
        rows += [(name, level, its, nodes) for its, nodes in ranges.items()]
    return rows


@command.command("quorum")
@_connected
@_json_option
def quorum(brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool) -> None:
    """Show the leader, the voters and the observers of the metadata log, and how far they are behind."""
    with admin_of(brokers, settings, config_file) as admin:
        found = admin.describe_metadata_quorum()
    nodes: list[tuple[QuorumReplica, str]] = [
        *((each, "leader" if each.replica_id == found.leader_id else "voter") for each in found.voters),
        *((each, "observer") for each in found.observers),
    ]
    endpoints = {
        node: [f"{each.name}://{each.host}:{each.port}" for each in listed] for node, listed in found.nodes.items()
    }
    if as_json:
        write_json(
            {
                "node": each.replica_id,
                "role": role,
                "epoch": found.leader_epoch,
                "endOffset": each.log_end_offset,
                "lag": each.lag,
                "lastFetchMs": each.last_fetch_ms,
                "lastCaughtUpMs": each.last_caught_up_ms,
                "directoryId": None if each.directory_id is None else str(each.directory_id),
                "endpoints": endpoints.get(each.replica_id, []),
            }
            for each, role in nodes
        )
        return
    say(f"leader {found.leader_id} in epoch {found.leader_epoch}, high watermark {_shown(found.high_watermark)}")
    print_table(
        ("NODE", "ROLE", "END", "LAG", "LAST FETCH", "LAST CAUGHT UP", "ENDPOINTS"),
        [
            (
                str(each.replica_id),
                role,
                _shown(each.log_end_offset),
                _shown(each.lag),
                time_text(each.last_fetch_ms) or "-",
                time_text(each.last_caught_up_ms) or "-",
                ",".join(endpoints.get(each.replica_id, ())),
            )
            for each, role in nodes
        ],
    )


@command.command("log-dirs")
@click.argument("nodes", nargs=-1, type=click.IntRange(min=0), metavar="[BROKER]...")
@_connected
@_json_option
def log_dirs(
    nodes: tuple[int, ...], brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool
) -> int:
    """Show the log directories of brokers: their replicas, sizes and volumes in bytes. By default of all brokers."""
    errors: dict[int, KafkaError] = {}
    with admin_of(brokers, settings, config_file) as admin:
        found = admin.describe_log_dirs(nodes or None, on_error=errors.__setitem__)
    rows = [
        (
            broker,
            path,
            len(each.replicas),
            sum(replica.size for replica in each.replicas.values()),
            each.total_bytes,
            each.usable_bytes,
            "cordoned" if each.is_cordoned else "online" if each.error is None else str(each.error),
        )
        for broker, dirs in sorted(found.items())
        for path, each in sorted(dirs.items())
    ]
    if rows:
        header = ("BROKER", "DIRECTORY", "REPLICAS", "BYTES", "TOTAL", "USABLE", "STATE")
        keys = ("broker", "directory", "replicaCount", "bytes", "totalBytes", "usableBytes", "state")
        print_rows(header, keys, rows, as_json=as_json, none="-")
    for broker, error in errors.items():
        say(f"kafwire cluster log-dirs: broker {broker}: {error}", err=True)
    return int(bool(errors))


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
