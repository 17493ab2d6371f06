"""A real Apache Kafka cluster on this machine: one to three combined broker and controller nodes, in KRaft mode.

    with KafkaCluster(nodes=3, properties={"min.insync.replicas": 2}) as cluster:
        producer = kafwire.Producer(cluster.bootstrap)
        cluster.node(2).kill()

With `proxies=True` a `FaultProxy` stands before each node, and clients of `cluster.bootstrap` meet its faults. The
nodes themselves, and clients of `cluster.direct`, bypass it.

With `security=` the nodes have secured listeners besides the plain one, and `cluster.bootstrap` is the first of them:

    with KafkaCluster(security=Security("SASL_SSL")) as cluster:
        kafwire.Producer.from_config(cluster.client_options("alice", "SCRAM-SHA-512"))

`python -m kafwire.testing.cluster start` runs one until Ctrl-C and prints its bootstrap servers in the first line.

Data lives in a temporary folder that is removed at the end. No node outlives the process that started it, however that
process ends (`guard.py`).
"""

import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafwire.broker.ports import Ports, alive_brokers, choose_ports
from kafwire.broker.security.client_options import Dialect
from kafwire.broker.security.cluster_security import ClusterSecurity
from kafwire.broker.security.security import Security, as_listeners
from kafwire.handles import refuse_copies
from kafwire.testing.cluster.formatting import format_nodes
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, cache_folder
from kafwire.testing.cluster.launcher import Launcher, class_archive
from kafwire.testing.cluster.node import POLL_SECONDS, TAIL_LINES, ClusterError, KafkaNode
from kafwire.testing.cluster.node_properties import append_listeners, default_properties, property_texts
from kafwire.testing.cluster.proxies import ClusterProxies
from kafwire.testing.cluster.scram_users import create_users
from kafwire.testing.faults import FaultProxy, Rule

__all__ = ["KafkaCluster", "prepare"]

_STARTS = 3
_PORT_TAKEN = ("Address already in use", "java.net.BindException")


