"""The fuzz targets hold for a short while from a fixed seed, and a broken decoder does not get past them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from fuzz import __main__ as fuzzing
from fuzz.targets import TARGETS, Broken

SEED = 20130101


@pytest.mark.parametrize("name", TARGETS)
def test_target_holds(name: str) -> None:
    assert fuzzing.run(name, SEED, 0.7) == 0


class Escaping:
    """What a decoder that lets an IndexError out looks like."""

    def corpus(self) -> Sequence[bytes]:
        return [bytes(40)]

    def check(self, data: bytes, chance: random.Random) -> None:
        if len(data) < 40:
            raise IndexError("index out of range")
        if data[0]:
            raise Broken("the first byte is not zero")


def test_what_escapes_is_found_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "escaping", Escaping())
    monkeypatch.setattr(fuzzing, "FINDS", tmp_path)
    monkeypatch.setattr(fuzzing, "SLOWEST_ALLOWED_S", 60.0)
    finds = fuzzing.run("escaping", SEED, 0.1)
    assert finds > 1
    assert len(list(tmp_path.iterdir())) == finds
    printed = capsys.readouterr().out
    assert "IndexError escaped" in printed
    assert "the first byte is not zero" in printed
