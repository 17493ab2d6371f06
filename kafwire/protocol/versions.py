"""Version negotiation: the highest version of an API that both sides support (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.errors import ProtocolError


def choose(
    name: str, ours: tuple[int, int], api_key: int, theirs: Mapping[int, tuple[int, int]], *, at_most: int | None = None
) -> int:
    """Return the version of `name` to use, given both sides' (lowest, highest); `ProtocolError` if none is shared."""
    low, high = ours
    if at_most is not None:
        high = min(high, at_most)
    offered = theirs.get(api_key)
    if offered is None:
        raise ProtocolError(f"the broker does not offer {name} (api key {api_key})", api=name)
    version = min(high, offered[1])
    if version < max(low, offered[0]):
        raise ProtocolError(
            f"no common version of {name}: kafwire has {low} to {high}, the broker {offered[0]} to {offered[1]}; "
            f"Kafka {OLDEST_KAFKA} or newer is needed",
            api=name,
        )
    return version


# A client's requirements of a broker, by purpose: the key of an API and the least version. Older versions of Metadata
# create every topic that they name; older ones of OffsetFetch return offsets that a transaction may still undo
# (KIP-447).
NEEDED: dict[str, dict[str, tuple[int, int]]] = {
    "everything": {"ApiVersions": (18, 0), "Metadata": (3, 4)},
    "reading": {"Fetch": (1, 4), "ListOffsets": (2, 1), "OffsetForLeaderEpoch": (23, 2)},
    "sending": {"Produce": (0, 3), "InitProducerId": (22, 0)},
    "a group's offsets": {"FindCoordinator": (10, 0), "OffsetCommit": (8, 2), "OffsetFetch": (9, 7)},
    "transactions": {
        "AddPartitionsToTxn": (24, 0),
        "AddOffsetsToTxn": (25, 0),
        "EndTxn": (26, 0),
        "TxnOffsetCommit": (28, 0),
    },
    "topics and their configuration": {
        "CreateTopics": (19, 2),
        "DeleteTopics": (20, 1),
        "DescribeConfigs": (32, 1),
    },
}
# The oldest tested release; a broker is judged by its versions (docs/reference/compatibility.md).
OLDEST_KAFKA = "3.0"
# From this version on it names topics only by their ids (KIP-516).
FETCH_BY_TOPIC_ID = 13
_LEAST = dict(needed for apis in NEEDED.values() for needed in apis.values())


def least(api_key: int) -> int:
    """Return the least version of an API that kafwire uses, if it is not the least one that it can encode."""
    return _LEAST.get(api_key, 0)


def lacking(offered: Mapping[int, tuple[int, int]]) -> list[str]:
    """List the requirements of kafwire that a broker does not meet, as sentences."""
    found = []
    for purpose, apis in NEEDED.items():
        for name, (key, least) in apis.items():
            versions = offered.get(key)
            if versions is None or versions[1] < least:
                has = "does not have it" if versions is None else f"has {versions[0]} to {versions[1]}"
                found.append(f"{purpose} needs {name} (api key {key}) in version {least} or newer; the broker {has}")
    return found


# The newest metadata.version that each Kafka release supports (KIP-584, KIP-778).
_RELEASES = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}


def release(offered: Mapping[int, tuple[int, int]], supported_features: Mapping[str, int]) -> str:
    """Describe a broker's apparent release for users: brokers do not report it."""
    level = supported_features.get("metadata.version")
    apis = f"{len(offered)} APIs"
    if level is None:
        return f"a Kafka server that does not report its release ({apis})"
    if level in _RELEASES:
        return f"Kafka {_RELEASES[level]} ({apis})"
    newest = max(_RELEASES)
    if level > newest:
        return f"Kafka newer than {_RELEASES[newest]} (metadata.version {level}, {apis})"
    return f"a Kafka server of metadata.version {level} ({apis})"
