"""A client's view of the simulated cluster."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from tests.support.simulated.world import World


def make_cluster(world: World, *, bootstrap: str | None = None, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": bootstrap or world.bootstrap, **options}))


def metadata() -> protocol.MetadataRequest:
    return protocol.MetadataRequest(topics=[])
