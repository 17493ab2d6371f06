"""The fuzzer against servers with planted bugs: each is found and made small; a right one is clean."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kafwire.testing.fuzzer import Campaign, Options, replay
from kafwire.testing.fuzzer.campaign import Result, resolve
from tests.unit.fuzzed_server import Bug, Exchange, FuzzedServer

SEED = 7
REQUESTS = 400
TIMEOUT = 2.0
SHORT_TIMEOUT = 0.1  # where silence is what is looked for


def fuzz(
    server: FuzzedServer, *apis: str, requests: int = REQUESTS, timeout: float = TIMEOUT, seed: int = SEED
) -> Result:
    target = resolve(server.address, allow_remote=False, timeout=timeout)
    options = Options(
        seed=seed,
        seconds=30,
        requests=requests,
        apis=frozenset(apis),
        timeout=timeout,
        shrink_seconds=4,
        late_seconds=0.5,
        revive=server.start,
    )
    print(f"seed {seed}")
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


def answers_twice_out_of_order(exchange: Exchange) -> None:
    """Keeps an answer back until the next request of the connection is answered."""
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


def answers_one_request_twice(exchange: Exchange) -> None:
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
        result = fuzz(server, api, requests=150, timeout=SHORT_TIMEOUT if bug is hangs else TIMEOUT)
    found = [find for find in result.finds if find.violation.rule == rule and find.api == api and not find.flaky]
    assert found, [(find.violation, find.reproduced) for find in result.finds]
    smallest = min(found, key=lambda find: len(json.dumps(find.to_json()["case"])))
    assert smallest.shrunk
    assert len(smallest.case.steps) == steps


def test_right_server_yields_nothing() -> None:
    with FuzzedServer() as server:
        result = fuzz(server, requests=1500, timeout=2)
    assert [find.violation for find in result.finds] == []
    assert result.cases > 500


def test_death_is_found_and_made_small() -> None:
    def dies_of_a_negative_size(server: FuzzedServer, head: bytes) -> None:
        if len(head) == 4 and head >= b"\x80":
            server.die()

    with FuzzedServer(on_bytes=dies_of_a_negative_size) as server:
        result = fuzz(server, "ApiVersions", requests=1500, timeout=1)
        assert server.deaths
    (find,) = [find for find in result.finds if find.violation.rule == "died"]
    assert not result.dead
    assert find.shrunk
    assert [change.shape for change in find.case.target.damage] == ["size absolute"]


def test_answers_out_of_order_are_found() -> None:
    with FuzzedServer(answers_twice_out_of_order) as server:
        result = fuzz(server, "Heartbeat", "FindCoordinator", requests=120, timeout=SHORT_TIMEOUT)
    rules = {find.violation.rule for find in result.finds}
    assert rules & {"correlation", "hang"}
    assert any(find.case.delivery != "turns" or len(find.case.steps) > 1 for find in result.finds) or "hang" in rules


def test_two_answers_to_one_request_are_found() -> None:
    with FuzzedServer(answers_one_request_twice) as server:
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


def test_find_is_replayed_and_its_test_file_fails_only_against_the_bug(tmp_path: Path) -> None:
    with FuzzedServer(unknown_error_code) as server:
        result = fuzz(server, "Heartbeat", requests=60)
        (find,) = [find for find in result.finds if find.violation.rule == "error-code"]
        files = find.write(tmp_path)
        saved = json.loads(files[0].read_text())
        assert replay(saved, server.address)
        assert run_test_file(files[1], server.address).returncode == 1
    with FuzzedServer() as server:
        assert replay(saved, server.address) == []
        passed = run_test_file(files[1], server.address)
        assert passed.returncode == 0, passed.stdout


def run_test_file(file: Path, address: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parent.parent.parent)
    environment = os.environ | {"KAFWIRE_FUZZ_TARGET": address, "PYTHONPATH": root}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(file.parent), str(file)]
    return subprocess.run(
        command, env=environment, cwd=file.parent, capture_output=True, text=True, timeout=60, check=False
    )
