"""`kafwire broker`: what it is told, what it prints, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import kafwire
from kafwire.testing.security import USERS

COMMAND = [sys.executable, "-m", "kafwire", "broker"]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The command, and the bootstrap servers that it printed."""
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_it_serves_and_makes_topics_and_ends_by_a_signal() -> None:
    with running("--port", "0", "--topic", "flights:3", "--topic", "airports", "--property", "num.partitions=2") as (
        bootstrap,
        process,
    ):
        with kafwire.Client(bootstrap) as client:
            assert len(client.topic("flights").partitions) == 3
            assert len(client.topic("airports").partitions) == 1
        with kafwire.Producer(bootstrap, linger_ms=0) as producer:
            assert producer.send("made by itself".replace(" ", "-"), b"v").result(10).offset == 0
            assert producer.partitions_for("made-by-itself") == {0, 1}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143


def test_nodes_have_consecutive_ports() -> None:
    # Where nobody is given ports: neither connections nor clusters of other tests.
    port = 10_000 + 4 * (os.getpid() % 1_000)
    with running("--port", f"{port}", "--nodes", "3") as (bootstrap, _):
        assert bootstrap == ",".join(f"127.0.0.1:{port + number}" for number in range(3))


def test_a_folder_keeps_records_and_is_one_broker_s(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    for offset in (0, 1):
        with running("--port", "0", "--data", folder, "--topic", "t") as (bootstrap, process):
            with kafwire.Producer(bootstrap, linger_ms=0) as producer:
                assert producer.send("t", b"v").result(10).offset == offset
            other = subprocess.run(
                [*COMMAND, "--port", "0", "--data", folder], capture_output=True, text=True, check=False, timeout=30
            )
            assert other.returncode == 1
            assert re.search("in use|another", other.stderr), other.stderr
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run([*COMMAND, "--port", f"{port}"], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 1
    assert "Address already in use" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--property", "num.partitions"], "KEY=VALUE"),
        (["--property", "no.such.option=1"], "has no option 'no.such.option'"),
        (["--property", "num.partitions=none"], "num.partitions"),
        (["--topic", "a/b"], "is no name of a topic"),
        (["--topic", "t:0"], "is no number of partitions"),
        (["--security", "none"], "'none'"),
        (["--nodes", "0"], "0"),
        (["--plain"], "--plain goes with --security"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 2
    assert says in ran.stderr


def test_clients_of_a_secured_listener_find_their_options() -> None:
    with running("--port", "0", "--security", "sasl_ssl", "--topic", "t") as (bootstrap, process):
        assert process.stdout is not None
        told = "".join(process.stdout.readline() for _ in range(5))
        (path,) = re.findall(r"kcat -L -F (\S+)", told)
        assert bootstrap.endswith(f":{listening(process)}"), "there is no plain listener beside it"
        options = dict(line.split("=", 1) for line in Path(path).read_text().splitlines() if "=" in line)
        with kafwire.Client.from_config({**options, "bootstrap.servers": bootstrap}) as client:
            assert client.topic("t").name == "t"
        assert options["sasl.password"] not in USERS.values(), "passwords that no source text has"


def test_the_plain_listener_is_there_when_it_is_asked_for() -> None:
    with running("--port", "0", "--security", "sasl_plaintext", "--plain", "--topic", "t") as (_, process):
        assert process.stdout is not None
        name, address = process.stdout.readline().removeprefix("listener ").split()
        assert name == "PLAINTEXT"
        with kafwire.Client(address) as client:
            assert client.topic("t").name == "t"


def listening(process: "subprocess.Popen[str]") -> int:
    """The only port that a process listens on."""
    found = [each.laddr.port for each in psutil.Process(process.pid).net_connections("tcp") if each.status == "LISTEN"]
    (port,) = found
    return int(port)
