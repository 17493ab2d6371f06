"""The ports that listeners open, and the ports that they advertise."""

from __future__ import annotations

import pytest

from kafwire.broker.listener_ports import ListenerPorts, advertised_host, parse_advertised


def opened(ports: ListenerPorts) -> dict[str, list[int]]:
    return {name: [ports.opened(name, node) for node in range(ports.nodes)] for name in ports.names}


def test_listeners_and_brokers_follow_one_another_from_one_port() -> None:
    ports = ListenerPorts(["PLAINTEXT", "SSL"], 3, 9092)
    assert opened(ports) == {"PLAINTEXT": [9092, 9093, 9094], "SSL": [9095, 9096, 9097]}
    assert ports.to_advertise("SSL", 1, 9096) == 9096


def test_ports_by_name() -> None:
    ports = ListenerPorts(["PLAINTEXT", "SSL", "SASL_SSL"], 2, {"SSL": 9193, "PLAINTEXT": 9092})
    assert opened(ports) == {"PLAINTEXT": [9092, 9093], "SSL": [9193, 9194], "SASL_SSL": [0, 0]}


def test_free_ports() -> None:
    assert opened(ListenerPorts(["PLAINTEXT"], 2)) == {"PLAINTEXT": [0, 0]}


def test_advertised_ports_follow_one_another_too() -> None:
    ports = ListenerPorts(["PLAINTEXT", "SSL"], 2, 9092, 19092)
    assert [ports.to_advertise(name, node, 1) for name in ports.names for node in (0, 1)] == [
        19092,
        19093,
        19094,
        19095,
    ]


@pytest.mark.parametrize(
    ("ports", "advertised", "says"),
    [
        (65535, None, "port 65536 of listener PLAINTEXT does not exist"),
        (0, 65533, "port 65536 of listener SSL does not exist"),
        ({"SSL": 9093, "PLAINTEXT": 9092}, None, "listeners PLAINTEXT and SSL have one port, 9093"),
        ({"SASL_SSL": 9093}, None, "no listener 'SASL_SSL' to give a port: there is PLAINTEXT, SSL"),
        ({"SSL": -1}, None, "port -1 of listener SSL does not exist"),
    ],
)
def test_ports_that_cannot_be(ports: int | dict[str, int], advertised: int | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ListenerPorts(["PLAINTEXT", "SSL"], 2, ports, advertised)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("kafka", ("kafka", None)),
        ("kafka:9092", ("kafka", 9092)),
        ("10.0.0.7:19092", ("10.0.0.7", 19092)),
        ("[fd00::7]", ("fd00::7", None)),
        ("[fd00::7]:9092", ("fd00::7", 9092)),
    ],
)
def test_an_advertised_address(text: str, parsed: tuple[str, int | None]) -> None:
    assert parse_advertised(text) == parsed


@pytest.mark.parametrize("text", ["", "a,b", "SSL://a:1", "a:0", "a:b", "::1", "a b"])
def test_texts_that_are_no_address(text: str) -> None:
    with pytest.raises(ValueError):
        parse_advertised(text)


def test_a_wildcard_address_is_advertised_as_localhost() -> None:
    assert [advertised_host(host) for host in ("0.0.0.0", "::", "10.0.0.7", "::1")] == [
        "localhost",
        "localhost",
        "10.0.0.7",
        "::1",
    ]
