"""The responses of real brokers, as files of this folder, one for each version of Kafka; and the known differences.

python -m tests.scenarios.responses 4.4.0 4.3.1 3.9.1 # ask real brokers of these versions, and rewrite the files
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "responses"
HEADING = "== "
Lines = list[str]


def recorded(version: str) -> dict[str, Lines]:
    """The lines of real brokers of this version, by scenario."""
    found: dict[str, Lines] = {}
    for line in (FOLDER / f"{version}.txt").read_text().splitlines():
        if line.startswith(HEADING):
            lines = found[line.removeprefix(HEADING)] = []
        elif line:
            lines.append(line)
    return found


def write(version: str, said: Mapping[str, Iterable[str]]) -> None:
    """Write down what real brokers of this version said."""
    text = "\n".join("".join(f"{line}\n" for line in [HEADING + name, *lines]) for name, lines in said.items())
    (FOLDER / f"{version}.txt").write_text(text)


@dataclass(frozen=True)
class Difference:
    """One line of a scenario in which another world is known not to respond as Kafka does, and the reason."""

    version: str
    scenario: str
    real: str
    other: str
    reason: str


def differences(version: str, real: Mapping[str, Lines], other: Mapping[str, Lines]) -> list[tuple[str, str, str]]:
    """(scenario, what a real broker said, what the other said), for each line that differs."""
    found = []
    for name in real.keys() | other.keys():
        here, there = real.get(name, []), other.get(name, [])
        length = max(len(here), len(there))
        pairs = zip(here + [""] * (length - len(here)), there + [""] * (length - len(there)), strict=True)
        found += [(name, mine, its) for mine, its in pairs if mine != its]
    return found


def judge(version: str, real: Mapping[str, Lines], other: Mapping[str, Lines], known: Iterable[Difference]) -> str:
    """The faults: differences that are not known, and known ones that are none any more; empty if all is well."""
    expected = {(each.scenario, each.real, each.other) for each in known if each.version == version}
    found = differences(version, real, other)
    complaints = [
        f"{name}\n  Kafka {version}: {mine}\n  but here:    {its}"
        for name, mine, its in found
        if (name, mine, its) not in expected
    ]
    complaints += [f"no longer so: {each}" for each in sorted(expected - set(found))]
    return "\n".join(complaints)


def main() -> None:
    """Ask real brokers."""
    import kafwire
    from tests.scenarios.real import OwnCluster, RealKafka
    from tests.scenarios.script import Restart, play_together, scenarios

    for version in sys.argv[1:]:
        said: dict[str, Lines] = {}
        listed = scenarios(version)
        with OwnCluster(version) as cluster, kafwire.Client(cluster.bootstrap) as client:
            kafka = RealKafka(cluster, client)
            for how in (None, *Restart):
                some = [each for each in listed if each.restart is how]
                for each, lines in zip(some, play_together(some, kafka), strict=True):
                    said[each.name] = lines
        write(version, {each.name: said[each.name] for each in listed})


if __name__ == "__main__":
    main()
