"""The C core under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer: the programs of tests/native."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.certificates import Authority
from tests.support.sanitizers import MEMORY, build, run

VARIANTS = {"epoll": [], "poll": ["-DKW_USE_POLL"], "small steps": ["-DKW_STEP=1000", "-DKW_TURN=3000"]}
THREADS = "thread"


@pytest.mark.parametrize("variant", seeds.sampled(VARIANTS, "epoll"))
@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_the_io_thread_holds_under_stress(tmp_path: Path, sanitizer: str, variant: str) -> None:
    program = build(tmp_path, "loop_stress", sanitizer, *VARIANTS[variant])
    printed = run(program, seeds.examples(6))
    responses = re.fullmatch(r"ok: \d+ connected, (\d+) responses, \d+ sent, \d+ closed, \d+ posted\n", printed)
    assert responses, printed
    assert int(responses[1]) >= 100


@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_tls_of_the_io_thread_holds_under_stress(tmp_path: Path, sanitizer: str) -> None:
    ca = Authority.new()
    server = ca.issue().write(tmp_path, "server").both
    program = build(tmp_path, "tls_stress", sanitizer, "-ldl")
    printed = run(program, seeds.examples(2), ca.write(tmp_path / "ca.pem"), server)
    numbers = re.fullmatch(r"ok: (\d+) handshakes, (\d+) resumed\n", printed)
    assert numbers, printed
    assert min(map(int, numbers.groups())) >= 1


def test_the_queue_keeps_its_rules(tmp_path: Path) -> None:
    assert run(build(tmp_path, "queue_test", MEMORY), 1) == "ok\n"


@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_slices_are_read_once_and_in_order_under_stress(tmp_path: Path, sanitizer: str) -> None:
    printed = run(build(tmp_path, "queue_stress", sanitizer), seeds.examples(8))
    names = "read", "dropped", "joined", "notified", "failures", "compacted"
    numbers = re.fullmatch("ok: " + ", ".join(rf"(\d+) {name}" for name in names) + "\n", printed)
    assert numbers, printed
    assert min(map(int, numbers.groups())) >= 20


@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_responses_that_the_io_thread_queues_come_once_under_stress(tmp_path: Path, sanitizer: str) -> None:
    printed = run(build(tmp_path, "fast_path_stress", sanitizer), seeds.examples(20))
    numbers = re.fullmatch(r"ok: (\d+) fed, (\d+) left, (\d+) notified, (\d+) seeks, (\d+) read\n", printed)
    assert numbers, printed
    assert min(map(int, numbers.groups())) >= 100


@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_direct_send_responses_reach_their_waiting_threads_under_stress(tmp_path: Path, sanitizer: str) -> None:
    printed = run(build(tmp_path, "response_waiters_stress", sanitizer), seeds.examples(4))
    names = "responses", "called off", "left", "completed", "refused"
    numbers = re.fullmatch("ok: " + ", ".join(rf"(\d+) {name}" for name in names) + "\n", printed)
    assert numbers, printed
    assert min(map(int, numbers.groups())) >= 100


def test_the_frame_core_follows_its_model(tmp_path: Path) -> None:
    assert run(build(tmp_path, "frame_test", MEMORY), seeds.examples(150)) == "ok\n"


def test_a_missing_runtime_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "compiler"
    fake.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "cc (Debian 12.2.0-14) 12.2.0"; exit; fi\n'
        "echo '/usr/bin/ld: cannot find libtsan_preinit.o: No such file or directory' >&2; exit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(pytest.fail.Exception, match="libgcc-12-dev"):
        build(tmp_path, "frame_test", THREADS)
