"""Kafka's own message definitions: the JSON inside Kafka's jars, read into plain dictionaries."""

import json
import re
import zipfile
from functools import cache
from typing import Any

from kafwire.protocol import MESSAGES
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION, resolve

# The jars, and where in them the definitions are. Those of tiered storage are left out: no kafwire command reads them.
_JARS = {
    "clients": re.compile(r"common/message/\w+\.json"),
    "group-coordinator": re.compile(r"common/message/\w+\.json"),
    "share-coordinator": re.compile(r"common/message/\w+\.json"),
    "transaction-coordinator": re.compile(r"common/message/\w+\.json"),
    "storage": re.compile(r"message/ProducerSnapshot\.json"),
}
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


@cache
def definitions(release: str = DEFAULT_VERSION) -> dict[str, dict[str, Any]]:
    """Every definition of a release's jars, by message name. 3.9 has no share coordinator."""
    found = {}
    for name, path in _JARS.items():
        if name == "share-coordinator" and release == OLDEST_VERSION:
            continue
        with zipfile.ZipFile(resolve(release) / f"kafka-{name}-{release}.jar") as jar:
            for file in filter(path.fullmatch, jar.namelist()):
                text = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", jar.read(file).decode())
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def valid_versions(definition: dict[str, Any]) -> range:
    """The versions that a definition declares valid."""
    text = definition["validVersions"]
    if text == "none":
        return range(0)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def pairs() -> list[tuple[str, int]]:
    """Every message in every valid version."""
    return [(name, version) for name in sorted(definitions()) for version in valid_versions(definitions()[name])]


OLD_KEYS = {"ShareGroupPartitionMetadataKey"}  # its version in 3.9 is the type of the record


def removed_pairs() -> list[tuple[str, int]]:
    """Every message in every version that Kafka 4 removed, the keys of old records aside."""
    return [
        (name, version)
        for name, cls in MESSAGES.items()
        if name not in OLD_KEYS
        for version in range(cls.oldest_version, cls.min_version)
    ]


def versions(text: str | None, within: range) -> set[int]:
    """The versions that a range such as "3+" names, cut to `within`."""
    if text is None or text == "none":
        return set()
    if text.endswith("+"):
        return {version for version in within if version >= int(text[:-1])}
    low, _, high = text.partition("-")
    return {version for version in within if int(low) <= version <= int(high or low)}
