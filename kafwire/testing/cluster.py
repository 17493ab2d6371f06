"""A real Apache Kafka cluster on this machine: one to three combined broker and controller nodes, in KRaft mode.

    with KafkaCluster(nodes=3, properties={"min.insync.replicas": 2}) as cluster:
        producer = kafwire.Producer(cluster.bootstrap)
        cluster.node(2).kill()

With `proxies=True` a `FaultProxy` stands before each node, and clients of `cluster.bootstrap` meet the faults it is
told to play; the nodes themselves, and clients of `cluster.direct`, go past it.

`python -m kafwire.testing.cluster start` runs one until Ctrl-C and prints its bootstrap servers in the first line.

Data lives in a temporary folder that is removed at the end. No node outlives the process that made it, however that
process ends (`guard.py`).
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafwire.testing.faults import FaultProxy, Rule
from kafwire.testing.faults.sources import source_of
from kafwire.testing.formatting import format_nodes
from kafwire.testing.kafka import DEFAULT_VERSION, SetupError, cache_folder
from kafwire.testing.launcher import Launcher, class_archive
from kafwire.testing.node import POLL_SECONDS, TAIL_LINES, ClusterError, Node
from kafwire.testing.node_properties import default_properties, property_texts
from kafwire.testing.ports import HOST, Ports, alive_brokers, choose_ports

__all__ = ["ClusterError", "KafkaCluster", "Node", "SetupError", "prepare"]

_STARTS = 3
_CONTROLLER = 100  # what stands before a node's controller is known by the node's id and this
_PORT_TAKEN = ("Address already in use", "java.net.BindException")


class KafkaCluster:
    """Apache Kafka on free ports of this machine. A context manager.

    Topics are not created by asking for them. Logs are kept forever, groups form without delay, and internal topics
    have one partition and as many replicas as there are nodes.

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

    Raises:
        ValueError: `nodes` is not 1 to 3.
        SetupError: when it starts: there is no Java, or no jars of Kafka.
        ClusterError: when it starts: a node did not start.

    Example:
        >>> from kafwire.testing import KafkaCluster
        >>> with KafkaCluster(properties={"auto.create.topics.enable": True}) as own:
        ...     with kafwire.Producer(own.bootstrap) as own_producer:
        ...         own_producer.send("flights", b"EWR-IAH").result(timeout=30).offset
        0
    """

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
    ) -> None:
        if not 1 <= nodes <= 3:
            message = f"a test cluster has 1 to 3 nodes, not {nodes}"
            raise ValueError(message)
        self.nodes: list[Node] = []
        self._count = nodes
        self._properties = property_texts(properties or {})
        self._node_properties = {node: property_texts(own) for node, own in (node_properties or {}).items()}
        self._launcher = Launcher(version, heap=heap, jvm_options=jvm_options, quick=quick)
        self._format_options = list(format_options)
        self._start_timeout = start_timeout
        self._rules = None if proxies is False else () if proxies is True else tuple(proxies)
        self._fault_seed = fault_seed
        self._proxy: FaultProxy | None = None
        self._partitions = partitions
        self._between: FaultProxy | None = None
        self._folder: Path | None = None
        self._owner = os.getpid()

    @property
    def version(self) -> str:
        """The release of Apache Kafka that nodes are started with."""
        return self._launcher.version

    @property
    def bootstrap(self) -> str:
        """`host:port[,host:port]` of all nodes, running or not; of the proxies before them if there are any."""
        return self._proxy.bootstrap if self._proxy is not None else self.direct

    @property
    def direct(self) -> str:
        """`host:port[,host:port]` of all nodes themselves. A client that begins there meets no faults."""
        return ",".join(node.address for node in self.nodes)

    @property
    def proxied(self) -> bool:
        """Whether proxies stand before the nodes."""
        return self._proxy is not None

    @property
    def proxy(self) -> FaultProxy:
        """The proxy before the nodes. Raises `ClusterError` without `proxies`, and before the start."""
        if self._proxy is None:
            message = "no proxy stands before these nodes: KafkaCluster(..., proxies=True) puts one there"
            raise ClusterError(message)
        return self._proxy

    def node(self, node_id: int) -> Node:
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
            others: the ids of the nodes that it is cut off from; none named: all.

        Raises:
            ClusterError: the cluster was made without `partitions`.
        """
        if self._between is None:
            message = "nothing stands between these nodes: KafkaCluster(..., partitions=True) does"
            raise ClusterError(message)
        for other in others or (node.id for node in self.nodes if node.id != one):
            for target, source in ((one, other), (other, one)):
                self._between.sever(target, source)
                self._between.sever(_CONTROLLER + target, source)

    def use_version(self, version: str) -> None:
        """Start nodes with another version from now on, on the data that they have.

        Args:
            version: a release of Apache Kafka.
        """
        self._launcher.use_version(version)

    def rejoin(self) -> None:
        """Undo all that `part` did."""
        if self._between is not None:
            self._between.heal()

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
        for proxy in (self._proxy, self._between):
            if proxy is not None:
                proxy.close()
        for node in self.nodes:
            node.kill()
        self._launcher.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def stop(self) -> None:
        """Stop all nodes in order (SIGTERM), then do what `close` does."""
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            node.signal(signal.SIGTERM)
        for node in self.nodes:
            node.stop()
        self.close()

    def describe(self) -> str:
        """Return what another process needs for `attach`.

        Returns:
            JSON.

        Example:
            >>> from kafwire.testing import KafkaCluster
            >>> KafkaCluster.attach(cluster.describe()).direct == cluster.direct
            True
        """
        nodes = [(node.port, node.pid, str(node.folder), node.properties) for node in self.nodes]
        return json.dumps({"version": self.version, "nodes": nodes})

    @classmethod
    def attach(cls, description: str) -> "KafkaCluster":
        """Return the running cluster of another process: to talk to, to read, to signal.

        Proxies stay with the other process, and so does starting nodes. Closing this cluster ends nothing.

        Args:
            description: what `describe` returned there.

        Returns:
            The cluster.
        """
        told = json.loads(description)
        cluster = cls(len(told["nodes"]), told["version"])
        cluster._owner = 0
        for number, (port, pid, folder, properties) in enumerate(told["nodes"], 1):
            launcher, on_change = cluster._launcher, cluster._tell_proxy
            cluster.nodes.append(Node(number, Path(folder), port, properties, launcher, on_change, pid=pid))
        return cluster

    def logs(self, lines: int = TAIL_LINES) -> str:
        """Return the ends of all nodes' logs, each under a heading.

        Args:
            lines: how many lines of each.

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
            if self._proxy is not None:
                error.add_note(f"Faults were played from seed {self._proxy.seed}")
        self.close()

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kafwire-kafka-"))
        self._launcher.open(self._folder)
        ports = choose_ports(self._count, proxies=self._rules is not None, partitions=self._partitions)
        self.nodes = [self._make_node(node_id, ports) for node_id in ports.listeners]
        if self._rules is not None:
            self._stand_before(ports)
        if self._partitions:
            self._stand_between(ports)
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

    def _make_node(self, node_id: int, ports: Ports) -> Node:
        assert self._folder is not None
        folder = self._folder / f"node-{node_id}"
        folder.mkdir()
        properties = default_properties(node_id, self._count, ports)
        properties |= self._properties | self._node_properties.get(node_id, {})
        node = Node(node_id, folder, ports.listeners[node_id], properties, self._launcher, self._tell_proxy)
        node.properties.setdefault("log.dirs", str(node.data))
        node.write_configuration()
        return node

    def _stand_before(self, ports: Ports) -> None:
        assert self._rules is not None
        targets = {broker: f"{HOST}:{port}" for broker, port in ports.proxied.items()}
        seed = self._fault_seed if self._proxy is None else self._proxy.seed
        self._proxy = FaultProxy(targets, self._rules, seed=seed, ports=ports.proxies)
        try:
            self._proxy.start()
        except OSError as error:
            raise ClusterError(f"the proxies cannot listen: {error}") from error

    def _stand_between(self, ports: Ports) -> None:
        targets = {node: f"{HOST}:{port}" for node, port in ports.brokers.items()}
        targets |= {_CONTROLLER + node: f"{HOST}:{port}" for node, port in ports.controllers.items()}
        fronts = {_CONTROLLER + node: port for node, port in ports.controller_fronts.items()}

        def who(port: int) -> int | None:
            return source_of(port, {node.id: node.pid for node in self.nodes if node.pid is not None})

        self._between = FaultProxy(targets, ports={**ports.broker_fronts, **fronts}, frames=False, source_of=who)
        try:
            self._between.start()
        except OSError as error:
            raise ClusterError(f"the proxies between nodes cannot listen: {error}") from error

    def _tell_proxy(self, node_id: int, is_up: bool) -> None:
        """Have a port that nobody is behind refuse connections, as the node's own would."""
        if self._proxy is not None and self._proxy.running:
            (self._proxy.serve if is_up else self._proxy.shut)(node_id)


def prepare(version: str = DEFAULT_VERSION) -> None:
    """Make once per user what lets nodes of this version start in a third of the time: about 15 s."""
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


if __name__ == "__main__":
    from kafwire.testing.cluster_command import main

    sys.exit(main())
