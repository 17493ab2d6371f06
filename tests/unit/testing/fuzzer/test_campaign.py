"""The fuzzer against servers with planted bugs: each is found and made small; a right one is clean."""

import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest
from click.testing import CliRunner

from kafwire.cli import main
from kafwire.testing.fuzzer import Campaign, Options, campaign, replay
from kafwire.testing.fuzzer.campaign import Result, resolve
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.connection import TargetConnection
from kafwire.testing.fuzzer.judge import Violation
from tests.support.broker.fuzzed_server import DEALT_WITH, Bug, Exchange, FuzzedServer

SEED = 7
REQUESTS = 400
PATIENCE = 60.0  # never waited out: see `silence_is_seen`


@pytest.fixture(autouse=True)
def silence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing response shows by the bytes that the server has dealt with, not by time on a busy machine."""
    send, finish, fill = TargetConnection.send, TargetConnection.finish, TargetConnection.fill
    sent: WeakKeyDictionary[TargetConnection, int] = WeakKeyDictionary()

    def counted(self: TargetConnection, data: bytes) -> None:
        sent[self] = sent.get(self, 0) + len(data)
        send(self, data)

    def finished(self: TargetConnection) -> None:
        sent[self] = -1  # the server sees the end, and closes
        finish(self)

    def until_silent(self: TargetConnection, size: int, deadline: float) -> None:
        port = self._socket.getsockname()[1]
        while len(self._received) < size and not readable(self._socket, 0.002):
            if DEALT_WITH.get(port) == sent.get(self) and not readable(self._socket, 0.05):
                raise TimeoutError("the server has dealt with all, and says nothing")
            assert time.monotonic() < deadline, "neither a response nor silence"
        fill(self, size, deadline)

    monkeypatch.setattr(TargetConnection, "send", counted)
    monkeypatch.setattr(TargetConnection, "finish", finished)
    monkeypatch.setattr(TargetConnection, "fill", until_silent)
    monkeypatch.setattr(campaign, "DEATH_SECONDS", 0.05)  # this server is dead before its client can notice


def readable(connection: socket.socket, seconds: float) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


def fuzz(
    server: FuzzedServer,
    *apis: str,
    requests: int = REQUESTS,
    known: Callable[[Case, Violation], bool] | None = None,
) -> Result:
    target = resolve(server.address, allow_remote=False, timeout=PATIENCE)
    options = Options(
        seed=SEED,
        seconds=600,
        requests=requests,
        apis=frozenset(apis),
        timeout=PATIENCE,
        shrink_seconds=60,
        revive=server.start,
        known=known,
    )
    print(f"seed {options.seed}")
    return Campaign(target, options).run()


# -- the bugs


def wrong_correlation_id(exchange: Exchange) -> None:
    if exchange.api == "Heartbeat":
        frame = exchange.frames[0]
        exchange.frames = [struct.pack(">i", exchange.correlation_id + 1) + frame[4:]]


def bytes_left_over(exchange: Exchange) -> None:
    if exchange.api == "DescribeGroups" and len(exchange.request.groups) > 1:
        exchange.frames[0] += b"\0"


def null_where_none_may_be(exchange: Exchange) -> None:
    if exchange.api == "FindCoordinator" and exchange.version == 2:
        host = struct.pack(">h", 9) + b"127.0.0.1"
        exchange.frames = [exchange.frames[0].replace(host, b"\xff\xff")]


def unknown_error_code(exchange: Exchange) -> None:
    if exchange.api == "Heartbeat":
        exchange.response.error_code = 4711
        exchange.encode()


def closes_on_a_valid_request(exchange: Exchange) -> None:
    if exchange.api == "Metadata" and exchange.request.topics and exchange.version == 7:
        exchange.frames, exchange.close = [], True


def hangs(exchange: Exchange) -> None:
    if exchange.api == "DescribeGroups" and getattr(exchange.request, "include_authorized_operations", False):
        exchange.frames = []


def responds_out_of_order(exchange: Exchange) -> None:
    """Keeps a response back until the next request of the connection has its response."""
    server = exchange.server
    kept: dict[str, bytes] = server.__dict__.setdefault("kept", {})
    if exchange.api == "Heartbeat" and not kept:
        kept["frame"] = exchange.frames[0]
        exchange.frames = []
    elif kept:
        exchange.frames = [exchange.frames[0], kept.pop("frame")]


def wrong_topic_count(exchange: Exchange) -> None:
    if exchange.api == "Metadata" and exchange.request.topics and len(exchange.request.topics) > 1:
        exchange.response.topics.pop()
        exchange.encode()


def negative_throttle_time(exchange: Exchange) -> None:
    if exchange.api == "Heartbeat" and exchange.version >= 1:
        exchange.response.throttle_time_ms = -1
        exchange.encode()


def responds_to_one_request_twice(exchange: Exchange) -> None:
    if exchange.api == "Heartbeat":
        exchange.frames *= 2


PLANTED: list[tuple[Bug, str, str, int]] = [
    (wrong_correlation_id, "Heartbeat", "correlation", 1),
    (bytes_left_over, "DescribeGroups", "unreadable", 1),
    (null_where_none_may_be, "FindCoordinator", "unreadable", 1),
    (unknown_error_code, "Heartbeat", "error-code", 1),
    (closes_on_a_valid_request, "Metadata", "closed", 1),
    (hangs, "DescribeGroups", "hang", 1),
    (wrong_topic_count, "Metadata", "echo", 1),
    (negative_throttle_time, "Heartbeat", "range", 1),
]


@pytest.mark.parametrize(("bug", "api", "rule", "steps"), PLANTED, ids=[bug.__name__ for bug, *_ in PLANTED])
def test_planted_bug_is_found_and_made_small(bug: Bug, api: str, rule: str, steps: int) -> None:
    with FuzzedServer(bug) as server:
        result = fuzz(server, api, requests=150)
    found = [find for find in result.finds if find.violation.rule == rule and find.api == api and not find.flaky]
    assert found, [(find.violation, find.reproduced) for find in result.finds]
    smallest = min(found, key=lambda find: len(json.dumps(find.to_json()["case"])))
    assert smallest.shrunk
    assert len(smallest.case.steps) == steps


def test_right_server_yields_nothing() -> None:
    with FuzzedServer() as server:
        result = fuzz(server, requests=1500)
    assert [find.violation for find in result.finds] == []
    assert result.cases > 500


def test_known_violation_is_no_find() -> None:
    asked: list[tuple[str, str]] = []

    def known(case: Case, violation: Violation) -> bool:
        asked.append((case.steps[violation.step].api, violation.rule))
        return violation.rule == "error-code"

    with FuzzedServer(unknown_error_code) as server:
        result = fuzz(server, "Heartbeat", requests=60, known=known)
    assert result.finds == []
    assert ("Heartbeat", "error-code") in asked


def test_death_is_found_and_made_small() -> None:
    with FuzzedServer(on_bytes=dies_of_a_negative_size) as server:
        result = fuzz(server, "ApiVersions", requests=1500)
        assert server.deaths
    (find,) = [find for find in result.finds if find.violation.rule == "died"]
    assert not result.dead
    assert find.shrunk
    assert [change.shape for change in find.case.target.damage] == ["size absolute"]


def test_responses_out_of_order_are_found() -> None:
    with FuzzedServer(responds_out_of_order) as server:
        result = fuzz(server, "Heartbeat", "FindCoordinator", requests=120)
    assert {"correlation", "hang"} & {find.violation.rule for find in result.finds}


def test_two_responses_to_one_request_are_found() -> None:
    with FuzzedServer(responds_to_one_request_twice) as server:
        result = fuzz(server, "Heartbeat", requests=400)
    assert any(find.violation.rule in ("correlation", "unasked-answer") for find in result.finds)


def test_cases_of_a_seed_are_the_same_each_time() -> None:
    with FuzzedServer() as server:
        target = resolve(server.address, allow_remote=False)
        first, second = (Campaign(target, Options(seed=3)) for _ in range(2))
        other = Campaign(target, Options(seed=4))
        for number in range(200):
            case = first.case(number).to_json()
            assert case == second.case(number).to_json()
        assert [first.case(n).to_json()["steps"] for n in range(9)] != [
            other.case(n).to_json()["steps"] for n in range(9)
        ]


def test_find_is_replayed_and_its_test_file_fails_only_against_the_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FuzzedServer(unknown_error_code) as server:
        result = fuzz(server, "Heartbeat", requests=60)
        (find,) = [find for find in result.finds if find.violation.rule == "error-code"]
        files = find.write(tmp_path)
        saved = json.loads(files[0].read_text())
        assert replay(saved, server.address)
        failed = run_test_file(files[1], server.address)
        assert (failed.returncode, "error-code: Heartbeat" in failed.stdout) == (1, True), failed.stdout
    with FuzzedServer() as server:
        assert replay(saved, server.address) == []
        monkeypatch.setenv("KAFWIRE_FUZZ_TARGET", server.address)
        monkeypatch.delenv("KAFWIRE_FUZZ_DESTRUCTIVE", raising=False)
        written = runpy.run_path(str(files[1]))
        written[f"test_{find.name}"]()


def run_test_file(file: Path, address: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[4])
    environment = os.environ | {"KAFWIRE_FUZZ_TARGET": address, "PYTHONPATH": root}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(file.parent), str(file)]
    return subprocess.run(
        command, env=environment, cwd=file.parent, capture_output=True, text=True, timeout=60, check=False
    )


# -- the end of a server, and of the run


def dies_of_a_negative_size(server: FuzzedServer, head: bytes) -> None:
    if len(head) == 4 and head >= b"\x80":
        server.die()


def test_a_command_starts_the_server_again(tmp_path: Path) -> None:
    with FuzzedServer(on_bytes=dies_of_a_negative_size) as server:
        before = signal.signal(signal.SIGUSR1, lambda *_: server.start())
        try:
            options = ["--seed", str(SEED), "--requests", "900", "--apis", "ApiVersions", "--out", str(tmp_path)]
            revive = ["--revive", f"kill -USR1 {os.getpid()}"]
            result = CliRunner().invoke(main, ["fuzz", server.address, *options, *revive, "--json"])
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert server.deaths
    summary = json.loads(result.stdout)
    assert (result.exit_code, summary["server_dead"]) == (1, False), result.output
    assert [find["rule"] for find in summary["finds"]] == ["died"]
    assert summary["finds"][0]["reproduced"] == "3 of 3"
    assert len(list(tmp_path.glob("died_*.json"))) == 1


def test_a_server_that_stays_dead_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "REVIVAL_SECONDS", 0.1)
    with FuzzedServer(on_bytes=dies_of_a_negative_size) as server:
        options = ["--seed", str(SEED), "--apis", "ApiVersions", "--out", str(tmp_path)]
        result = CliRunner().invoke(main, ["fuzz", server.address, *options])
        assert server.deaths == 1
    assert result.exit_code == 1
    assert "the server is dead" in result.output
    (file,) = tmp_path.glob("died_*.json")
    assert json.loads(file.read_text())["reproduced"] == "0 of 0"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own reaction to SIGINT, which a job in a shell's background starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(when: int, api: str = "Heartbeat") -> Bug:
    """Presses Ctrl-C at the `when`th request of `api`."""

    def press(exchange: Exchange) -> None:
        if exchange.api == api and next(exchange.server.counter) == when:
            os.kill(os.getpid(), signal.SIGINT)

    return press


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_run_with_its_findings(tmp_path: Path) -> None:
    with FuzzedServer(interrupting(40)) as server:
        options = ["--seed", str(SEED), "--apis", "Heartbeat", "--out", str(tmp_path), "--requests", "2000"]
        result = CliRunner().invoke(main, ["fuzz", server.address, *options])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if "API versions with a response" in line]
    assert 0 < int(line.split()[0]) < 200


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("when", "reproduced"), [(2, "1 of 2"), (5, "3 of 3")], ids=["repeated", "made small"])
def test_ctrl_c_keeps_the_find_that_is_looked_at(when: int, reproduced: str) -> None:
    press = interrupting(when)

    def unsound(exchange: Exchange) -> None:
        press(exchange)
        unknown_error_code(exchange)

    with FuzzedServer(unsound) as server:
        result = fuzz(server, "Heartbeat", requests=2000)
    (find,) = [find for find in result.finds if find.violation.rule == "error-code"]
    assert not find.shrunk
    assert find.reproduced == reproduced
