"""Ports of a test cluster's nodes."""

from __future__ import annotations

from kafwire.broker.ports import choose_ports


def test_each_listener_of_each_node_has_its_own() -> None:
    ports = choose_ports(2, proxies=True, partitions=True, secured=["SSL", "SASL_SSL"])
    kinds = [ports.listeners, ports.controllers, ports.brokers, ports.broker_fronts, ports.controller_fronts]
    kinds += [*ports.secured.values(), *ports.secured_fronts.values()]
    assert all(set(kind) == {1, 2} for kind in kinds)
    assert len({port for kind in kinds for port in kind.values()}) == 2 * len(kinds)
    assert set(ports.secured) == set(ports.secured_fronts) == {"SSL", "SASL_SSL"}


def test_proxies_stand_before_the_secured_listeners_only() -> None:
    assert not choose_ports(1, proxies=True, partitions=False, secured=["SSL"]).proxies
    assert choose_ports(1, proxies=True, partitions=False).proxies


def test_clients_find_a_secured_listener_itself_if_nothing_stands_before_it() -> None:
    ports = choose_ports(1, proxies=False, partitions=False, secured=["SSL"])
    assert ports.secured_advertised == ports.secured
    assert not ports.secured_fronts
