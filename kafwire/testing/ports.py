"""Ports of a cluster's nodes on this machine, and which brokers answer there."""

import random
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

HOST = "127.0.0.1"

# Below the range that Linux and macOS take ports of outgoing connections from, so that a node finds its port free
# again when it is restarted.
_PORTS = range(15000, 32000)

ByNode = Mapping[int, int]


@dataclass(frozen=True)
class Ports:
    """The ports of all nodes, each kind by the node's id; a kind that is empty is not used."""

    listeners: ByNode
    controllers: ByNode
    proxies: ByNode = field(default_factory=dict)  # of what stands before the nodes
    proxied: ByNode = field(default_factory=dict)  # of the nodes behind that
    brokers: ByNode = field(default_factory=dict)  # for the other nodes, behind what stands between them
    broker_fronts: ByNode = field(default_factory=dict)  # of what stands before `brokers`
    controller_fronts: ByNode = field(default_factory=dict)  # and before `controllers`
    secured: Mapping[str, ByNode] = field(default_factory=dict)  # of secured listeners, by their names
    secured_fronts: Mapping[str, ByNode] = field(default_factory=dict)  # of what stands before those

    @property
    def secured_advertised(self) -> Mapping[str, ByNode]:
        """Where clients find the secured listeners."""
        return self.secured_fronts or self.secured


def choose_ports(nodes: int, *, proxies: bool, partitions: bool, secured: Sequence[str] = ()) -> Ports:
    """Free ports for so many nodes, for proxies before them, and for those between them; `secured` names listeners.

    Proxies stand before the secured listeners, if there are any, and else before the plain one.
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
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nobody listens on; held until the block ends, so that they differ."""
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
    """The ids of the brokers that the node at `port` knows as alive; empty while it does not answer.

    A real Metadata request (version 4, no topics). A node answers ApiVersions before it takes part in the cluster, and
    creating a topic then fails; a broker is in this list once it is unfenced.
    """
    request = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i?", 0, False)
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                answer = stream.read(size)
        _, _, count = struct.unpack_from(">iii", answer)
        at, brokers = 12, set()
        for _ in range(count):
            broker, host_size = struct.unpack_from(">ih", answer, at)
            at += 6 + host_size + 4
            (rack_size,) = struct.unpack_from(">h", answer, at)
            at += 2 + max(rack_size, 0)
            brokers.add(broker)
    except (OSError, struct.error):
        return set()
    return brokers
