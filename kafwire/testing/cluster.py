"""A real Apache Kafka cluster on this machine: one to three combined broker and controller nodes, in KRaft mode.

    with KafkaCluster(nodes=3, properties={"min.insync.replicas": 2}) as cluster:
        producer = kafwire.Producer(cluster.bootstrap)
        cluster.node(2).kill()

With `proxies=True` a `FaultProxy` stands before each node, and clients of `cluster.bootstrap` meet the faults it is
told to play; the nodes themselves, and clients of `cluster.direct`, go past it.

`python -m kafwire.testing.cluster start` runs one until Ctrl-C and prints its bootstrap servers in the first line.

Data lives in a temporary folder that is removed at the end. No node outlives the process that made it, however that
process ends: a small guard process holds the other end of a pipe and kills what is left when the pipe breaks.
"""

import argparse
import base64
import fcntl
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from kafwire.testing.faults import FaultProxy, Rule
from kafwire.testing.faults.sources import source_of
from kafwire.testing.kafka import (
    DEFAULT_VERSION,
    LOG4J2_CONFIGURATION,
    SetupError,
    cache_folder,
    class_path,
    java,
    kept,
)

_HOST = "127.0.0.1"
_STARTS = 3
_CONTROLLER = 100  # what stands before a node's controller is known by the node's id and this
_POLL_SECONDS = 0.03
_TAIL_LINES = 60
# Below the range that Linux and macOS take ports of outgoing connections from, so that a node finds its port free
# again when it is restarted.
_PORTS = range(15000, 32000)
_PORT_TAKEN = ("Address already in use", "java.net.BindException")

_GUARD = """
import os, shutil, signal, sys
groups, folder = set(), None
for line in sys.stdin:
    word, value = line.split(maxsplit=1)
    if word == "started":
        groups.add(int(value))
    elif word == "ended":
        groups.discard(int(value))
    else:
        folder = value.rstrip("\\n")
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
if folder:
    shutil.rmtree(folder, ignore_errors=True)
"""


class ClusterError(RuntimeError):
    """A node did not start, or ended by itself; the message ends with the tail of its log."""


class _Process:
    """A node's process that another process has started (Linux)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """None while it runs; nobody but its parent learns how it ended."""
        return -1 if select.select([self._handle], [], [], 0)[0] else None

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        signal.pidfd_send_signal(self._handle, number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired([], timeout or 0.0)
        return -1

    def __del__(self) -> None:
        os.close(self._handle)


def _state_of(pid: int) -> str:
    """The state of a process, as ps writes it; nothing if there is none."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
        return ""
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout


