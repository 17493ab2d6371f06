"""Ports of a cluster's nodes on this machine, and which brokers answer there."""

import random
import socket
import struct
from collections.abc import Iterator, Mapping
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


def choose_ports(nodes: int, *, proxies: bool, partitions: bool) -> Ports:
    """Free ports for so many nodes, for proxies before them, and for those between them."""
    kinds = ["listeners", "controllers"]
    kinds += ["proxies", "proxied"] if proxies else []
    kinds += ["brokers", "broker_fronts", "controller_fronts"] if partitions else []
    with free_ports(len(kinds) * nodes) as ports:
        return Ports(**{kind: dict(enumerate(ports[n :: len(kinds)], 1)) for n, kind in enumerate(kinds)})


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
