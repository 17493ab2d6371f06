"""Stand-ins for `kafka-topics.sh` and `kafka-acls.sh`, with the options that suites use.

python -m scripts.foreign_suites.kafka_tools kafka-topics.sh --bootstrap-server HOST:PORT --delete --topic flights
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kafwire
from kafwire.broker.security.acls import Acl
from kafwire.errors import ErrorCode
from kafwire.protocol import CreateAclsRequest, DeleteAclsRequest
from scripts.foreign_suites.running import ROOT

__all__ = ["bindings", "read_options", "write_tools"]

_TOOLS = ("kafka-topics.sh", "kafka-acls.sh")
_RESOURCES = {"--topic": "Topic", "--group": "Group", "--transactional-id": "TransactionalId"}
_FOR_PRODUCERS = {"Topic": ["Write", "Describe", "Create"], "TransactionalId": ["Write", "Describe"]}
_FOR_CONSUMERS = {"Topic": ["Read", "Describe"], "Group": ["Read"]}
_Options = Mapping[str, Sequence[str]]


def read_options(words: Sequence[str]) -> _Options:
    """The values of each option; of one without a value, an empty one."""
    options: dict[str, list[str]] = {}
    for index, word in enumerate(words):
        if word.startswith("--"):
            following = words[index + 1] if index + 1 < len(words) else "--"
            options.setdefault(word, []).append("" if following.startswith("--") else following)
    return options


def bindings(options: _Options) -> Iterator[Acl]:
    """The ACLs that options of `kafka-acls.sh` name."""
    for permission in ("Allow", "Deny"):
        hosts = options.get(f"--{permission.lower()}-host", ["*"])
        for principal in options.get(f"--{permission.lower()}-principal", []):
            for kind, name, operation in _named(options):
                more = {} if name is None else {"name": name}
                for host in hosts:
                    yield Acl(principal, operation, kind, permission=permission, host=host, **more)


def _named(options: _Options) -> Iterator[tuple[str, str | None, str]]:
    operations = options.get("--operation", [])
    resources = [(kind, name) for option, kind in _RESOURCES.items() for name in options.get(option, [])]
    for kind, name in resources:
        wanted = list(operations)
        if "--producer" in options:
            wanted += _FOR_PRODUCERS.get(kind, [])
        if "--consumer" in options:
            wanted += _FOR_CONSUMERS.get(kind, [])
        for operation in wanted or ["All"]:
            yield kind, name, operation
    if "--cluster" in options:
        for operation in operations or ["All"]:
            yield "Cluster", None, operation


def _topics(client: kafwire.Client, options: _Options) -> None:
    (name,) = options["--topic"]
    if "--create" in options:
        config = dict(each.split("=", 1) for each in options.get("--config", []))
        partitions, replicas = (int(options[option][0]) for option in ("--partitions", "--replication-factor"))
        client.create_topic(name, partitions=partitions, replication_factor=replicas, config=config)
    elif "--delete" in options:
        client.delete_topic(name)
    else:
        client.create_partitions(name, int(options["--partitions"][0]))


def _acls(client: kafwire.Client, options: _Options) -> list[Any]:
    found = list(bindings(options))
    if "--add" in options:
        creation = CreateAclsRequest.AclCreation
        creations = [
            creation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in found
        ]
        return list(client.call(CreateAclsRequest(creations=creations)).results)
    kind = DeleteAclsRequest.DeleteAclsFilter
    filters = [
        kind(
            resource_type_filter=acl.resource_type,
            resource_name_filter=acl.name,
            pattern_type_filter=acl.pattern,
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in found
    ]
    return list(client.call(DeleteAclsRequest(filters=filters)).filter_results)


def main(words: Sequence[str]) -> int:
    """Run one of the tools; 1 if the broker refuses."""
    tool, options = words[0], read_options(words[1:])
    with kafwire.Client(options["--bootstrap-server"][0]) as client:
        try:
            if tool == "kafka-topics.sh":
                _topics(client, options)
                return 0
            results = _acls(client, options)
        except kafwire.KafkaError as error:
            print(f"{tool}: {error}", file=sys.stderr)
            return 1
    refused = [result for result in results if result.error_code]
    for result in refused:
        print(f"{tool}: {ErrorCode(result.error_code).name}", file=sys.stderr)
    return 1 if refused else 0


def write_tools(folder: Path) -> Path:
    """Write the tools to `bin` of a folder, which stands in for Kafka's."""
    (folder / "bin").mkdir(parents=True)
    for name in _TOOLS:
        path = folder / "bin" / name
        path.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m {__spec__.name} {name} "$@"\n')
        path.chmod(0o755)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
