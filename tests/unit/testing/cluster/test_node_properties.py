"""Properties of a test cluster's nodes."""

from __future__ import annotations

from kafwire.broker.ports import choose_ports
from kafwire.testing.cluster.node_properties import append_listeners, default_properties


def test_further_listeners_come_behind() -> None:
    ports = choose_ports(1, proxies=False, partitions=False)
    own = default_properties(1, 1, ports)
    first = own["listeners"]
    append_listeners(own, {"listeners": "SSL://127.0.0.1:1", "other": "x"})
    assert own["listeners"] == f"{first},SSL://127.0.0.1:1"
    assert own["other"] == "x"
