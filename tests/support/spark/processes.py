"""Spark's processes on this machine: a standalone master with workers, a Connect server, and applications on them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pyspark

from kafwire.broker.ports import free_ports
from tests.support.deadlines import until
from tests.support.spark.application import CONF, Settings

ROOT = Path(__file__).parents[3]
HOME = Path(pyspark.__file__).parent
LONGEST_S = 280
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def environment(address: str, memory: str) -> dict[str, str]:
    """The environment of a process of Spark at an address of this machine; `memory` is that of a server."""
    path = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_JAVA_OPTS": SMALL,
        "SPARK_DAEMON_MEMORY": memory,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": path,
    }


@contextmanager
def process(
    log: Path, *command: object, address: str = "127.0.0.1", memory: str = "256m"
) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all that it starts, until the end of the block."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            [str(each) for each in command],
            cwd=ROOT,
            env=environment(address, memory),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield started
    finally:
        try:
            os.killpg(started.pid, signal.SIGTERM)
            started.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait(10)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers of one core, which say that they are on different hosts. Gives the master's address."""
    port, web = ports(2)
    with ExitStack() as stack:
        master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", web)
        stack.enter_context(process(folder / "master.log", HOME / "bin/spark-class", *master))
        until(lambda: is_listening(port), "the master listens", 120)
        address = f"spark://127.0.0.1:{port}"
        for number, host in enumerate(("127.0.0.1", "127.0.0.2")):
            worker = ("org.apache.spark.deploy.worker.Worker", "--host", host, "--webui-port", "0")
            command = (*worker, "-c", "1", "-m", "1g", "-d", folder / f"work{number}", address)
            log = folder / f"worker{number}.log"
            stack.enter_context(process(log, HOME / "bin/spark-class", *command, address=host))
            until(partial(has_line, log, "registered with master"), "the worker is registered", 120)
        yield address


@contextmanager
def connect(folder: Path) -> Iterator[str]:
    """A Connect server, whose tasks are tried four times. Gives its address."""
    (port,) = ports(1)
    conf = CONF | {"spark.connect.grpc.binding.port": str(port), "spark.sql.warehouse.dir": str(folder / "tables")}
    given = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    main = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2,4]")
    command = (HOME / "bin/spark-submit", *main, *given, "spark-internal")
    with process(folder / "connect.log", *command, memory=CONF["spark.driver.memory"]):
        until(lambda: is_listening(port), "the server listens", 120)
        yield f"sc://127.0.0.1:{port}"


def has_line(log: Path, text: str) -> bool:
    """Return whether a log has a text."""
    return text in log.read_text()


def ports(count: int) -> list[int]:
    """Ports that no process listens on."""
    with free_ports(count) as found:
        return found


def is_listening(port: int) -> bool:
    """Return whether a process of this machine listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(settings: Settings) -> None:
    """Run an application; fails with the end of its log."""
    folder = Path(settings.folder)
    log = folder / "application.log"
    command = (sys.executable, "-m", "tests.support.spark.application", json.dumps(asdict(settings)))
    with process(log, *command) as application:
        try:
            code = application.wait(LONGEST_S * (1 + len(settings.faults)))
        except subprocess.TimeoutExpired:
            code = -1
    text = log.read_text()
    assert code == 0, f"exit code {code}\n{text[-6000:]}"
