"""Runs Python targets as `fuzz.native.run` runs native ones: same corpus, finds, minimising and totals."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from fuzz.atheris.child import programs
from fuzz.atheris.targets import TARGETS, seeds
from fuzz.native.run import Runner
from fuzz.native.seeds import dictionary

WORDS = {
    "py-json": (
        *("null", "true", "false", "[]", "{}", "[{}]", '""', "-1", "1e999", "NaN", "9223372036854775808"),
        *("_unknownTaggedFields", '"tag":', '"data":'),
    ),
}


class PythonRunner(Runner):
    """Runs the targets of `fuzz.atheris.targets`."""

    def programs(self, names: list[str]) -> dict[str, Path]:
        """Return a program per target."""
        return programs(names, self._folder / "atheris")

    def _starts(self, target: str) -> list[Path]:
        folder = self._folder / "seeds" / target
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seeds(target):
            (folder / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
        return [path for path in (self._cases / target, folder) if path.is_dir()]

    def _dictionary(self, target: str) -> Path:
        path = self._folder / f"{target}.dict"
        words = [word.replace('"', '\\"') for word in WORDS.get(target, ())]
        path.write_text("".join(f'"{word}"\n' for word in words) or dictionary(target))
        return path


def available() -> bool:
    """True if atheris is installed; there is none for some versions of Python."""
    return importlib.util.find_spec("atheris") is not None


def run_python(names: list[str], seed: int, seconds: float) -> int:
    """Run targets for `seconds` each; returns the number of finds. The registration point of `python -m fuzz`."""
    runner = PythonRunner()
    made = runner.programs(names)
    return sum(runner.slice(name, made[name], seconds, seed) for name in names)


__all__ = ["TARGETS", "PythonRunner", "available", "run_python"]
