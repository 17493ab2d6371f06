"""The port that each listener of each broker opens, and the host and port that it advertises. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafwire.config.bootstrap import parse_servers

__all__ = ["ListenerPorts", "advertised_host", "parse_advertised"]

_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - addresses to listen on that no client can connect to
_PORTS = 1 << 16


@dataclass(frozen=True)
class ListenerPorts:
    """Ports by listener and broker.

    Args:
        names: the listeners, in order.
        nodes: the number of brokers.
        ports: the first broker's ports: one number for the first listener, with the other brokers' ports and then the
            other listeners' after it; or a number for each listener's name. 0: free ports.
        advertised: the first port that listeners advertise, with the others after it in the same order; None: the open
            ports.

    Raises:
        ValueError: a port is invalid, two listeners have the same port, or a name is no listener's.
    """

    names: Sequence[str]
    nodes: int
    ports: int | Mapping[str, int] = 0
    advertised: int | None = None

    def __post_init__(self) -> None:
        given = self.ports if isinstance(self.ports, Mapping) else {}
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ValueError(f"no listener {unknown[0]!r} to give a port: there is {', '.join(self.names)}")
        taken: dict[int, str] = {}
        for name in self.names:
            for node in range(self.nodes):
                for port in (self.opened(name, node), self.to_advertise(name, node, 1)):
                    if not 0 <= port < _PORTS:
                        raise ValueError(f"port {port} of listener {name} does not exist: the last one is {_PORTS - 1}")
                port = self.opened(name, node)
                if port and port in taken:
                    raise ValueError(f"listeners {taken[port]} and {name} have one port, {port}: give them others")
                taken[port] = name

    def _index(self, name: str, node: int) -> int:
        return self.names.index(name) * self.nodes + node

    def opened(self, name: str, node: int) -> int:
        """Return the port of a listener of the `node`th broker, from 0; 0: a free one."""
        if isinstance(self.ports, Mapping):
            first = self.ports.get(name, 0)
            return first + node if first else 0
        return self.ports + self._index(name, node) if self.ports else 0

    def to_advertise(self, name: str, node: int, opened: int) -> int:
        """Return the port that a listener advertises after it opened `opened`."""
        return opened if self.advertised is None else self.advertised + self._index(name, node)


def parse_advertised(text: str) -> tuple[str, int | None]:
    """Return host and port of `HOST[:PORT]`; None: no port is given. Raises `ValueError` for any other text."""
    if "://" in text or "," in text:
        raise ValueError(f"{text!r} is not HOST[:PORT]: one address, without a protocol")
    ((host, port),) = parse_servers(text)
    has_port = ":" in (text.rpartition("]")[2] if text.lstrip().startswith("[") else text)
    return host, port if has_port else None


def advertised_host(host: str) -> str:
    """Return the host that listeners advertise by default: localhost for an address that only listens."""
    return "localhost" if host in _EVERYWHERE else host
