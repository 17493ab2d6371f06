"""Which breaks are tried: by a seed, in fixed shares of the areas, by pattern first and then by function."""

from __future__ import annotations

import random
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.mutants import compiled_sites, python_sites
from scripts.mutants.rules import AREAS, WEIGHTS, Area
from scripts.mutants.site import Site

SCANS = {
    ".py": python_sites.scan,
    ".pyx": compiled_sites.scan_cython,
    ".c": compiled_sites.scan_c,
    ".h": compiled_sites.scan_c,
}
Key = tuple[str, str, str, str, int]


def all_sites(root: Path, areas: Iterable[Area] = AREAS) -> list[Site]:
    """Every break that is possible in the tree."""
    found: list[Site] = []
    for area in areas:
        for path in sorted({path for glob in area.sources for path in root.glob(glob)}):
            here = SCANS[path.suffix](path.read_text())
            found += [replace(site, path=path.relative_to(root), area=area.name) for site in here]
    return found


@dataclass(frozen=True)
class Judgements:
    """Sites that were judged to change nothing: reasons by key; and the errors of the list."""

    reasons: dict[Key, str]
    wrong: list[str]


def judged(path: Path, sites: Iterable[Site]) -> Judgements:
    """Read the list of equivalents, and compare it with the breaks that are possible now."""
    places: dict[Key, set[Path]] = defaultdict(set)
    for site in sites:
        places[site.key].add(site.path)
    reasons: dict[Key, str] = {}
    wrong = []
    for entry in tomllib.loads(path.read_text()).get("equivalent", []):
        key = (entry["function"], entry["pattern"], entry["was"], entry["becomes"], entry.get("nth", 0))
        said = f"{entry['function']}: {entry['pattern']}: {entry['was']} -> {entry['becomes']}"
        if key not in places:
            wrong.append(f"stale, nothing in the program is like it: {said}")
        elif len(places[key]) > 1:
            wrong.append(f"ambiguous, in {', '.join(map(str, sorted(places[key])))}: {said}")
        elif key in reasons:
            wrong.append(f"there twice: {said}")
        else:
            reasons[key] = entry["reason"]
    return Judgements(reasons, wrong)


def shares(count: int, areas: Sequence[Area] = AREAS) -> dict[str, int]:
    """How many of a draw fall to each area: by its share, rounded so that the sum is right."""
    total = sum(area.share for area in areas)
    exact = {area.name: count * area.share / total for area in areas}
    found = {name: int(part) for name, part in exact.items()}
    by_rest = sorted(exact, key=lambda name: (found[name] - exact[name], name))
    for name in by_rest[: count - sum(found.values())]:
        found[name] += 1
    return found


def draws(sites: Iterable[Site], area: str, seed: int) -> Iterator[Site]:
    """All breaks of an area in the order in which the seed draws them, each once.

    First a pattern, by its weight and the root of how many functions have it; then one of these functions; then one
    of its spots. So long functions and frequent patterns hide nothing. Files' names and places have no part in it.
    """
    chance = random.Random(f"{seed} {area}")
    left: dict[str, dict[str, list[Site]]] = {}
    for site in sorted((site for site in sites if site.area == area), key=lambda site: site.key):
        left.setdefault(site.pattern, {}).setdefault(site.function, []).append(site)
    while left:
        patterns = sorted(left)
        weights = [WEIGHTS.get(pattern, 1.0) * len(left[pattern]) ** 0.5 for pattern in patterns]
        pattern = chance.choices(patterns, weights)[0]
        function = chance.choice(sorted(left[pattern]))
        spots = left[pattern][function]
        yield spots.pop(chance.randrange(len(spots)))
        if not spots:
            del left[pattern][function]
        if not left[pattern]:
            del left[pattern]
