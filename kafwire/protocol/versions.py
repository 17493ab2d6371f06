"""Version negotiation: the highest version of an API that both sides support (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafwire import protocol
from kafwire.errors import ProtocolError


def choose(
    name: str, ours: tuple[int, int], api_key: int, theirs: Mapping[int, tuple[int, int]], *, at_most: int | None = None
) -> int:
    """Return the version of `name` to use, given both sides' (lowest, highest); `ProtocolError` if none is shared."""
    low, high = ours
    if low > high:
        raise ProtocolError(f"Kafka 4 removed every version of {name}: name the version to send", api=name)
    if at_most is not None:
        high = min(high, at_most)
    offered = theirs.get(api_key)
    if offered is None:
        text = f"the broker does not offer {name} (api key {api_key}): this call needs a server that has it"
        raise ProtocolError(text, api=name)
    version = min(high, offered[1])
    if version < max(low, offered[0]):
        raise ProtocolError(
            f"no common version of {name}: kafwire has {low} to {high}, the broker {offered[0]} to {offered[1]}; "
            f"Kafka {OLDEST_KAFKA} or newer is needed",
            api=name,
        )
    return version


# The APIs that a client needs of a broker, by purpose, each from the version `LEAST` of its request on. A broker that
# lacks those of a purpose outside `ALWAYS_NEEDED` serves all others.
NEEDED: dict[str, tuple[str, ...]] = {
    "everything": ("ApiVersions", "Metadata"),
    "reading": ("Fetch", "ListOffsets"),
    "sending": ("Produce", "InitProducerId"),
    "a group's offsets": ("FindCoordinator", "OffsetCommit", "OffsetFetch"),
    "transactions": ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"),
    "topics and their configuration": ("CreateTopics", "DeleteTopics", "DescribeConfigs"),
    "checking a follower's log": ("OffsetForLeaderEpoch",),
}
ALWAYS_NEEDED = ("everything", "reading", "sending")
# The feature of transactions (KIP-584). From level 2 on, each transaction has an epoch of its own, and Produce,
# TxnOffsetCommit and EndTxn have other effects (KIP-890).
TRANSACTION_FEATURE = "transaction.version"
TRANSACTION_V2 = 2
# The oldest tested release; a broker is judged by its versions (docs/reference/compatibility.md).
OLDEST_KAFKA = "3.0"


def lacking(offered: Mapping[int, tuple[int, int]], purposes: Iterable[str] = NEEDED) -> list[str]:
    """List the requirements of kafwire, for these purposes, that a broker does not meet, as sentences."""
    found = []
    for purpose in purposes:
        for name in NEEDED[purpose]:
            request: Any = protocol.MESSAGES[f"{name}Request"]
            key, least = request.api_key, request.LEAST
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