class KafkaCluster:
    """Apache Kafka on free ports of this machine. A context manager.

    A request for a missing topic does not create it. Logs are kept forever, groups form without delay, and internal
    topics have one partition and as many replicas as there are nodes.

    Args:
        nodes: 1 to 3.
        version: a release of Apache Kafka from 3.9.1 on.
        properties: broker properties, which override this class's own.
        node_properties: broker properties of single nodes, by id.
        heap: Java's `-Xmx`.
        jvm_options: further options of the JVM.
        format_options: options of Kafka's storage tool, for example `("--feature", "transaction.version=0")`.
        start_timeout: seconds to wait for a node.
        quick: have Java compile quickly: a node starts with half the CPU time, and is slower than others after half a
            minute under load.
        proxies: put a `FaultProxy` before the nodes: True, or its rules.
        fault_seed: the seed of that proxy; None draws one.
        partitions: put a proxy between the nodes too, so that `part` can cut nodes off from each other while clients
            still reach them. Linux only.
        security: the secured listeners of the nodes, one or several `Security`; a text is a protocol, "SASL_SSL". The
            plain listener stays, for the nodes and `direct`. Proxies then stand before the secured listeners: a proxy
            cannot decode TLS, so rules for APIs match nothing there; rules for `CONNECT`, and `play`, work.

    Raises:
        ValueError: `nodes` is not 1 to 3.
        SetupError: at the start: there is no Java, or no jars of Kafka.
        ClusterError: at the start: a node did not start.

    Example:
        >>> from kafwire.testing import KafkaCluster
        >>> with KafkaCluster(properties={"auto.create.topics.enable": True}) as own:
        ...     with kafwire.Producer(own.bootstrap) as own_producer:
        ...         own_producer.send("flights", b"EWR-IAH").result(timeout=30).offset
        0
    """

    __reduce_ex__ = refuse_copies("they end the brokers' processes; hand over `bootstrap`, which clients connect to")

    def __init__(
        self,
        nodes: int = 1,
        version: str = DEFAULT_VERSION,
        properties: Mapping[str, object] | None = None,
        *,
        node_properties: Mapping[int, Mapping[str, object]] | None = None,
        heap: str = "512m",
        jvm_options: Sequence[str] = (),
        format_options: Sequence[str] = (),
        start_timeout: float = 60.0,
        quick: bool = True,
        proxies: bool | Sequence[Rule] = False,
        fault_seed: int | None = None,
        partitions: bool = False,
        security: Security | str | Sequence[Security | str] | None = None,
    ) -> None:
        if not 1 <= nodes <= 3:
            message = f"a test cluster has 1 to 3 nodes, not {nodes}"
            raise ValueError(message)
        self.nodes: list[KafkaNode] = []
        self._count = nodes
        self._properties = property_texts(properties or {})
        self._node_properties = {node: property_texts(own) for node, own in (node_properties or {}).items()}
        self._launcher = Launcher(version, heap=heap, jvm_options=jvm_options, quick=quick)
        self._format_options = list(format_options)
        self._start_timeout = start_timeout
        self._proxied = proxies is not False
        self._proxies = ClusterProxies(() if isinstance(proxies, bool) else tuple(proxies), fault_seed)
        self._listeners = as_listeners(security)
        self._security: ClusterSecurity | None = None
        self._partitions = partitions
        self._folder: Path | None = None
        self._owner = os.getpid()

    @property
    def version(self) -> str:
        """The release of Apache Kafka that starts run."""
        return self._launcher.version

    @property
    def bootstrap(self) -> str:
        """`host:port[,host:port]` of all nodes, running or not, for clients.

        It names the first secured listener if there is one, and the proxies before it if there are any.
        """
        if self._security is not None:
            return self._security.bootstrap_of()
        return self.proxy.bootstrap if self.proxied else self.direct

    def bootstrap_of(self, listener: Security | str) -> str:
        """Return `host:port[,host:port]` of one of several secured listeners.

        Args:
            listener: its name, or its `Security`.

        Returns:
            The addresses; of the proxies before it if there are any.

        Raises:
            KeyError: there is no such listener.
            ClusterError: there is no secured listener.
        """
        return self.security.bootstrap_of(listener)

    @property
    def security(self) -> ClusterSecurity:
        """Certificates, users and tokens. Raises `ClusterError` without `security`, and before the start."""
        if self._security is None:
            message = "these nodes have no secured listener: KafkaCluster(..., security='SASL_SSL') gives them one"
            raise ClusterError(message)
        return self._security

    def client_options(
        self,
        user: str | None = None,
        mechanism: str | None = None,
        *,
        listener: Security | str | None = None,
        dialect: Dialect = "kafwire",
    ) -> dict[str, str]:
        """Return the options of a client of this cluster, with its bootstrap servers.

        With OAUTHBEARER kafwire and librdkafka get a token from a function, which may return
        `cluster.security.token(user)`; Java reads it from a file, and needs that file's address in the system property
        `org.apache.kafka.sasl.oauthbearer.allowed.urls`.

        Args:
            user: the client's user; None is the listener's first user.
            mechanism: the SASL mechanism; None is the listener's first.
            listener: its name, or its `Security`; None is the first.
            dialect: "kafwire", "librdkafka" or "java".

        Returns:
            Options by their dotted names.

        Raises:
            ValueError: there is no such user, mechanism or dialect.
            KeyError: there is no such listener.

        Example:
            >>> cluster.client_options(dialect="java") == {"bootstrap.servers": cluster.bootstrap}
            True
        """
        if self._security is None:
            return {"bootstrap.servers": self.bootstrap}
        return self._security.client_options(user, mechanism, listener=listener, dialect=dialect)

    @property
    def direct(self) -> str:
        """`host:port[,host:port]` of the plain listener of all nodes: no faults, no security."""
        return ",".join(node.address for node in self.nodes)

    @property
    def proxied(self) -> bool:
        """True if proxies stand before the nodes."""
        return bool(self._proxies.before)

    @property
    def proxy(self) -> FaultProxy:
        """The proxy before `bootstrap`. Raises `ClusterError` without `proxies`, and before the start."""
        return self._proxies.first

    def proxy_of(self, listener: Security | str) -> FaultProxy:
        """Return the proxy before one of several secured listeners.

        Args:
            listener: its name, or its `Security`.

        Returns:
            The proxy.

        Raises:
            KeyError: there is no such listener, or no proxy before it.
            ClusterError: there is no secured listener.
        """
        return self._proxies.before[self.security.listener(listener).name]

    def node(self, node_id: int) -> KafkaNode:
        """Return the node with an id.

        Args:
            node_id: the id; ids count from 1.

        Returns:
            The node.
        """
        return self.nodes[node_id - 1]

    def part(self, one: int, *others: int) -> None:
        """Cut a node off from others, in both directions, until `rejoin`.

        Args:
            one: the node's id.
            others: the ids of the nodes that it is cut off from; by default all.

        Raises:
            ClusterError: the cluster was made without `partitions`.
        """
        self._proxies.part(one, others or [node.id for node in self.nodes if node.id != one])

    def use_version(self, version: str) -> None:
        """Start nodes with another version from now on, on their present data.

        Args:
            version: a release of Apache Kafka.
        """
        self._launcher.use_version(version)

    def rejoin(self) -> None:
        """Undo all that `part` did."""
        self._proxies.rejoin()

    def start(self) -> None:
        """Format and start all nodes. Returns when each of them serves requests and knows all the others.

        Raises:
            SetupError: there is no Java, or no jars of Kafka.
            ClusterError: a node did not start; the text has the end of its log.
        """
        self._launcher.use_version(self.version)
        for attempt in range(1, _STARTS + 1):
            try:
                self._start()
            except ClusterError as error:
                self.close()
                if attempt == _STARTS or not any(sign in str(error) for sign in _PORT_TAKEN):
                    raise
            except BaseException:
                self.close()
                raise
            else:
                return

    def close(self) -> None:
        """Kill all nodes and remove their data. Does nothing in a forked child."""
        if os.getpid() != self._owner:
            return
        self._proxies.close()
        for node in self.nodes:
            node.kill()
        self._launcher.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def stop(self) -> None:
        """Stop all nodes cleanly (SIGTERM), then close the cluster as `close` does."""
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            node.signal(signal.SIGTERM)
        for node in self.nodes:
            node.stop()
        self.close()

    def describe(self) -> str:
        """Return a description of the cluster for `attach` in another process.

        Returns:
            JSON, without passwords: `attach` finds those in the cluster's folder, which only its owner may read.

        Example:
            >>> from kafwire.testing import KafkaCluster
            >>> KafkaCluster.attach(cluster.describe()).direct == cluster.direct
            True
        """
        nodes = [(node.port, node.pid, str(node.folder), node.properties) for node in self.nodes]
        security = None if self._security is None else str(self._security.folder)
        return json.dumps({"version": self.version, "nodes": nodes, "security": security})

    @classmethod
    def attach(cls, description: str) -> "KafkaCluster":
        """Return the running cluster of another process, for its clients, its logs and signals.

        Only the other process has the proxies and can start nodes. Closing this cluster ends nothing.

        Args:
            description: the result of `describe` there.

        Returns:
            The cluster.
        """
        described = json.loads(description)
        cluster = cls(len(described["nodes"]), described["version"])
        cluster._owner = 0
        if described["security"] is not None:
            cluster._security = ClusterSecurity.load(Path(described["security"]))
        for number, (port, pid, folder, properties) in enumerate(described["nodes"], 1):
            launcher, on_change = cluster._launcher, cluster._proxies.tell
            cluster.nodes.append(KafkaNode(number, Path(folder), port, properties, launcher, on_change, pid=pid))
        return cluster

    def logs(self, lines: int = TAIL_LINES) -> str:
        """Return the ends of all nodes' logs, each under a heading.

        Args:
            lines: the number of lines of each.

        Returns:
            The text.
        """
        return "\n".join(f"--- Kafka {self.version} node {node.id}\n{node.log_tail(lines)}" for node in self.nodes)

    def keep_logs(self) -> Path:
        """Copy logs and configurations to a new folder, which is not removed.

        Returns:
            The folder.
        """
        kept = Path(tempfile.mkdtemp(prefix="kafwire-logs-"))
        for node in self.nodes:
            for file in (node.log_file, node.configuration):
                if file.exists():
                    shutil.copy(file, kept / f"node-{node.id}-{file.name}")
        return kept

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and os.getpid() == self._owner and self.nodes:
            error.add_note(f"The Kafka nodes' logs are kept in {self.keep_logs()}")
            if self.proxied:
                error.add_note(f"Faults were played from seed {self.proxy.seed}")
        self.close()

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kafwire-kafka-"))
        names = [listener.name for listener in self._listeners]
        ports = choose_ports(self._count, proxies=self._proxied, partitions=self._partitions, secured=names)
        if names:
            folder = self._folder / "security"
            self._security = ClusterSecurity.make(folder, self._listeners, ports.secured_advertised, ports.secured)
        self._launcher.open(self._folder, self._security.jvm_options() if self._security is not None else ())
        self.nodes = [self._make_node(node_id, ports) for node_id in ports.listeners]
        if self._proxied:
            self._proxies.start_before(ports, self._listeners)
        if self._partitions:
            self._proxies.start_between(ports, self.nodes)
        format_nodes(self.nodes, self._launcher, self._format_options, self._start_timeout)
        for node in self.nodes:
            node.start(wait=False)
        deadline = time.monotonic() + self._start_timeout
        everybody = set(ports.listeners)
        for node in self.nodes:
            node.wait_ready(deadline - time.monotonic())
            while alive_brokers(node.port) != everybody:
                if time.monotonic() > deadline:
                    raise ClusterError(node.explain(f"did not see all nodes within {self._start_timeout:g} s"))
                time.sleep(POLL_SECONDS)
        if self._security is not None:
            create_users(self._security, self.nodes, self._start_timeout)

    def _make_node(self, node_id: int, ports: Ports) -> KafkaNode:
        assert self._folder is not None
        folder = self._folder / f"node-{node_id}"
        folder.mkdir()
        properties = default_properties(node_id, self._count, ports)
        secrets: dict[str, str] = {}
        if self._security is not None:
            append_listeners(properties, self._security.node_properties(node_id))
            secrets = self._security.secret_properties()
        properties |= self._properties | self._node_properties.get(node_id, {})
        launcher, port = self._launcher, ports.listeners[node_id]
        node = KafkaNode(node_id, folder, port, properties, launcher, self._proxies.tell, secrets=secrets)
        node.properties.setdefault("log.dirs", str(node.data))
        node.write_configuration()
        return node


def prepare(version: str = DEFAULT_VERSION) -> None:
    """Create the archive that starts nodes of this version in a third of the time: once per user, about 15 s."""
    archive = class_archive(version)
    if archive.exists():
        return
    with (cache_folder() / "prepare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="archiving-") as scratch:
            made = Path(scratch) / "classes"
            cluster = KafkaCluster(version=version, jvm_options=[f"-XX:ArchiveClassesAtExit={made}"])
            try:
                cluster.start()
                cluster.node(1).stop()
                if made.exists():
                    made.rename(archive)
            finally:
                cluster.close()
