"""Ports of a cluster's nodes on this machine, and the brokers alive behind a port."""

import random
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

HOST = "127.0.0.1"

# Below the range of ports that Linux and macOS use for outgoing connections, so that a restarted node finds its port
# free.
_PORTS = range(15000, 32000)

ByNode = Mapping[int, int]


@dataclass(frozen=True)
class Ports:
    """The ports of all nodes, each kind by the node's id; an unused kind is empty."""

    listeners: ByNode
    controllers: ByNode
    proxies: ByNode = field(default_factory=dict)  # ports of the proxies in front of the nodes
    proxied: ByNode = field(default_factory=dict)  # ports of the nodes behind these proxies
    brokers: ByNode = field(default_factory=dict)  # for the other nodes, behind the proxies between them
    broker_fronts: ByNode = field(default_factory=dict)  # ports of the proxies in front of `brokers`
    controller_fronts: ByNode = field(default_factory=dict)  # ports of the proxies in front of `controllers`
    secured: Mapping[str, ByNode] = field(default_factory=dict)  # ports of secured listeners, by their names
    secured_fronts: Mapping[str, ByNode] = field(default_factory=dict)  # ports of the proxies in front of these

    @property
    def secured_advertised(self) -> Mapping[str, ByNode]:
        """The ports at which clients find the secured listeners."""
        return self.secured_fronts or self.secured


def choose_ports(nodes: int, *, proxies: bool, partitions: bool, secured: Sequence[str] = ()) -> Ports:
    """Return free ports for nodes, for proxies before and between them; `secured` names secured listeners.

    Proxies stand before the secured listeners if there are any, else before the plain one.
    """
    kinds = ["listeners", "controllers"]
    kinds += ["proxies", "proxied"] if proxies and not secured else []
    kinds += ["brokers", "broker_fronts", "controller_fronts"] if partitions else []
    count = len(kinds) + len(secured) * (2 if proxies else 1)
    with free_ports(count * nodes) as ports:
        by_node = [dict(enumerate(ports[n::count], 1)) for n in range(count)]
    behind, fronts = by_node[len(kinds) : len(kinds) + len(secured)], by_node[len(kinds) + len(secured) :]
    return Ports(
        **dict(zip(kinds, by_node, strict=False)),
        secured=dict(zip(secured, behind, strict=True)),
        secured_fronts=dict(zip(secured, fronts, strict=False)),
    )


def host_and_port(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Yield ports without a listener; they are held until the block ends, so that they differ."""
    chooser = random.SystemRandom()
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            port = chooser.choice(_PORTS)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
        yield ports


def alive_brokers(port: int) -> set[int]:
    """Return the ids of the brokers that the node at `port` knows as alive; empty while it does not respond.

    The function sends a real Metadata request (version 4, no topics). A node responds to ApiVersions before it joins
    the cluster, and creating a topic then fails. A broker is in this list once it is unfenced.
    """
    request = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i?", 0, False)
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                response = stream.read(size)
        _, _, count = struct.unpack_from(">iii", response)
        at, brokers = 12, set()
        for _ in range(count):
            broker, host_size = struct.unpack_from(">ih", response, at)
            at += 6 + host_size + 4
            (rack_size,) = struct.unpack_from(">h", response, at)
            at += 2 + max(rack_size, 0)
            brokers.add(broker)
    except (OSError, struct.error):
        return set()
    return brokers
