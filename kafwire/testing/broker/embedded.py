"""`EmbeddedKafka`: brokers on ports of this machine, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafwire.handles import refuse_copies
from kafwire.testing.broker.controls import Controls
from kafwire.testing.broker.listener_ports import ListenerPorts, advertised_host, parse_advertised
from kafwire.testing.broker.log.cleaner import Cleaner
from kafwire.testing.broker.log.retention import Retention
from kafwire.testing.broker.socket_server import Listener, SocketServer
from kafwire.testing.broker.state import ClusterState, Node
from kafwire.testing.ports import host_and_port

if TYPE_CHECKING:
    from kafwire.testing.broker.security.acls import Acl
    from kafwire.testing.broker.security.embedded_security import EmbeddedSecurity
    from kafwire.testing.broker.storage.storage import Storage
    from kafwire.testing.client_options import Dialect
    from kafwire.testing.cluster_security import ClusterSecurity
    from kafwire.testing.security import Security

PLAINTEXT = "PLAINTEXT"  # the plain listener's name


class EmbeddedKafka(Controls):
    """A Kafka cluster in this process, for development and tests: the real protocol, on real ports.

    It serves any client. What it stores is in memory, or in a folder. It does not replicate: followers are modelled.

    Args:
        nodes: how many brokers.
        host: the address that they listen on, and advertise; `0.0.0.0` and `::` advertise localhost.
        port: of the first broker's first listener, which is the plain one if it is open; the other brokers have those
            behind it, and the other listeners those behind them. A mapping has a port by each listener's name
            (`{"PLAINTEXT": 9092, "SASL_SSL": 9094}`). 0: any free ones.
        advertised: `host[:port]` that brokers advertise in place of the above, as behind a container's port mapping.
            With a port, the other listeners advertise those behind it in the same order. Certificates are for it too.
        configs: options of brokers by Kafka's names, such as `{"num.partitions": 3}`.
        security: secured listeners: one or several `Security`, or names of protocols. SASL has
            PLAIN and SCRAM here. With `Security(acls=True)` ACLs are enforced.
        plain: opens the plain listener, which asks for neither TLS nor a login, besides the secured ones. It is closed
            if `security` is given, unless asked for; without `security` it is the listener.
        acls: ACLs that are there from the start; given, they are enforced on all listeners. Principals that need none
            are in the option `super.users`.
        data: a folder for records, offsets and all else that has to survive; None: all is in memory. It is flushed when
            it is closed, and else as the options `log.flush.interval.messages` and `log.flush.interval.ms` say: never
            by default, as with Kafka. With 1 message, what was acknowledged survives a crash of the machine.

    Raises:
        ValueError: a listener asks for what this broker does not have, there is none, or a port does not exist.
        OSError: from `start`: a port is taken, or the folder is in use, of another version, or not this broker's.

    Example:
        >>> from kafwire.testing import EmbeddedKafka
        >>> with EmbeddedKafka() as kafka, kafwire.Producer(kafka.bootstrap) as producer:
        ...     producer.send("flights", b"EWR-IAH").result(10).offset
        0
    """

    __reduce_ex__ = refuse_copies("their brokers run in this process; hand over `bootstrap`, which clients connect to")

    def __init__(
        self,
        nodes: int = 1,
        *,
        host: str = "127.0.0.1",
        port: int | Mapping[str, int] = 0,
        advertised: str | None = None,
        configs: Mapping[str, object] | None = None,
        security: Security | str | Sequence[Security | str] | None = None,
        plain: bool | None = None,
        acls: Iterable[Acl] | None = None,
        data: Path | str | None = None,
    ) -> None:
        texts = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in (configs or {}).items()
        }
        self._is_plain = not security if plain is None else plain
        if not self._is_plain and not security:
            raise ValueError("plain=False leaves no listener: give EmbeddedKafka(security=...)")
        advertised, first_port = (advertised_host(host), None) if advertised is None else parse_advertised(advertised)
        names = [PLAINTEXT] if self._is_plain else []
        self._security: EmbeddedSecurity | None = None
        if security:
            from kafwire.testing.broker.security.embedded_security import EmbeddedSecurity

            self._security = EmbeddedSecurity(security, host, advertised)
            names += [each.name for each in self._security.listeners]
            if self._security.has_acls:
                texts.setdefault("super.users", self._security.superusers)
        has_acls = acls is not None or (self._security is not None and self._security.has_acls)
        self.state = ClusterState(range(1, nodes + 1), configs=texts, authorizer=has_acls)
        self.state.authorizer.add(acls or ())
        self._data = None if data is None else Path(data)
        self._storage: Storage | None = None
        self._server = SocketServer(self.state)
        self._host, self._advertised = host, advertised
        self._ports = ListenerPorts(names, nodes, port, first_port)
        self._is_started = False

    def start(self) -> Self:
        """Open the ports, and serve.

        Returns:
            Itself.
        """
        import time

        self.state.wall_offset_ms = time.time() * 1000.0 - self._server.now_ms
        if self._data is not None and self._storage is None:
            from kafwire.testing.broker.storage.storage import Storage

            self._storage = Storage(self.state, self._data)
        if self._security is not None:
            self._security.open()
            self._security.add_users(self.state)
        for index, node in enumerate(self.state.nodes.values()):
            self._listen(index, node)
        self.state.part(Retention).watch()
        self.state.part(Cleaner).watch()
        self._server.start()
        self._is_started = True
        return self

    def _listen(self, index: int, node: Node) -> None:
        ports = self._ports
        if self._is_plain:
            listener = Listener(node.number, PLAINTEXT, self._host, ports.opened(PLAINTEXT, index))
            opened = self._server.listen(listener)[1]
            node.addresses[PLAINTEXT] = self._advertised, ports.to_advertise(PLAINTEXT, index, opened)
        if self._security is None:
            return
        for listener in self._security.listeners_of(node.number, lambda name: ports.opened(name, index)):
            advertised = ports.to_advertise(listener.name, index, self._server.listen(listener)[1])
            node.addresses[listener.name] = self._security.advertise(listener, advertised)

    def close(self) -> None:
        """Close all ports and connections. What is in memory is gone, what is in a folder is on disk."""
        self._server.close()
        if self._storage is not None:
            self._storage.close()
        if self._security is not None:
            self._security.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the brokers end, by `close` in another thread or by an error inside of them.

        Args:
            timeout: in seconds; None: for ever.

        Returns:
            Whether they have ended.
        """
        return self._server.wait(timeout)

    def __enter__(self) -> Self:
        return self if self._is_started else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self._server.problems:
            raise self._server.problems[0]
        for problem in self._server.problems if error is not None else ():
            error.add_note(f"an error inside the broker, before this one: {problem!r}")  # type: ignore[union-attr]

    @property
    def bootstrap(self) -> str:
        """What clients connect to: `host:port` of each broker, separated by commas; of the first secured listener."""
        return self.direct if self._security is None else self.security.bootstrap_of()

    @property
    def direct(self) -> str:
        """`host:port` of the plain listener of each broker.

        Raises:
            ValueError: there is none.
        """
        if not self._is_plain:
            message = "security=... closed the plain listener: use `bootstrap` and `client_options`, or plain=True"
            raise ValueError(message)
        return ",".join(host_and_port(*node.address(PLAINTEXT)) for node in self.state.nodes.values())

    @property
    def security(self) -> ClusterSecurity:
        """What the secured listeners have for clients: certificates, users, options. See `KafkaCluster.security`.

        Raises:
            ValueError: no listener is secured.
        """
        if self._security is None:
            raise ValueError("no listener is secured: EmbeddedKafka(security=...)")
        return self._security.for_clients

    def bootstrap_of(self, listener: Security | str) -> str:
        """`host:port` of each broker, of a secured listener.

        Args:
            listener: by its name or by what it was made from.

        Returns:
            The addresses, separated by commas.
        """
        return self.security.bootstrap_of(listener)

    def client_options(
        self,
        user: str | None = None,
        mechanism: str | None = None,
        *,
        listener: Security | str | None = None,
        dialect: Dialect = "kafwire",
    ) -> dict[str, str]:
        """The options of a client of a secured listener, by their dotted names.

        Args:
            user: the name; None: the listener's first.
            mechanism: of SASL; None: the listener's first.
            listener: by its name or by what it was made from; None: the first.
            dialect: whose options: "kafwire", "librdkafka" or "java".

        Returns:
            Options for that client, as text.

        Raises:
            ValueError: there is no such user, mechanism or dialect, or no listener is secured.
        """
        return self.security.client_options(user, mechanism, listener=listener, dialect=dialect)
