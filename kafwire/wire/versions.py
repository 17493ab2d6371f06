"""Version negotiation: the highest version of an API that both sides have (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.errors import ProtocolError


def choose(
    name: str, ours: tuple[int, int], api_key: int, theirs: Mapping[int, tuple[int, int]], *, at_most: int | None = None
) -> int:
    """The version of `name` to speak, given both sides' (lowest, highest); `ProtocolError` when none is shared."""
    low, high = ours
    if at_most is not None:
        high = min(high, at_most)
    offered = theirs.get(api_key)
    if offered is None:
        raise ProtocolError(f"the broker does not offer {name} (api key {api_key})", api=name)
    version = min(high, offered[1])
    if version < max(low, offered[0]):
        raise ProtocolError(
            f"no version of {name} is shared: kafwire has {low} to {high}, the broker {offered[0]} to {offered[1]}; "
            "Kafka 3.9 or newer is needed",
            api=name,
        )
    return version
