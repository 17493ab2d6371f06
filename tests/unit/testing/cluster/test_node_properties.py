"""Properties of a test cluster's nodes."""

from __future__ import annotations

from kafwire.broker.ports import choose_ports
from kafwire.broker.topics.configs import BROKER_CONFIGS
from kafwire.testing.cluster.node_properties import append_listeners, default_properties


def test_further_listeners_come_behind() -> None:
    ports = choose_ports(1, proxies=False, partitions=False)
    own = default_properties(1, 1, ports)
    first = own["listeners"]
    append_listeners(own, {"listeners": "SSL://127.0.0.1:1", "other": "x"})
    assert own["listeners"] == f"{first},SSL://127.0.0.1:1"
    assert own["other"] == "x"


def test_no_new_group_waits_for_more_members() -> None:
    own = default_properties(1, 1, choose_ports(1, proxies=False, partitions=False))
    delays = {name for name in BROKER_CONFIGS if name.endswith("initial.rebalance.delay.ms")}
    assert len(delays) == 2
    assert {own.get(name) for name in delays} == {"0"}
