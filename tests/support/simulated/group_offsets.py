"""Offsets of a group in the simulated world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit
from kafwire.config import ClientConfig
from tests.support.simulated.world import World

Where = tuple[str, int]


def make(world: World, *, group_id: str = "g", **options: Any) -> GroupOffsets:
    cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))
    return GroupOffsets(cluster, group_id)


def commit(world: World, offsets: GroupOffsets, what: Mapping[Where, int]) -> None:
    world.run(offsets.commit({where: OffsetToCommit(offset) for where, offset in what.items()}))


def fetch(world: World, offsets: GroupOffsets, what: Iterable[Where]) -> dict[Where, Committed | None]:
    return world.run(offsets.fetch(what))
