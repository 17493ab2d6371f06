"""The runner of the native fuzz targets finds planted mistakes. It needs clang, so it belongs to `make fuzz`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.native import build
from fuzz.native import run as native

ROOT = Path(__file__).resolve().parents[2]
SEED = 20130101
PLANTED = {"overflow": "O", "undefined": "U", "leak": "L"}
REASONS = {"overflow": "heap-buffer-overflow", "undefined": "signed integer overflow", "leak": "byte.s. leaked"}


@pytest.mark.parametrize("mistake", PLANTED)
def test_the_native_runner_finds_a_planted_mistake(
    mistake: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letter = PLANTED[mistake]
    monkeypatch.setattr(build, "BUILD", tmp_path)
    monkeypatch.setattr(native, "MINIMISE_S", 1)
    program = build.Builder().one_file("planted", ROOT / "tests/native/planted.c", f"-DMISTAKE='{letter}'")
    runner = native.Runner(tmp_path, tmp_path / "cases")
    start = tmp_path / "corpus/planted"
    start.mkdir(parents=True)
    (start / "start").write_bytes(b"+K+")  # one byte short of the mistake
    assert runner.slice("planted", program, 20, SEED) == 1
    totals = runner.state.read()["planted"]
    assert totals.executions > 0
    assert totals.seeds == [SEED]
    ((found, reason),) = totals.finds.items()
    assert Path(found).read_bytes().startswith(letter.encode() + b"K")
    assert re.search(REASONS[mistake], reason)
    wrong = runner.replay(program, [Path(found)])
    assert wrong
    assert re.search(REASONS[mistake], wrong)
    assert f"{reason}" in capsys.readouterr().out
