"""The state of a run, in its folder: counts of the segments that were judged, and where in the script it is.

`state.json` is written whole, beside, and put in place: a reader of it finds one of its states. Only segments that
came to their judgement are in it. A segment that was cut off, with the process or the machine, is not: its topics ended
with its brokers, so their contents are unknown. It is run again from its beginning, with the same script, on new
brokers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.soak.access import PLAINTEXT

_FILE = "state.json"


@dataclass
class Tally:
    """The findings about one side, kafwire or the control; added up over segments."""

    counts: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add another's counts to these."""
        self.counts.update(other.counts)
        self.found.update(other.found)
        self.errors.update(other.errors)


@dataclass
class State:
    """A run: what it was asked for, what it has done. `rate` multiplies the rates of the workloads; `security` is what
    its clients speak.

    `seconds` are those under load, in segments that were judged; `episode` is the number of the next one, `segment`
    that of the next segment. `attempts` counts the segments that were begun. After a heal readers got every
    acknowledged record within `recovery_s`, and records and transactions in progress had outcomes within `settled_s`.
    """

    seed: int
    minutes: float
    rate: float = 1.0
    security: str = PLAINTEXT
    segment: int = 0
    episode: int = 0
    seconds: float = 0.0
    attempts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    kafwire: Tally = field(default_factory=Tally)
    control: Tally = field(default_factory=Tally)
    recovery_s: float = 0.0
    settled_s: float = 0.0
    peak_mib: float = 0.0
    violations: list[str] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    perils: dict[str, dict[str, Any]] = field(default_factory=dict)
    # By process: the most MiB of it, and how many it had 30 s after its start and at its end, of the worst segment.
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    phase: str = ""

    @property
    def finished(self) -> bool:
        """True if it has run for its whole time, or has found something."""
        return bool(self.violations) or self.seconds >= self.minutes * 60

    def save(self, folder: Path) -> None:
        """Put it into the folder."""
        beside = folder / f"{_FILE}.new"
        beside.write_text(json.dumps(vars(self), default=vars, indent=1))
        os.replace(beside, folder / _FILE)  # noqa: PTH105 - the same, and Path.replace hides what it is for

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The state in a folder. Raises `FileNotFoundError` if there is none."""
        known: dict[str, Any] = json.loads((folder / _FILE).read_text())
        for side in ("kafwire", "control"):
            known[side] = Tally(**{name: Counter(counts) for name, counts in known[side].items()})
        known["faults"] = Counter(known["faults"])
        return cls(**known)
