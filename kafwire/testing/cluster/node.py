"""One node of a cluster: a process that is started, stopped, paused and killed."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kafwire.broker.ports import HOST, alive_brokers
from kafwire.broker.properties_file import properties_file
from kafwire.handles import refuse_copies
from kafwire.testing.cluster.launcher import Launcher

POLL_SECONDS = 0.03
TAIL_LINES = 60


class ClusterError(RuntimeError):
    """A node did not start, or ended by itself; the message ends with the tail of its log."""


class AttachedProcess:
    """A node's process that another process started (Linux)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return None while it runs, else -1; only its parent gets the exit code."""
        return -1 if select.select([self._handle], [], [], 0)[0] else None

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        signal.pidfd_send_signal(self._handle, number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended."""
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired([], timeout or 0.0)
        return -1

    def __del__(self) -> None:
        os.close(self._handle)


def _state_of(pid: int) -> str:
    """Return the state of a process as ps prints it; "" if there is none."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
        return ""
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout


class KafkaNode:
    """One node of a cluster: a broker and controller that can be started, stopped, paused and killed.

    `KafkaCluster` makes it.

    Example:
        >>> node = cluster.node(1)
        >>> node.address == cluster.direct, node.pid is not None
        (True, True)
    """

    __reduce_ex__ = refuse_copies("they end a broker's process; hand over `address`, which clients connect to")

    def __init__(
        self,
        node_id: int,
        folder: Path,
        port: int,
        properties: Mapping[str, str],
        launcher: Launcher,
        on_change: Callable[[int, bool], object],
        *,
        pid: int | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """Create a node; its process may run already.

        `on_change` is called with the node's id and True when it starts, False when it has ended. `pid` is a running
        process of the node that another process started. `secrets` are properties for the node's own file only.
        """
        self.id = node_id
        self.port = port
        self.properties = dict(properties)
        self._secrets = dict(secrets or {})
        self.folder = folder
        self.log_file = folder / "node.log"
        self.data = folder / "data"
        self.configuration = folder / "server.properties"
        self._launcher = launcher
        self._on_change = on_change
        self._process: subprocess.Popen[bytes] | AttachedProcess | None = None
        if pid is not None:
            self._process = AttachedProcess(pid)

    def write_configuration(self) -> None:
        """Write the configuration file for the next start from the present `properties`."""
        self.configuration.touch(mode=0o600)
        self.configuration.write_text(properties_file(self.properties | self._secrets))

    @property
    def address(self) -> str:
        """`host:port` of the node's own plain listener, without a proxy."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while the node runs or is paused; None otherwise."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Start the node on its port, with its present data.

        Args:
            wait: wait until it serves requests.
            timeout: seconds to wait.

        Raises:
            ClusterError: the node ended, or was not ready in time; the text has the end of its log.
        """
        if self.pid is not None:
            return
        self._process = self._launcher.launch("kafka.Kafka", str(self.configuration), log_file=self.log_file)
        self._on_change(self.id, True)
        if wait:
            self.wait_ready(timeout)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until the node serves requests and the cluster knows it as alive.

        Args:
            timeout: seconds to wait.

        Raises:
            ClusterError: the node ended, or was not ready in time; the text has the end of its log.
        """
        deadline = time.monotonic() + timeout
        while self.id not in alive_brokers(self.port):
            if self.pid is None:
                raise ClusterError(self.explain("ended by itself"))
            if time.monotonic() > deadline:
                raise ClusterError(self.explain(f"did not serve requests within {timeout:g} s"))
            time.sleep(POLL_SECONDS)

    def stop(self, timeout: float = 60.0) -> None:
        """Stop the node cleanly (SIGTERM).

        Args:
            timeout: seconds after which it is killed.
        """
        if self._process is None:
            return
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
        self.on_end()

    def kill(self) -> None:
        """Kill the node at once (SIGKILL), like a crash."""
        self.signal(signal.SIGKILL)
        self.on_end()

    def pause(self) -> None:
        """Freeze the node (SIGSTOP). Its sockets stay open, and it sends no response after this call.

        Example:
            >>> cluster.node(1).pause()
            >>> cluster.node(1).resume()
        """
        self.signal(signal.SIGSTOP)
        if self.pid is None:
            return
        try:  # its threads stop one after the other
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # another process started it, so only the system's list of processes has its state
            while _state_of(self.pid)[:1] not in {"T", "Z", ""}:
                time.sleep(0.01)

    def resume(self) -> None:
        """Let a paused node go on (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def log(self) -> str:
        """Return all that the node has logged, over all its starts.

        Returns:
            The text.
        """
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines of the log.

        Args:
            lines: the number of lines.

        Returns:
            The text.
        """
        return "\n".join(self.log().splitlines()[-lines:])

    def signal(self, number: int) -> None:
        """Send the node a signal, if it runs.

        Args:
            number: the signal's number.
        """
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def on_end(self) -> None:
        """Wait for the node's end, which has come or is near, and note it."""
        if self._process is not None:
            self._process.wait()
            self._on_change(self.id, False)
            self._launcher.ended(self._process.pid)
            self._process = None

    def explain(self, what: str) -> str:
        """Return a description of a problem, with the end of the node's log.

        Args:
            what: the problem.

        Returns:
            The text.
        """
        return f"Kafka {self._launcher.version} node {self.id} {what}; its log ends:\n{self.log_tail()}"
