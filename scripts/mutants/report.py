"""The results of a draw, as JSON that is kept after each break, and as text."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.mutants.site import Site
from scripts.mutants.trying import Outcome

COUNTED = ("killed", "equivalent", "survived", "unseen", "unsteady")


def diff(site: Site, source: str) -> str:
    """The break as a patch."""
    name = str(site.path)
    lines = difflib.unified_diff(
        source.splitlines(), site.apply(source).splitlines(), name, f"{name}, broken", lineterm="", n=2
    )
    return "\n".join(lines)


@dataclass
class Report:
    """The report of one draw."""

    path: Path
    seed: int
    count: int
    areas: list[str]
    program: str  # a digest: results hold for one program
    possible: dict[str, int] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def load(self) -> None:
        """Go on where an earlier run of the same draw stopped, if the program is the same."""
        if not self.path.exists():
            return
        said = json.loads(self.path.read_text())
        if said["program"] == self.program:
            self.results = said["results"]

    def known(self, site: Site) -> dict[str, Any] | None:
        """The result of an earlier run for a break."""
        return next((result for result in self.results if tuple(result["key"]) == site.key), None)

    def add(self, site: Site, outcome: Outcome, patch: str, tests: str) -> None:
        """One more; `tests` is a digest of those that it was tried with."""
        self.results = [result for result in self.results if tuple(result["key"]) != site.key]
        self.results.append(
            {
                "key": site.key,
                "area": site.area,
                "path": str(site.path),
                **asdict(outcome),
                "tests": tests,
                "diff": patch,
            }
        )
        self.save()

    def save(self) -> None:
        """Write both forms."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        said = asdict(self) | {"path": str(self.path), "summary": self.summary()}
        self.path.write_text(json.dumps(said, indent=1))
        self.path.with_suffix(".txt").write_text(self.text())

    def summary(self) -> dict[str, Any]:
        """Counts, of all and by area and pattern."""
        counted = [result for result in self.results if result["status"] in COUNTED]
        by_area = {
            area: dict(Counter(result["status"] for result in self.results if result["area"] == area))
            for area in sorted({result["area"] for result in self.results})
        }
        by_pattern = {
            pattern: dict(Counter(result["status"] for result in counted if result["key"][1] == pattern))
            for pattern in sorted({result["key"][1] for result in counted})
        }
        return {
            "seed": self.seed,
            "drawn": len(counted),
            "wanted": self.count,
            **dict(Counter(result["status"] for result in self.results)),
            "by_area": by_area,
            "by_pattern": by_pattern,
        }

    def text(self) -> str:
        """The report as text: the counts, then the surviving breaks with their patches, then the killed ones."""
        said = self.summary()
        lines = [f"seed {self.seed}: {said['drawn']} of {self.count} breaks"]
        lines += [f"  {status}: {said[status]}" for status in (*COUNTED, "not built") if status in said]
        lines += [
            f"  {area}: {', '.join(f'{n} {s}' for s, n in found.items())}" for area, found in said["by_area"].items()
        ]
        lines += [f"list of equivalents: {each}" for each in self.wrong]
        for result in self.results:
            if result["status"] in {"survived", "unseen", "unsteady", "equivalent"}:
                function, pattern = result["key"][:2]
                lines += ["", f"{result['status']}: {function}: {pattern} {result['test']} {result['how']}".rstrip()]
                lines += [result["diff"]]
        lines += ["", "killed by:"]
        for result in self.results:
            if result["status"] == "killed":
                function, pattern, was, becomes, _ = result["key"]
                lines += [f"  {function}: {pattern}: {was} -> {becomes}", f"    {result['test']}: {result['how']}"]
        return "\n".join(lines) + "\n"
