"""`kafwire produce` against a scripted broker: the records it sends, its messages about the others, and how it ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafwire import records
from kafwire.cli import main
from kafwire.errors import ErrorCode
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker
from tests.support.deadlines import ended

COMMAND = [sys.executable, "-m", "kafwire", "produce"]
MIB = 1 << 20


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1, "u": 3}) as running:
        yield running


@pytest.fixture
def run(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for name in ("KAFWIRE_BROKERS", "KAFWIRE_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def produce(*arguments: str, data: bytes = b"") -> Result:
        return CliRunner().invoke(main, ["produce", "-b", broker.bootstrap, *arguments], data, prog_name="kafwire")

    return produce


def stored(broker: ScriptedBroker, topic: str = "t", partition: int = 0) -> list[Any]:
    """(key, value, headers) in a log."""
    data = b"".join(each.data for each in broker.logs[topic, partition])
    return [(r.key, r.value, list(r.headers)) for batch in records.decode_batches(data) for r in batch]


# -- the records that are sent

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "data", "expected"),
    [
        ([], b"a\nb\n", [b"a", b"b"]),
        ([], b"a\nlast", [b"a", b"last"]),
        ([], b"\na\n\n\nb\n\n", [b"a", b"b"]),
        (["--empty"], b"\na\n\n", [b"", b"a", b""]),
        (["--empty", "-Z"], b"\na\n", [None, b"a"]),
        (["-Z"], b"\na\n", [b"a"]),
        (["-D", ";;"], b"a;;b\n;;c;", [b"a", b"b\n", b"c;"]),
        (["-D", "\\0"], b"a\0\xff\xfe\n", [b"a", b"\xff\xfe\n"]),
        ([], b"a\r\nb\r\n", [b"a\r", b"b\r"]),
        (["-c", "2"], b"\na\nb\nc\n", [b"a", b"b"]),
        (["--null", "NULL"], b"a\nNULL\n", [b"a", None]),
        ([], b"", []),
    ],
)
def test_lines(run: Run, broker: ScriptedBroker, arguments: list[str], data: bytes, expected: list[Any]) -> None:
    result = run("-t", "t", *arguments, data=data)
    assert (result.exit_code, result.output) == (0, "")
    assert broker.values("t") == expected


def test_keys_and_headers(run: Run, broker: ScriptedBroker) -> None:
    arguments = ["-K", ":", "-k", "fixed", "-H", "a=1", "-H", "b", "--headers", "\\t", "-Z"]
    result = run("-t", "t", *arguments, data=b"k:v\nc=2\t:v:w\n\tplain\nx:\n")
    assert (result.exit_code, result.output) == (0, "")
    every = [("a", b"1"), ("b", None)]
    assert stored(broker) == [
        (b"k", b"v", every),
        (None, b"v:w", [*every, ("c", b"2")]),
        (b"fixed", b"plain", every),
        (b"x", None, every),
    ]


@pytest.mark.parametrize("arguments", [[], ["-k", "key", "-H", "h=\udcff", "-H", "n"], ["-c", "5000"], ["--empty"]])
@pytest.mark.parametrize("with_arrow", [True, False])
def test_many_lines(
    run: Run, broker: ScriptedBroker, arguments: list[str], monkeypatch: pytest.MonkeyPatch, *, with_arrow: bool
) -> None:
    """Records sent as a table or one by one are the same, each at its place."""
    if not with_arrow:
        monkeypatch.setattr("kafwire.cli.produce.TABLE_BYTES", 1 << 40)
    lines = [b"" if n % 7 == 0 else b"%d" % n * (n % 20) for n in range(30_000)]
    result = run("-t", "t", *arguments, data=b"\n".join(lines))
    assert (result.exit_code, result.output) == (0, "")
    expected = [line for line in lines if line or "--empty" in arguments]
    if "-c" in arguments:
        expected = expected[:5000]
    found = stored(broker)
    assert [value for _, value, _ in found] == expected
    extra = (b"key", [("h", b"\xff"), ("n", None)]) if "-k" in arguments else (None, [])
    assert all((key, headers) == extra for key, _, headers in found)


def test_partitions(run: Run, broker: ScriptedBroker) -> None:
    run("-t", "u", "-p", "2", data=b"a\nb\n")
    assert broker.values("u", 2) == [b"a", b"b"]
    run("-t", "u", "-p", "-1", "-K", ":", data=b"".join(b"%d:v\n" % n for n in range(30)))
    assert all(len(broker.values("u", p)) > 2 for p in range(3))
    result = run("-t", "u", "-p", "3", "-X", "max.block.ms=500", data=b"a\nb\n")
    assert result.exit_code == 1
    assert "line 1: topic 'u' has partitions 0 to 2, not 3" in result.stderr


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(run: Run, broker: ScriptedBroker, codec: str) -> None:
    assert run("-t", "t", "-z", codec, data=b"a" * 1000).exit_code == 0
    (batch,) = records.decode_batches(broker.logs["t", 0][0].data)
    assert batch.compression == codec


def test_acks_and_options(run: Run, broker: ScriptedBroker) -> None:
    assert run("-t", "t", "--acks", "1", "-X", "client.id=me", data=b"a").exit_code == 0
    assert run("-t", "t", "--acks", "0", data=b"b").exit_code == 0
    broker.wait_for(lambda: len(broker.logs["t", 0]) == 2)  # with acks=0 no call waits for the broker
    assert [request.message.acks for request in broker.seen("Produce")] == [1, 0]
    assert broker.seen("InitProducerId") == []


def test_files(run: Run, broker: ScriptedBroker, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"three")
    names = [str(tmp_path / name) for name in "abc"]
    assert run("-t", "t", "-k", "k", "-H", "h=1", *names).exit_code == 0
    assert stored(broker) == [(b"k", value, [("h", b"1")]) for value in (b"one\ntwo\n", b"three")]
    assert run("-t", "t", "-l", *names, "-").exit_code == 0
    assert broker.values("t")[2:] == [b"one", b"two", b"three"]


# -- messages about records that were not sent


@pytest.mark.parametrize("how", ["stop", "continue"])
@pytest.mark.parametrize("size", [MIB + 100, MIB - 5, 3 * MIB])
def test_a_line_that_is_too_long(run: Run, broker: ScriptedBroker, how: str, size: int) -> None:
    data = b"\nbefore\n" + b"x" * size + b"\nafter\n"
    result = run("-t", "t", "--on-error", how, data=data)
    assert result.exit_code == 1
    reported, total = result.stderr.splitlines()
    assert reported.startswith("kafwire produce: line 3: MESSAGE_TOO_LARGE")
    assert "max_request_size (1048576)" in reported
    after = [b"after"] if how == "continue" else []
    assert total == f"kafwire produce: {1 + len(after)} record(s) delivered, 1 not"
    assert broker.values("t") == [b"before", *after]


def test_a_line_that_is_too_long_among_many(run: Run, broker: ScriptedBroker) -> None:
    lines = [b"%d" % n for n in range(20_000)]
    lines[12_345] = bytes(3000)
    result = run("-t", "t", "-E", "-X", "max.request.size=2500", "-X", "batch.size=2500", data=b"\n".join(lines))
    assert result.exit_code == 1
    assert "line 12346: MESSAGE_TOO_LARGE" in result.stderr
    del lines[12_345]
    assert broker.values("t") == lines


def test_lines_that_the_broker_refuses(run: Run, broker: ScriptedBroker, tmp_path: Path) -> None:
    files = [tmp_path / name for name in "ab"]
    for number, file in enumerate(files):
        file.write_bytes(b"\n".join(b"%d%d" % (number, line) * 300 for line in range(5)))
    broker.script(
        "Produce", *[scripted.behave] * 6, scripted.error(ErrorCode.INVALID_RECORD, "not this"), scripted.behave
    )
    arguments = ["-E", "-X", "batch.size=100", "-X", "max.in.flight.requests.per.connection=1", "-l"]
    result = run("-t", "t", *arguments, *map(str, files))
    assert result.exit_code == 1
    reported, total = result.stderr.splitlines()
    assert reported.startswith(f"kafwire produce: {files[1]}, line 2: INVALID_RECORD")
    assert "not this" in reported
    assert total == "kafwire produce: 9 record(s) delivered, 1 not"


def test_after_a_refusal_nothing_more_is_read(run: Run, broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.error(ErrorCode.INVALID_RECORD))
    data = b"\n\n" + (b"x" * 999 + b"\n") * 60_000
    result = run("-t", "t", data=data)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 2
    assert "kafwire produce: line 3 and " in result.stderr
    assert 0 < len(broker.values("t")) < 59_000


def test_many_errors_are_printed_in_part(run: Run, broker: ScriptedBroker) -> None:
    result = run("-t", "t", "-E", "-X", "max.request.size=1100", data=b"\n".join([bytes(1200), b"fine"] * 20))
    lines = result.stderr.splitlines()
    assert len(lines) == 11
    assert lines[1].startswith("kafwire produce: line 3: ")
    assert lines[-1] == "kafwire produce: 20 record(s) delivered, 20 not"


def test_files_that_cannot_be_read(run: Run, broker: ScriptedBroker, tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_bytes(b"v")
    for extra in ([], ["-l"]):
        result = run("-t", "t", *extra, str(tmp_path / "none"), str(good))
        assert result.exit_code == 1
        assert f"{tmp_path}/none: No such file or directory" in result.stderr
        assert broker.values("t") == []
    for extra in ([], ["-l"]):
        result = run("-t", "t", "-E", *extra, str(tmp_path / "none"), str(tmp_path), str(good))
        assert result.exit_code == 1
        assert "Is a directory" in result.stderr
        assert "1 record(s) delivered, 0 not" in result.stderr
    assert broker.values("t") == [b"v", b"v"]


def test_a_topic_that_does_not_exist(run: Run) -> None:
    result = run("-t", "none", "-X", "max.block.ms=300", data=b"a\nb")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafwire produce: line 1: ")
    assert "0 record(s) delivered, 1 not" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-b", "h"], "no topic is given"),
        (["-t", "t"], "no broker is given"),
        (["-b", "h", "-t", "t", "-Z", "--null", "x"], "either -Z or --null"),
        (["-b", "h", "-t", "t", "-l"], "-l is for files"),
        (["-b", "h", "-t", "t", "-K", ":", "x"], "-K needs -l"),
        (["-b", "h", "-t", "t", "-c", "1", "x"], "--count needs -l"),
        (["-b", "h", "-t", "t", "-K", ""], "-K is empty"),
        (["-b", "h", "-t", "t", "-D", ""], "-D is empty"),
        (["-b", "h", "-t", "t", "-H", "=x"], "a header must have a name"),
        (["-b", "h", "-t", "t", "-z", "rar"], "'rar' is not one of"),
        (["-b", "h", "-t", "t", "--acks", "2"], "'2' is not one of"),
        (["-b", "h", "-t", "t", "-X", "linger=1"], "unknown option 'linger'"),
        (["-b", "h", "-t", "t", "--acks", "1", "-X", "enable.idempotence=true"], 'needs acks="all"'),
        (["-b", "h", "-t", "t", "--progress"], "--progress needs files"),
        (["-b", "h", "-t", "t", "-p", "-2"], "-2 is not in the range"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(main, ["produce", *arguments], b"", prog_name="kafwire")
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_options_are_listed() -> None:
    lines = CliRunner().invoke(main, ["produce", "-X", "list"]).stdout.splitlines()
    assert "linger.ms=5" in lines
    assert "compression.type=none" in lines
    assert lines == sorted(lines)


# -- as a process


def start(broker: ScriptedBroker, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "-b", broker.bootstrap, "-t", "t", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_sends_the_lines_that_were_read(broker: ScriptedBroker, number: signal.Signals, code: int) -> None:
    broker.script("Produce", scripted.behave, scripted.after(0.3))
    with start(broker, "-X", "linger.ms=0") as process:
        write(process, b"a\n")
        broker.wait_for(lambda: broker.values("t") == [b"a"], 30)
        write(process, b"b\nc\nhalf")
        broker.wait_for_requests("Produce", 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (code, b"kafwire produce: 3 record(s) delivered, 0 not\n")
    assert broker.values("t") == [b"a", b"b", b"c"]


def test_an_interrupt_counts_the_unknown_outcomes(broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.behave)
    broker.always("Produce", scripted.no_response)
    with start(broker, "-X", "linger.ms=0") as process:
        write(process, b"a\n")
        broker.wait_for(lambda: broker.values("t") == [b"a"], 30)
        write(process, b"b\nc\n")
        broker.wait_for_requests("Produce", 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == b"kafwire produce: 1 record(s) delivered, 2 not"


def test_a_refusal_ends_it_while_nothing_is_read(broker: ScriptedBroker) -> None:
    """A pipe that follows a log must not wait for its next line to report the error."""
    broker.script("Produce", scripted.error(ErrorCode.INVALID_RECORD))
    with start(broker) as process:
        write(process, b"a\n")
        assert process.wait(30) == 1


def test_endless_input_takes_bounded_memory(broker: ScriptedBroker) -> None:
    """Against a broker that takes nothing: the rest waits in the pipe, and no more is kept than the buffer holds."""
    broker.always("Produce", scripted.no_response)
    gate = threading.Event()
    with start(broker, "-X", "buffer.memory=4000000") as process:
        stdin = process.stdin
        assert stdin is not None
        written = [0]

        def feed() -> None:
            line = b"0123456789" * 10 + b"\n"
            try:
                while not gate.is_set():
                    stdin.write(line * 1000)
                    written[0] += 1000
            except BrokenPipeError:
                pass

        feeder = threading.Thread(target=feed)
        feeder.start()
        broker.wait_for_requests("Produce", timeout=30)
        before = -1
        while before != written[0]:  # until the pipe is full
            before = written[0]
            feeder.join(0.5)
        resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert before < 100_000
        assert resident < 200 * MIB
        gate.set()
        process.kill()
        ended(feeder)


def test_progress_on_a_terminal(broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"line\n" * 100_000)
    ours, theirs = pty.openpty()
    command = [*COMMAND, "-b", broker.bootstrap, "-t", "t", "-l", str(file)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 1 << 16):
                shown += data
        except OSError:  # its end is closed
            pass
    assert process.returncode == 0
    assert b"100%" in shown
    assert b"KiB" in shown
    assert len(broker.values("t")) == 100_000
