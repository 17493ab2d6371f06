"""`EmbeddedKafka`: brokers on ports of this machine, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from kafwire.testing.broker.controls import Controls
from kafwire.testing.broker.socket_server import Listener, SocketServer
from kafwire.testing.broker.state import ClusterState


class EmbeddedKafka(Controls):
    """A Kafka cluster in this process, for development and tests: the real protocol, on real ports.

    It serves any client. What it stores is in memory. It does not replicate: followers are modelled.

    Args:
        nodes: how many brokers.
        host: the address that they listen on and advertise.
        port: of the first broker, the others have those behind it; 0: any free ones.
        configs: options of brokers by Kafka's names, such as `{"num.partitions": 3}`.

    Example:
        >>> with EmbeddedKafka() as kafka, kafwire.Producer(kafka.bootstrap) as producer:
        ...     producer.send("flights", b"EWR-IAH").result(10).offset
        0
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        texts = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in (configs or {}).items()
        }
        self.state = ClusterState(range(1, nodes + 1), configs=texts)
        self._server = SocketServer(self.state)
        self._host, self._port = host, port
        self._is_started = False

    def start(self) -> Self:
        """Open the ports, and serve."""
        import time

        self.state.wall_offset_ms = time.time() * 1000.0 - self._server.now_ms
        for node in self.state.nodes.values():
            port = self._port + node.number - 1 if self._port else 0
            listener = Listener(node.number, "PLAINTEXT", self._host, port)
            node.addresses["PLAINTEXT"] = self._server.listen(listener)
        self._server.start()
        self._is_started = True
        return self

    def close(self) -> None:
        """Close all ports and connections. What is in memory is gone."""
        self._server.close()

    def __enter__(self) -> Self:
        return self if self._is_started else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self._server.problems:
            raise self._server.problems[0]

    @property
    def bootstrap(self) -> str:
        """What clients connect to: `host:port` of each broker, separated by commas."""
        return ",".join(f"{host}:{port}" for n in self.state.nodes.values() for host, port in [n.address("PLAINTEXT")])
