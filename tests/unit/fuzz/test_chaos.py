"""Reports of sanitizers are finds; memory that the interpreter leaves behind is none."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from fuzz.chaos import build
from fuzz.chaos.actors import PROGRAMS, Actor, Stage
from fuzz.chaos.client import ACTORS
from fuzz.chaos.run import Outcome, judge, keep
from fuzz.native.build import BuildError
from kafwire.errors import ConfigError, KafkaTimeoutError

COUNTS = json.dumps([{"records": 3}, []])
CLEAN = f"warming up\n{COUNTS}\n"
LEAKS = """
=================================================================
==1==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 952 byte(s) in 17 object(s) allocated from:
    #0 0x7f in __interceptor_malloc ../asan_malloc_linux.cpp:69
    #1 0x7f in gc_alloc Modules/gcmodule.c:2283

{more}SUMMARY: AddressSanitizer: 3120 byte(s) leaked in 53 allocation(s).
"""
OURS = """Indirect leak of 64 byte(s) in 1 object(s) allocated from:
    #0 0x7f in __interceptor_calloc ../asan_malloc_linux.cpp:77
    #1 0x7f in kw_queue_new kafwire/consumer/fetch/native/queue.c:80

"""


def test_a_run_without_reports_has_no_finds() -> None:
    assert judge(0, CLEAN, "a line of the log\n") == Outcome(
        {"records": 3}, report=f"exit 0\n{CLEAN}\na line of the log\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60",
        "queue.c:12:3: runtime error: signed integer overflow",
        "WARNING: ThreadSanitizer: data race (pid=7)",
    ],
)
def test_each_report_of_a_sanitizer_is_a_find(line: str) -> None:
    (find,) = judge(1, "", f"{line}\n    #0 0x7f in kw_queue_pop\n").finds
    assert find in line


def test_leaks_of_kafwire_are_finds_and_those_of_the_interpreter_are_not() -> None:
    assert judge(23, CLEAN, LEAKS.format(more="")).finds == []
    (find,) = judge(23, CLEAN, LEAKS.format(more=OURS)).finds
    assert "kw_queue_new" in find


def test_an_error_of_the_client_is_a_finding() -> None:
    out = json.dumps([{}, ["scan 1 hangs"]])
    assert judge(1, f"{out}\n", "").finds == ["scan 1 hangs"]


def test_a_client_that_ends_without_a_word_is_a_find() -> None:
    assert judge(1, "", "Traceback:\nImportError: no such name\n").finds == [
        "the client ended by 1: ImportError: no such name"
    ]


def test_the_report_of_a_find_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.chaos.run.FINDS", tmp_path)
    text = keep(Outcome(finds=["a race"], report="all of it"), "threads", 7).read_text()
    assert text == "a race\n\nall of it"


def test_every_program_has_actors() -> None:
    assert set(ACTORS) == set(PROGRAMS)


def test_an_error_that_no_fault_explains_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(error: Exception) -> Any:
        def run(stage: Stage, chance: random.Random) -> None:
            stage.until = 0.0
            raise error

        return run

    problems = []
    for error in (KafkaTimeoutError("late"), ConfigError("unknown option"), IndexError("escaped")):
        monkeypatch.setitem(PROGRAMS, "scan", program(error))
        actor = Actor(Stage([], until=math.inf, seed=1), "scan", 0)
        actor.run()
        problems.append(actor.problem)
    assert [type(problem) for problem in problems] == [type(None), ConfigError, IndexError]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SANITIZERS", {"memory": ("address", "libnothing.so")})
    with pytest.raises(BuildError, match=r"libnothing\.so: apt-get install"):
        build.preloaded("memory")
