"""A new user's first hour: the package from the source distribution, installed into an empty environment.

Everything here is run by that environment's interpreter, in a folder of its own; nothing here is on its path.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import kafwire
from kafwire.testing import KafkaCluster
from scripts import dist
from tests.support.broker.scripted_broker import closed_port
from tests.support.complaints import complaints
from tests.support.doc_blocks import ADDRESS, blocks
from tests.support.time_limits import within

# The first test waits for the compiler, unless `make dist` was there before, which runs all of this.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
ENDS_S = 10


class User:
    """A user with kafwire installed, and a folder for commands and scripts."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python = python
        self.folder = folder
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFWIRE"))}
        self.environment = {
            **variables,
            "PATH": f"{python.parent}{os.pathsep}{variables['PATH']}",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        with self.start(*command) as process:
            try:
                out, err = process.communicate(timeout=60)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def write(self, code: str) -> list[str]:
        """The command that runs a script."""
        file = self.folder / f"{uuid.uuid4().hex}.py"
        file.write_text(code)
        return ["python", "-W", "error", str(file)]

    def script(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.write(code), *arguments)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    """After `pip install` of the wheel made from the source distribution; pandas, polars and pyarrow are lent.

    KAFWIRE_WHEEL is another wheel, and KAFWIRE_WHEEL_PYTHON the interpreter that it is for, which lends its packages.
    """
    given = os.environ.get("KAFWIRE_WHEEL")
    wheel = Path(given).resolve() if given else dist.build()[1]
    lender = Path(os.environ.get("KAFWIRE_WHEEL_PYTHON", sys.executable))
    python = dist.install(wheel, tmp_path_factory.mktemp("environment"), interpreter=lender)
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    user = User(python, tmp_path_factory.mktemp("home"))
    alone = user.script("import kafwire; print(kafwire.__file__); kafwire.Producer('localhost').close()")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert str(packages) in alone.stdout
    # Behind its own packages, and only now: kafwire works without.
    ask = [str(lender), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    (packages / "tests.pth").write_text(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    return user


@pytest.fixture(scope="module")
def strict() -> Iterator[str]:
    """A broker that creates no topics."""
    with KafkaCluster(properties={"auto.create.topics.enable": "false"}) as running:
        yield running.bootstrap


def test_the_command_is_there(user: User) -> None:
    version = user.run("kafwire", "--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"kafwire {kafwire.__version__}\n", "")
    info = user.run("kafwire", "info")
    assert (info.returncode, info.stderr) == (0, "")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert re.search(rf"^  {codec}  +(package|kafwire)", info.stdout, re.MULTILINE), info.stdout


def test_the_first_script(user: User, address: str) -> None:
    first = next(block for block in blocks("python") if block.document == "README")
    done = user.script(first.text.replace(ADDRESS, address))
    others = [
        line for line in done.stderr.splitlines() if "still connecting" not in line
    ]  # a slow machine may say that
    assert (done.returncode, others) == (0, [])
    for words in ("topic='flights'", b"EWR-IAH".hex().upper(), b"JFK-BQN".hex().upper()):  # as Arrow prints bytes
        assert words in done.stdout


def test_the_doctor_finds_nothing(user: User, address: str) -> None:
    done = user.run("kafwire", "doctor", address)
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 8


def test_a_wrong_address_on_the_command_line(user: User) -> None:
    closed = closed_port()
    with within(20, at_least=8):
        done = user.run("kafwire", "consume", "-b", closed, "t")
    assert (done.returncode, done.stdout) == (1, "")
    waiting, end = done.stderr.splitlines()
    assert waiting.startswith("kafwire: still connecting")
    for words in ("within 10 s", closed, "Connection refused", "is the address right?"):
        assert words in end


def test_a_wrong_address_in_a_script(user: User) -> None:
    closed = closed_port()
    code = f"import kafwire\nkafwire.Producer({closed!r}, max_block_ms=4000).send('t', b'x')\n"
    with user.start(*user.write(code)) as process:
        assert process.stderr is not None
        warning = process.stderr.readline()
        assert warning.startswith("kafwire: still connecting")
        assert closed in warning
        assert process.poll() is None, "the warning comes while the script waits"
        with within(ENDS_S):
            rest = process.stderr.read()
    assert process.returncode == 1
    assert "still connecting" not in rest
    last = rest.splitlines()[-1]
    for words in ("KafkaConnectionError", "within 4 s", closed, "Connection refused"):
        assert words in last


def test_a_topic_that_is_not_there(user: User, strict: str) -> None:
    code = f"import kafwire\nwith kafwire.Producer({strict!r}) as p: p.send('orders', b'x')\n"
    sent = user.script(code)
    read = user.run("kafwire", "consume", "-b", strict, "orders")
    assert (sent.returncode, read.returncode, read.stdout) == (1, 1, "")
    for reported in (sent.stderr.splitlines()[-1], read.stderr):
        for words in ("UNKNOWN_TOPIC_OR_PARTITION", "'orders' does not exist", strict, "create it"):
            assert words in reported
    assert "kafwire topics create orders" in sent.stderr
    assert user.run("kafwire", "topics", "create", "orders", "-b", strict).returncode == 0
    assert user.script(code).returncode == 0
    assert user.run("kafwire", "consume", "-b", strict, "orders", "-e").stdout == "x\n"


PANDAS = """
import sys, kafwire, pandas as pd, pyarrow as pa
frame = pd.DataFrame({"key": ["a", "b", "c", "d"], "value": ["1", "22", "333", "4444"], "size": [1, 2, 3, 4]})
chosen = frame[frame["size"] > 2][["key", "value"]]      # its index has holes
with kafwire.Producer(sys.argv[1]) as producer:
    producer.send_batch(sys.argv[2], chosen)
back = pa.table(kafwire.scan(sys.argv[1], sys.argv[2], columns=["key", "value"])).to_pandas()
back = back.map(bytes.decode)
print(back)
pd.testing.assert_frame_equal(back, chosen.reset_index(drop=True))
"""
POLARS = """
import sys, kafwire, polars as pl
frame = pl.DataFrame({"key": ["a", "b", "a"], "value": ["1", "22", "333"]})
frame = frame.with_columns(pl.col("key").cast(pl.Categorical))
with kafwire.Producer(sys.argv[1]) as producer:
    producer.send_batch(sys.argv[2], frame.filter(pl.col("value") != "22"))
back = pl.DataFrame(kafwire.scan(sys.argv[1], sys.argv[2], columns=["key", "value"]))
print(back)
assert back.rows() == [(b"a", b"1"), (b"a", b"333")], back
"""


@pytest.mark.parametrize("code", [PANDAS, POLARS], ids=["pandas", "polars"])
def test_a_frame_there_and_back(user: User, address: str, topic_name: str, code: str) -> None:
    done = user.script(code, address, topic_name)
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert "333" in done.stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("kafwire.Producer('localhost', linger=5)", ["unknown option 'linger'", "'linger_ms'"]),
        ("kafwire.Consumer('localhost', topic='t')", ["unknown option 'topic'", "'topics'"]),
        (
            "kafwire.Producer('localhost', **{'message.timeout.ms': 60000})",
            ["'message.timeout.ms'", "'delivery_timeout_ms'"],
        ),
        ("kafwire.Producer({'bootstrap.servers': 'localhost'})", ["from_config"]),
        (
            (
                "kafwire.Producer.from_config("
                "{'bootstrap.servers': 'localhost', 'delivery.timeout.ms': 5, 'request.timeout.ms': 9})"
            ),
            ["delivery.timeout.ms=5", "linger.ms", "request.timeout.ms"],
        ),
        (
            "kafwire.Producer.from_config({'bootstrap.servers': 'localhost', 'message.timeout': 60000})",
            ["'message.timeout'", "delivery.timeout.ms"],
        ),
    ],
    ids=["typo", "consumer", "librdkafka's", "a dict", "a value", "dotted"],
)
def test_an_option_that_is_not_there(user: User, code: str, words: list[str]) -> None:
    done = user.script(f"import kafwire\n{code}\n")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("kafwire.errors.ConfigError: ")
    for word in words:
        assert word in last


def test_an_option_of_librdkafka_is_taken(user: User, address: str) -> None:
    code = f"""
import kafwire
names = {{"bootstrap.servers": "{address}", "message.timeout.ms": 60000, "queue.buffering.max.ms": 5}}
with kafwire.Producer.from_config(names) as producer:
    print(producer.send("taken", b"x").result(30).topic)
"""
    done = user.script(code)
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, "taken\n", "")


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The text that a process still prints after Ctrl-C."""
    try:
        process.send_signal(signal.SIGINT)
        with within(ENDS_S):
            return process.communicate(timeout=60)
    finally:
        process.kill()


def ends_as_any_script(process: subprocess.Popen[str], err: str) -> None:
    assert process.returncode == -signal.SIGINT
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("\nKeyboardInterrupt\n")
    assert err.count("Traceback") == 1


def test_ctrl_c_while_consuming_on_the_command_line(user: User, address: str, topic_name: str) -> None:
    with kafwire.Producer(address) as producer:
        producer.send(topic_name, b"hello")
    with user.start("kafwire", "consume", "-b", address, topic_name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hello\n"
        assert interrupt(process) == ("", "")
    assert process.returncode == 130


def test_ctrl_c_in_a_loop_over_batches(user: User, address: str, topic_name: str) -> None:
    with kafwire.Producer(address) as producer:
        producer.send(topic_name, b"hello")
    code = f"""
import kafwire
with kafwire.Consumer({address!r}, topics=[{topic_name!r}], start="earliest") as consumer:
    for batch in consumer.batches():
        print(len(batch))
"""
    with user.start(*user.write(code)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        _, err = interrupt(process)
    ends_as_any_script(process, err)


# Each prints at its end how many records are stored, and how many are not, by its deliveries.
FLUSH = """
import sys, kafwire
sent, stored = [], 0
producer = kafwire.Producer(sys.argv[1], linger_ms=1000)
try:
    while True:
        for n in range(2000):
            sent.append(producer.send(sys.argv[2], b"%07d" % (len(sent) + 1)))
        producer.flush()
        if len(sent) == 10_000:
            print("ready")
finally:
    producer.close()
    print(len(sent), sum(delivery.exception() is None for delivery in sent))
"""
SEND_BATCH = """
import sys, kafwire, pyarrow as pa
sent = []
rows = pa.table({"value": [b"%0100d" % n for n in range(50_000)]})
producer = kafwire.Producer(sys.argv[1], buffer_memory=2 << 20)
try:
    while True:
        sent.append(producer.send_batch(sys.argv[2], rows))
        if len(sent) == 2:
            print("ready")
except KeyboardInterrupt as interrupt:
    if hasattr(interrupt, "delivery"):
        sent.append(interrupt.delivery)
    raise
finally:
    producer.close()
    assert all(delivery.exception() is None for delivery in sent)
    print(sum(len(delivery) for delivery in sent), sum(len(delivery) for delivery in sent))
"""


@pytest.mark.parametrize(("code", "more"), [(FLUSH, 1), (SEND_BATCH, 50_000)], ids=["flush", "send_batch"])
def test_ctrl_c_while_producing(user: User, address: str, topic_name: str, code: str, more: int) -> None:
    with user.start(*user.write(code), address, topic_name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        out, err = interrupt(process)
    ends_as_any_script(process, err)
    sent, stored = map(int, out.split())
    found = pa.table(kafwire.scan(address, topic_name, columns=["offset"])).num_rows
    assert sent == stored
    assert found - stored in {0, more}, "more: the call had returned, and its result had no name yet"