class Node:
    """One node of a cluster: a broker and controller that can be started, stopped, paused and killed.

    `KafkaCluster` makes it.

    Example:
        >>> node = cluster.node(1)
        >>> node.address == cluster.direct, node.pid is not None
        (True, True)
    """

    def __init__(
        self, cluster: "KafkaCluster", node_id: int, folder: Path, port: int, properties: Mapping[str, str]
    ) -> None:
        self.id = node_id
        self.port = port
        self.properties = dict(properties)
        self.log_file = folder / "node.log"
        self.data = folder / "data"
        self._cluster = cluster
        self._folder = folder
        self._configuration = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | _Process | None = None

    @property
    def address(self) -> str:
        """`host:port` of the node's own listener, behind no proxy."""
        return f"{_HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while the node runs or is paused; None otherwise."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Start the node on its port, with the data it has.

        Args:
            wait: wait until it serves requests.
            timeout: seconds to wait.

        Raises:
            ClusterError: the node ended, or was not ready in time; the text has the end of its log.
        """
        if self.pid is not None:
            return
        self._process = self._cluster._launch("kafka.Kafka", str(self._configuration), log_file=self.log_file)
        self._cluster._tell_proxy(self.id, up=True)
        if wait:
            self.wait_ready(timeout)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until the node answers requests and the cluster knows it as alive.

        Args:
            timeout: seconds to wait.

        Raises:
            ClusterError: the node ended, or was not ready in time; the text has the end of its log.
        """
        deadline = time.monotonic() + timeout
        while self.id not in _alive_brokers(self.port):
            if self.pid is None:
                raise ClusterError(self._explain("ended by itself"))
            if time.monotonic() > deadline:
                raise ClusterError(self._explain(f"did not serve requests within {timeout:g} s"))
            time.sleep(_POLL_SECONDS)

    def stop(self, timeout: float = 60.0) -> None:
        """Stop the node in order (SIGTERM).

        Args:
            timeout: seconds after which it is killed.
        """
        if self._process is None:
            return
        self.resume()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
        self._ended()

    def kill(self) -> None:
        """Kill the node at once (SIGKILL), like a crash."""
        self._signal(signal.SIGKILL)
        self._ended()

    def pause(self) -> None:
        """Freeze the node (SIGSTOP). Its sockets stay open, and nothing is answered once this has returned.

        Example:
            >>> cluster.node(1).pause()
            >>> cluster.node(1).resume()
        """
        self._signal(signal.SIGSTOP)
        if self.pid is None:
            return
        try:  # its threads stop one after the other
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # another process has started it: only the system's list of processes tells
            while _state_of(self.pid)[:1] not in {"T", "Z", ""}:
                time.sleep(0.01)

    def resume(self) -> None:
        """Let a paused node go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def log(self) -> str:
        """Return all that the node has logged, over all its starts.

        Returns:
            The text.
        """
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        """Return the last lines of the log.

        Args:
            lines: how many.

        Returns:
            The text.
        """
        return "\n".join(self.log().splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _ended(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._cluster._tell_proxy(self.id, up=False)
            self._cluster._tell_guard(f"ended {self._process.pid}")
            self._process = None

    def _explain(self, what: str) -> str:
        return f"Kafka {self._cluster.version} node {self.id} {what}; its log ends:\n{self.log_tail()}"


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
        self.version = version
        self.nodes: list[Node] = []
        self._count = nodes
        self._properties = {key: _property(value) for key, value in (properties or {}).items()}
        self._node_properties = {
            node: {key: _property(value) for key, value in own.items()} for node, own in (node_properties or {}).items()
        }
        self._heap = heap
        self._jvm_options = list(jvm_options)
        self._format_options = list(format_options)
        self._start_timeout = start_timeout
        self._quick = quick
        self._rules = None if proxies is False else () if proxies is True else tuple(proxies)
        self._fault_seed = fault_seed
        self._proxy: FaultProxy | None = None
        self._partitions = partitions
        self._between: FaultProxy | None = None
        self._inner_ports: list[dict[int, int]] = []  # between brokers, before it, and before controllers; by node
        self._proxy_ports: list[dict[int, int]] = []  # before and behind the proxies, by node
        self._folder: Path | None = None
        self._guard: subprocess.Popen[str] | None = None
        self._owner = os.getpid()

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
        self._class_path = class_path(version)
        self.version = version

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
        self._class_path = class_path(self.version)
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
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def stop(self) -> None:
        """Stop all nodes in order (SIGTERM), then do what `close` does."""
        for node in self.nodes:
            node._signal(signal.SIGCONT)
            node._signal(signal.SIGTERM)
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
        nodes = [(node.port, node.pid, str(node._folder), node.properties) for node in self.nodes]
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
            node = Node(cluster, number, Path(folder), port, properties)
            node._process = _Process(pid)
            cluster.nodes.append(node)
        return cluster

    def logs(self, lines: int = _TAIL_LINES) -> str:
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
            for file in (node.log_file, node._configuration):
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
        (self._folder / "log4j2.xml").write_text(LOG4J2_CONFIGURATION)
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        self._tell_guard(f"folder {self._folder}")
        outer, inner = 0 if self._rules is None else 2, 3 if self._partitions else 0
        kinds = 2 + outer + inner
        with _free_ports(kinds * self._count) as ports:
            listeners, controllers, *rest = (dict(enumerate(ports[kind::kinds], 1)) for kind in range(kinds))
        self._proxy_ports = proxies = rest[:outer]
        self._inner_ports = rest[outer:]
        self.nodes = [self._make_node(node_id, listeners[node_id], controllers) for node_id in listeners]
        if self._rules is not None:
            fronts, behind = proxies
            targets = {broker: f"{_HOST}:{port}" for broker, port in behind.items()}
            seed = self._fault_seed if self._proxy is None else self._proxy.seed
            self._proxy = FaultProxy(targets, self._rules, seed=seed, ports=fronts)
            try:
                self._proxy.start()
            except OSError as error:
                raise ClusterError(f"the proxies cannot listen: {error}") from error
        if self._partitions:
            self._stand_between(controllers)
        self._format()
        for node in self.nodes:
            node.start(wait=False)
        deadline = time.monotonic() + self._start_timeout
        everybody = set(listeners)
        for node in self.nodes:
            node.wait_ready(deadline - time.monotonic())
            while _alive_brokers(node.port) != everybody:
                if time.monotonic() > deadline:
                    raise ClusterError(node._explain(f"did not see all nodes within {self._start_timeout:g} s"))
                time.sleep(_POLL_SECONDS)

    def _stand_between(self, controllers: Mapping[int, int]) -> None:
        brokers, *fronts = self._inner_ports
        targets = {node: f"{_HOST}:{port}" for node, port in brokers.items()}
        targets |= {_CONTROLLER + node: f"{_HOST}:{port}" for node, port in controllers.items()}
        ports = fronts[0] | {_CONTROLLER + node: port for node, port in fronts[1].items()}

        def who(port: int) -> int | None:
            return source_of(port, {node.id: node.pid for node in self.nodes if node.pid is not None})

        self._between = FaultProxy(targets, ports=ports, frames=False, source_of=who)
        try:
            self._between.start()
        except OSError as error:
            raise ClusterError(f"the proxies between nodes cannot listen: {error}") from error

    def _make_node(self, node_id: int, port: int, controllers: Mapping[int, int]) -> Node:
        assert self._folder is not None
        folder = self._folder / f"node-{node_id}"
        folder.mkdir()
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(f"{voter}@{_HOST}:{at}" for voter, at in controllers.items()),
            "listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controllers[node_id]}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            # After a SIGKILL a node may register again only when its last session has expired: 9 s by default.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.ms": "-1",
            "log.retention.bytes": "-1",
            "num.partitions": "1",
            "default.replication.factor": str(self._count),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": str(self._count),
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": str(self._count),
            "transaction.state.log.min.isr": str(min(self._count, 2)),
        }
        if self._proxy_ports:
            # A listener of its own: what it advertises is for its clients only, and the nodes find each other without.
            front, behind = (ports[node_id] for ports in self._proxy_ports)
            properties["listeners"] += f",PROXIED://{_HOST}:{behind}"
            properties["advertised.listeners"] += f",PROXIED://{_HOST}:{front}"
            properties["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        if self._inner_ports:
            # Nodes find each other, and controllers, by what stands between them; clients do not use these listeners.
            brokers, brokers_front, controllers_front = self._inner_ports
            voters = ",".join(f"{voter}@{_HOST}:{at}" for voter, at in controllers_front.items())
            properties["controller.quorum.voters"] = voters
            properties["listeners"] += f",INNER://{_HOST}:{brokers[node_id]}"
            properties["advertised.listeners"] += f",INNER://{_HOST}:{brokers_front[node_id]}"
            properties["advertised.listeners"] += f",CONTROLLER://{_HOST}:{controllers_front[node_id]}"
            properties["listener.security.protocol.map"] += ",INNER:PLAINTEXT"
            properties["inter.broker.listener.name"] = "INNER"
        properties |= self._properties | self._node_properties.get(node_id, {})
        node = Node(self, node_id, folder, port, properties)
        node.properties.setdefault("log.dirs", str(node.data))
        text = "".join(f"{key}={value}\n" for key, value in node.properties.items())
        node._configuration.write_text(text)
        return node

    def _format(self) -> None:
        """Give each node what Kafka's storage tool would: what it made once, with names of their own."""
        first = self.nodes[0]
        template = kept(self.version, "formatted", *self._format_options)
        if not template.exists():
            self._run_storage_tool()
            with tempfile.TemporaryDirectory(dir=template.parent, prefix="formatting-") as scratch:
                made = shutil.copytree(first.data, Path(scratch) / "data")
                with suppress(OSError):  # another process was first
                    made.rename(template)
            shutil.rmtree(first.data)
        cluster_id = _kafka_uuid()
        for node in self.nodes:
            shutil.copytree(template, node.data)
            properties = node.data / "meta.properties"
            lines = [line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line]
            own = {"cluster.id": cluster_id, "node.id": str(node.id), "directory.id": _kafka_uuid()}
            properties.write_text("".join(f"{key}={value}\n" for key, value in (dict(lines) | own).items()))

    def _run_storage_tool(self) -> None:
        first = self.nodes[0]
        process = self._launch(
            "kafka.tools.StorageTool",
            "format",
            *("-t", _kafka_uuid()),
            *self._format_options,
            *("-c", str(first._configuration)),
            log_file=first.log_file,
            options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        )
        process.wait(self._start_timeout)
        self._tell_guard(f"ended {process.pid}")
        if process.returncode:
            raise ClusterError(first._explain("could not be formatted"))

    def _launch(
        self, main: str, *arguments: str, log_file: Path, options: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        assert self._folder is not None
        jvm_options = options or [
            f"-Xmx{self._heap}",
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            "-XX:InitiatingHeapOccupancyPercent=35",
            *(["-XX:TieredStopAtLevel=1"] if self._quick else []),
            *(
                ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]
                if (archive := _archive(self.version)).exists()
                else []
            ),
            *self._jvm_options,
        ]
        command = [
            java(),
            *jvm_options,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.xml'}",
            *("-cp", self._class_path),
            main,
            *arguments,
        ]
        with log_file.open("ab") as log:
            # A session of its own: Ctrl-C reaches this process only, which then stops the node in order.
            process = subprocess.Popen(
                command,
                cwd=log_file.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tell_guard(f"started {process.pid}")
        return process

    def _tell_proxy(self, node_id: int, *, up: bool) -> None:
        """Have a port that nobody is behind refuse connections, as the node's own would."""
        if self._proxy is not None and self._proxy.running:
            (self._proxy.serve if up else self._proxy.shut)(node_id)

    def _tell_guard(self, line: str) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(f"{line}\n")
            self._guard.stdin.flush()


def _archive(version: str) -> Path:
    """Where the archive of the classes that a node loads is (JEP 350), if `prepare` has made it."""
    return kept(version, "classes")


def prepare(version: str = DEFAULT_VERSION) -> None:
    """Make once per user what lets nodes of this version start in a third of the time: about 15 s."""
    archive = _archive(version)
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


def _property(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kafka_uuid() -> str:
    """A random id as Kafka writes it: 16 bytes in URL-safe base64, not starting with a dash (it is an argument)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


@contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nobody listens on; held until the block ends, so that they differ."""
    chooser = random.SystemRandom()
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            port = chooser.choice(_PORTS)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            ports.append(port)
        yield ports


def _alive_brokers(port: int) -> set[int]:
    """The ids of the brokers that the node at `port` knows as alive; empty while it does not answer.

    A real Metadata request (version 4, no topics). A node answers ApiVersions before it takes part in the cluster, and
    creating a topic then fails; a broker is in this list once it is unfenced.
    """
    request = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i?", 0, False)
    try:
        with socket.create_connection((_HOST, port), timeout=2) as connection:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m kafwire.testing.cluster start`: run a cluster until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m kafwire.testing.cluster", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="run a cluster; its bootstrap servers are the first line printed")
    start.add_argument("--nodes", type=int, default=1, choices=(1, 2, 3))
    start.add_argument("--version", default=DEFAULT_VERSION, help=f"Kafka's version (default: {DEFAULT_VERSION})")
    start.add_argument("--property", action="append", default=[], metavar="KEY=VALUE", help="a broker property")
    start.add_argument("--heap", default="512m", help="Java's -Xmx per node (default: 512m)")
    fetch = commands.add_parser("fetch", help="fetch the jars of a version, without starting anything")
    fetch.add_argument("versions", nargs="*", default=[DEFAULT_VERSION], metavar="VERSION")
    ready = commands.add_parser("prepare", help="make starts of a version quick, once per user (some seconds)")
    ready.add_argument("versions", nargs="*", default=[DEFAULT_VERSION], metavar="VERSION")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "prepare":
            for version in chosen.versions:
                prepare(version)
            return 0
        if chosen.command == "fetch":
            for version in chosen.versions:
                print(class_path(version))
            return 0
        if wrong := [item for item in chosen.property if "=" not in item]:
            parser.error(f"--property takes KEY=VALUE, not {wrong[0]!r}")
        properties = dict(item.split("=", 1) for item in chosen.property)
        return _run(KafkaCluster(chosen.nodes, chosen.version, properties, heap=chosen.heap, quick=False))
    except (SetupError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(cluster: KafkaCluster) -> int:
    asked_to_end = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        asked_to_end.set()

    try:
        with cluster:
            # Until here Ctrl-C interrupts the start, as usual; from here it asks for an orderly stop.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, end)
            print(cluster.bootstrap, flush=True)
            while not asked_to_end.wait(0.5):
                for node in cluster.nodes:
                    if node.pid is None:
                        raise ClusterError(node._explain("ended by itself"))
            cluster.stop()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
