"""A place in a source where a break is possible, with the break: `scan` finds it, and a run draws and tries it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """Characters start to end become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Site:
    """One break: `was` becomes `becomes` in a function, both normalised; the `nth` of its kind there."""

    pattern: str
    function: str
    was: str
    becomes: str
    edits: tuple[Edit, ...]
    path: Path = Path()
    area: str = ""
    nth: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """Its identity, wherever its file lies and however it is named."""
        return self.function, self.pattern, self.was, self.becomes, self.nth

    @property
    def name(self) -> str:
        """The key, to be read."""
        nth = f" (#{self.nth})" if self.nth else ""
        return f"{self.function}: {self.pattern}: {self.was} -> {self.becomes}{nth}"

    def apply(self, source: str) -> str:
        """The broken source."""
        for edit in sorted(self.edits, key=lambda edit: -edit.start):
            source = source[: edit.start] + edit.text + source[edit.end :]
        return source


def numbered(sites: Iterable[Site]) -> list[Site]:
    """Those of one file in the order of the source, numbered where the same break is possible twice in a function."""
    seen: Counter[tuple[str, str, str, str, int]] = Counter()
    found = []
    for site in sorted(sites, key=lambda site: (site.edits[0].start, site.edits[0].end, site.pattern, site.becomes)):
        found.append(replace(site, nth=seen[site.key]))
        seen[site.key] += 1
    return found
