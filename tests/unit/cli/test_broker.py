"""`kafwire broker`: its options, its output, and how it ends."""

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
from kafwire.broker.profiles import PROFILES
from kafwire.broker.security.security import USERS
from kafwire.errors import ProtocolError

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


def test_it_is_like_another_server() -> None:
    with (
        running("--port", "0", "--server", "event-hubs") as (bootstrap, _),
        kafwire.Admin(bootstrap) as admin,
        pytest.raises(ProtocolError, match="does not offer DescribeAclsRequest"),
    ):
        admin.describe_acls()
    shown = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True, timeout=30).stdout
    assert all(name in shown for name in PROFILES)
    wrong = subprocess.run([*COMMAND, "--server", "redpand"], capture_output=True, text=True, check=False, timeout=30)
    assert wrong.returncode == 2
    assert "server='redpand' is unknown (is redpanda meant?): the servers are redpanda, event-hubs" in wrong.stderr


def test_nodes_have_consecutive_ports() -> None:
    # Outside of the range of ports for connections and of clusters of other tests.
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
        (["--topic", "a/b"], "is not a valid topic name"),
        (["--topic", "t:0"], "is not a number of partitions"),
        (["--security", "none"], "'none' is not one of ssl, ssl_mtls, sasl_plaintext, sasl_ssl"),
        (["--security", "ssl:70000"], "'70000' is not a port"),
        (["--security", "ssl", "--security", "SSL:9094"], "--security: ssl is given twice"),
        (
            ["--port", "9093", "--security", "ssl", "--security", "sasl_ssl:9093"],
            "SSL and SASL_SSL have one port",
        ),
        (["--port", "9092", "--security", "ssl:9093"], "--port 9092: each --security names its own port"),
        (["--port", "65535", "--nodes", "2"], "port 65536 of listener PLAINTEXT does not exist"),
        (["--advertised", "PLAINTEXT://kafka:9092"], "is not HOST[:PORT]"),
        (["--advertised", "kafka:port"], "'kafka:port' is not host:port"),
        (["--advertised", "kafka:65535", "--nodes", "2"], "port 65536 of listener PLAINTEXT does not exist"),
        (["--topic", "t:1", "--topic", "t:2"], "t is given twice, with 1 and 2 partitions"),
        (["--topic", "t:1000000"], "is not a number of partitions"),
        (["--nodes", "0"], "0"),
        (["--plain"], "--plain needs --security"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_start_that_fails_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, says in [
            (
                ["--port", f"{port}"],
                f"listener PLAINTEXT cannot listen on 127.0.0.1 port {port}: Address already in use",
            ),
            (["--host", "192.0.2.1"], "listener PLAINTEXT cannot listen on 192.0.2.1 port 0: Cannot assign requested"),
            (["--host", "no-such-host.invalid"], "on no-such-host.invalid port 0: no address of this machine"),
            (["--data", str(tmp_path)], f"{tmp_path} is not empty (other)"),
        ]:
            ran = subprocess.run(
                [*COMMAND, "--port", "0", *arguments], capture_output=True, text=True, check=False, timeout=30
            )
            assert (ran.returncode, ran.stderr.count("\n")) == (1, 1), ran.stderr
            assert says in ran.stderr


def test_without_cryptography_one_line_names_the_extra() -> None:
    program = """
import sys
sys.modules["cryptography"] = None
from kafwire.cli import main
main(["broker", "--port", "0", "--security", "sasl_ssl"])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 1
    assert ran.stderr == (
        "kafwire: the broker cannot start: certificates need the package cryptography: pip install 'kafwire[broker]'\n"
    )


def test_a_property_without_effect_is_reported() -> None:
    with running("--port", "0", "--property", "num.network.threads=5") as (bootstrap, process):
        assert bootstrap.startswith("127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert errors.startswith("--property num.network.threads has no effect")


def test_an_error_inside_the_broker_ends_the_command_with_one_line() -> None:
    program = """
import sys
from kafwire.cli import main
from kafwire.broker.state import ClusterState
def fail(self, now_ms):
    raise RuntimeError("broken on purpose")
ClusterState.advance = fail
main(["broker", "--port", "0"])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith("RuntimeError('broken on purpose')")
    assert "Traceback" not in ran.stderr


def test_each_listener_has_the_port_asked_for() -> None:
    port = 10_001 + 4 * (os.getpid() % 1_000)
    arguments = ["--port", f"{port}", "--plain", "--security", "sasl_plaintext", "--security", f"ssl:{port + 2}"]
    with running(*arguments) as (bootstrap, process):
        assert process.stdout is not None
        found = [line.split()[1:] for line in read_until_end(process, "ssl-java") if line.startswith("listener ")]
        assert bootstrap == f"127.0.0.1:{port + 1}"
        assert found == [
            ["PLAINTEXT", f"127.0.0.1:{port}"],
            ["SASL_PLAINTEXT", f"127.0.0.1:{port + 1}"],
            ["SSL", f"127.0.0.1:{port + 2}"],
        ]
        assert listening_ports(process) == {port, port + 1, port + 2}


def test_all_addresses_are_listened_on_and_localhost_is_advertised() -> None:
    with running("--host", "0.0.0.0", "--port", "0") as (bootstrap, process):
        assert bootstrap.startswith("localhost:")
        assert listening_ports(process) == {int(bootstrap.rpartition(":")[2])}
        with kafwire.Client(bootstrap) as client:
            assert [each.host for each in client.metadata([]).brokers] == ["localhost"]


def test_the_address_for_clients_of_a_container() -> None:
    with running("--host", "0.0.0.0", "--port", "0", "--advertised", "kafka.test:9092") as (bootstrap, process):
        assert bootstrap == "kafka.test:9092"
        with kafwire.Client(f"127.0.0.1:{listening(process)}") as client:
            (broker,) = client.metadata([]).brokers
        assert (broker.host, broker.port) == ("kafka.test", 9092)


def test_clients_of_a_secured_listener_find_their_options() -> None:
    with running("--port", "0", "--security", "sasl_ssl", "--topic", "t") as (bootstrap, process):
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in range(6))
        (path,) = re.findall(r"kcat -L -F (\S+)", printed)
        (own,) = re.findall(r"kafwire topics -F (\S+)", printed)
        shown = subprocess.run(
            [*COMMAND[:-1], "topics", "-F", own], capture_output=True, text=True, check=False, timeout=30
        )
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.splitlines()[1].split()[0] == "t"
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


def read_until_end(process: "subprocess.Popen[str]", last: str) -> Iterator[str]:
    """The lines of the command, up to one that has a text."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if last in line:
            return


def listening_ports(process: "subprocess.Popen[str]") -> set[int]:
    """The ports that a process listens on."""
    found = psutil.Process(process.pid).net_connections("tcp")
    return {int(each.laddr.port) for each in found if each.status == "LISTEN"}


def listening(process: "subprocess.Popen[str]") -> int:
    """The only port that a process listens on."""
    (port,) = listening_ports(process)
    return port
