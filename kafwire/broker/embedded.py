"""`EmbeddedKafka`: brokers on ports of this machine, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafwire.broker.controls import Controls
from kafwire.broker.listener_ports import ListenerPorts, advertised_host, parse_advertised
from kafwire.broker.log.cleaner import Cleaner
from kafwire.broker.log.retention import Retention
from kafwire.broker.ports import host_and_port
from kafwire.broker.socket_server import Listener, SocketServer
from kafwire.broker.state import BrokerNode, ClusterState
from kafwire.handles import refuse_copies

if TYPE_CHECKING:
    from kafwire.broker.profiles import ServerProfile
    from kafwire.broker.security.acls import Acl
    from kafwire.broker.security.client_options import Dialect
    from kafwire.broker.security.cluster_security import ClusterSecurity
    from kafwire.broker.security.embedded_security import EmbeddedSecurity
    from kafwire.broker.security.security import Security
    from kafwire.broker.storage.storage import Storage

PLAINTEXT = "PLAINTEXT"  # the plain listener's name


class EmbeddedKafka(Controls):
    """A Kafka cluster in this process, for development and tests: the real protocol, on real ports.

    It serves any client. It stores records in memory, or in a folder. It does not replicate: followers are a model.

    Args:
        nodes: the number of brokers.
        host: the address that they listen on, and advertise; `0.0.0.0` and `::` advertise localhost.
        port: the port of the first broker's first listener, which is the plain one if it is open. The other brokers
            have the next ports, and the other listeners those after them. A mapping has a port for each listener's name
            (`{"PLAINTEXT": 9092, "SASL_SSL": 9094}`). 0: free ports.
        advertised: `host[:port]` that brokers advertise instead, as behind a container's port mapping. With a port, the
            other listeners advertise the next ports in the same order. Certificates are for it too.
        configs: broker options by Kafka's names, such as `{"num.partitions": 3}`.
        security: secured listeners: one or several `Security`, or names of protocols. The mechanisms are PLAIN and
            SCRAM. With `Security(acls=True)` ACLs are enforced.
        plain: open the plain listener, without TLS and login, besides the secured ones. By default it is open only
            without `security`.
        acls: the first ACLs; if given, all listeners enforce ACLs. The option `super.users` names principals that need
            none. The option `authorizer.class.name` enforces ACLs too, as in Kafka.
        data: a folder for records, offsets and all other state that must survive; None: memory only. The broker flushes
            it at the close, and by the options `log.flush.interval.messages` and `log.flush.interval.ms`: never by
            default, as in Kafka. With 1 message, acknowledged records survive a crash of the machine.
        server: a server that the brokers are like in its known differences from Kafka: "redpanda", "event-hubs",
            "warpstream" or "automq". The profiles are made from public documents, and unverified.

    Raises:
        ValueError: there is no such server, a listener needs a feature that this broker lacks, there is no listener, or
            a port is invalid.
        OSError: from `start`: a port is taken, or the folder is in use, has another version, or belongs to another
            broker.

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
        server: str | ServerProfile | None = None,
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
            from kafwire.broker.security.embedded_security import EmbeddedSecurity

            self._security = EmbeddedSecurity(security, host, advertised)
            names += [each.name for each in self._security.listeners]
            texts = self._security.options | texts
        has_acls = acls is not None or (self._security is not None and self._security.has_acls)
        profile = None
        if server is not None:
            from kafwire.broker.profiles import profile_of

            profile = profile_of(server)
        self.state = ClusterState(range(1, nodes + 1), configs=texts, authorizer=has_acls, profile=profile)
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
            from kafwire.broker.storage.storage import Storage

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

    def _listen(self, index: int, node: BrokerNode) -> None:
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
        """Close all ports and connections. Data in memory is gone; data in a folder is on disk."""
        self._server.close()
        if self._storage is not None:
            self._storage.close()
        if self._security is not None:
            self._security.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the brokers end, by `close` in another thread or by an error inside them.

        Args:
            timeout: in seconds; None: for ever.

        Returns:
            True if they have ended.
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
        """The bootstrap servers: `host:port` of each broker, of the first secured listener, else of the plain one."""
        return self.direct if self._security is None else self.security.bootstrap_of()

    @property
    def direct(self) -> str:
        """`host:port` of the plain listener of each broker.

        Raises:
            ValueError: there is no plain listener.
        """
        if not self._is_plain:
            message = "security=... closed the plain listener: use `bootstrap` and `client_options`, or plain=True"
            raise ValueError(message)
        return ",".join(host_and_port(*node.address(PLAINTEXT)) for node in self.state.nodes.values())

    @property
    def security(self) -> ClusterSecurity:
        """The security of the secured listeners for clients: certificates, users, options. See `KafkaCluster.security`.

        Raises:
            ValueError: no listener is secured.
        """
        if self._security is None:
            raise ValueError("no listener is secured: EmbeddedKafka(security=...)")
        return self._security.for_clients

    def bootstrap_of(self, listener: Security | str) -> str:
        """Return `host:port` of each broker for a secured listener.

        Args:
            listener: its name, or its `Security`.

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
        """Return the options of a client of a secured listener, by their dotted names.

        Args:
            user: the user's name; None: the listener's first.
            mechanism: the SASL mechanism; None: the listener's first.
            listener: its name, or its `Security`; None: the first.
            dialect: the client: "kafwire", "librdkafka" or "java".

        Returns:
            Options for that client, as text.

        Raises:
            ValueError: there is no such user, mechanism or dialect, or no listener is secured.
        """
        return self.security.client_options(user, mechanism, listener=listener, dialect=dialect)
