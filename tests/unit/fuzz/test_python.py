"""The targets of `fuzz.atheris` hold for what they start from and for what was once found; broken code is noticed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz.atheris import targets
from fuzz.atheris.__main__ import replay
from fuzz.atheris.child import programs
from fuzz.atheris.choices import Choices
from fuzz.atheris.run import PythonRunner
from fuzz.atheris.targets import TARGETS, Broken, seeds
from fuzz.native import run as native
from kafwire.errors import ConfigError, ProtocolError
from tests.support.seeds import of_test

CASES = sorted(case for name in TARGETS for case in (native.CASES / name).glob("*"))


def samples(name: str) -> list[bytes]:
    """Some of what a target starts from, and the same with a byte changed."""
    number = of_test()
    dice = random.Random(number)
    found = list(seeds(name))
    found = dice.sample(found, min(len(found), 120))
    for data in found[:60]:
        at = dice.randrange(len(data))
        found.append(data[:at] + dice.randbytes(1) + data[at + 1 :])
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_target_holds_for_its_seeds(name: str) -> None:
    for data in samples(name):
        TARGETS[name](data)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_found_cases_stay_mended(case: Path) -> None:
    TARGETS[case.parent.name](case.read_bytes())


def test_every_target_says_its_invariant() -> None:
    for name, check in TARGETS.items():
        assert name.startswith("py-")
        first = (check.__doc__ or "").splitlines()[0]
        assert first.endswith(".")
        assert len(first) > 60


def escapes(*_: object, **__: object) -> Any:
    raise IndexError("index out of range")


class Shifting:
    """Says something else each time."""

    count = 0

    def __call__(self, *_: object, **__: object) -> Any:
        self.count += 1
        raise ProtocolError(f"number {self.count}")


@pytest.mark.parametrize(
    ("name", "part", "broken", "error"),
    [
        ("py-response", "protocol.decode_response", escapes, IndexError),
        ("py-response", "protocol.decode_response", Shifting(), Broken),
        ("py-request", "protocol.encode_request", escapes, IndexError),
        ("py-request", "read_request", escapes, IndexError),
        ("py-spec", "to_json", escapes, IndexError),
        ("py-json", "from_json", Shifting(), Broken),
        ("py-records", "decode_batches", lambda *_, **__: [], Broken),
        ("py-records", "records_json", lambda *_: [], Broken),
        ("py-wire", "choose", lambda *_, **__: 1000, (Broken, KeyError)),
        ("py-wire", "run_frames", len, Broken),
        ("py-dump", "_said", lambda client, server, step: step, Broken),
        ("py-dump", "Decoder", escapes, IndexError),
        ("py-config", "config.from_dotted", escapes, IndexError),
        ("py-config", "asdict", lambda _: {}, (Broken, ConfigError)),
    ],
)
def test_a_planted_mistake_is_noticed(
    name: str, part: str, broken: Callable[..., Any], error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = targets
    *path, attribute = part.split(".")
    for step in path:
        owner = getattr(owner, step)
    monkeypatch.setattr(owner, attribute, broken)
    with pytest.raises(error):
        for data in seeds(name):
            TARGETS[name](data)


def test_replay_reports_failing_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "py-wire" / "case.bin"
    file.parent.mkdir()
    file.write_bytes(b"")
    assert replay([file]) == 0
    assert "case.bin: fine" in capsys.readouterr().out
    find = file.rename(tmp_path / "py-json-0123.bin")
    assert replay([find]) == 0
    with pytest.raises(SystemExit, match="neither its folder nor its name"):
        replay([tmp_path / "else.bin"])


def test_a_case_that_fails_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "py-wire", escapes)
    file = tmp_path / "py-wire-1.bin"
    file.write_bytes(b"")
    assert replay([file]) == 1
    assert "IndexError: index out of range" in capsys.readouterr().out


def test_choices_are_the_first_ones_when_the_input_is_used_up() -> None:
    choices = Choices(b"\5")
    assert choices.below(3) == 2
    assert (choices.byte(), choices.below(300), choices.one_in(2), choices.rest()) == (0, 0, False, b"")
    assert (choices.text(), choices.whole(), choices.anything()) == ("", 0, None)
    assert Choices(b"abc").take(2) == b"ab"


def test_programs_are_files_that_run_one_target(tmp_path: Path) -> None:
    made = PythonRunner(tmp_path, tmp_path / "cases").programs(["py-wire", "py-json"])
    assert set(made) == {"py-wire", "py-json"}
    program = programs(["py-wire"], tmp_path / "atheris")["py-wire"]
    assert program == made["py-wire"]
    compile(program.read_text(), str(program), "exec")
    assert program.stat().st_mode & 0o111


def test_a_run_starts_from_seeds_and_cases_with_words(tmp_path: Path) -> None:
    runner = PythonRunner(tmp_path, tmp_path / "cases")
    (tmp_path / "cases" / "py-json").mkdir(parents=True)
    folders = runner._starts("py-json")
    assert folders == [tmp_path / "cases/py-json", tmp_path / "seeds/py-json"]
    assert len(list(folders[1].iterdir())) > 300
    assert '"\\"tag\\":"' in runner._dictionary("py-json").read_text()
    assert runner._dictionary("py-wire").read_text().startswith('"\\x')
