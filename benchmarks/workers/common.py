"""The shared parts of every Python contender: options, the clock, memory, and the conversation with the harness.

A worker imports its client and prepares its data, prints one "ready" line, waits for "go" on standard input, repeats
passes until `seconds` of timed work are done, and prints one JSON line. A pass starts before the client is made and
ends when the last record is in hand or acknowledged; closing the client is not timed.

Options come as `name=value` arguments; those that start with `conf.` are the client's own.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.burn import neighbour

MOST_PASSES = 4096


@dataclass(frozen=True, slots=True)
class Pass:
    """One timed pass: `bytes` are those of the values, `checksum` the sum of their last bytes, where it was made.

    `figures` are what else it came to, by name.
    """

    seconds: float
    records: int
    bytes: int
    checksum: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of a worker."""

    task: str
    given: dict[str, str]

    @classmethod
    def parse(cls, arguments: list[str]) -> "Options":
        """Parse `task name=value ...`."""
        return cls(arguments[0], dict(item.split("=", 1) for item in arguments[1:]))

    def text(self, name: str) -> str:
        """A given option."""
        return self.given[name]

    def number(self, name: str) -> int:
        """A given option that is a number."""
        return int(self.given[name])

    def configuration(self) -> dict[str, str]:
        """The client's own options."""
        return {name.removeprefix("conf."): value for name, value in self.given.items() if name.startswith("conf.")}

    def keywords(self) -> dict[str, Any]:
        """The same, for clients that take them as keyword arguments."""
        return dict(self.configuration())


Task = Callable[[Options], Callable[[], Pass]]


class Stopwatch:
    """Seconds since it was made, on the clock that all contenders use."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Seconds up to now."""
        return time.perf_counter() - self._start


def work(tasks: Mapping[str, Task], version: str) -> None:
    """Be the worker that the command line asks for. `version` is the client's, for the report."""
    options = Options.parse(sys.argv[1:])
    once = tasks[options.task](options)
    before = _resident_kib()
    _forget_peak()
    print(json.dumps({"ready": True}), flush=True)
    if sys.stdin.readline() != "go\n":
        sys.exit('expected "go" on standard input')
    passes: list[Pass] = []
    cpu = time.process_time()
    total, limit = 0.0, float(options.text("seconds"))
    with neighbour(options.given.get("beside", "nothing")) as neighbour_speed:
        while not passes or (total < limit and len(passes) < MOST_PASSES):
            passes.append(once())
            total += passes[-1].seconds
        cpu = time.process_time() - cpu
        beside = neighbour_speed()
    result = {
        "passes": [
            {name: value for name, value in asdict(one).items() if name != "checksum" or value is not None}
            for one in passes
        ],
        "note": f"{version}; neighbour at {beside:.1f} M loops/s" if beside else version,
        "cpu_seconds": cpu,
        "memory_kib": {"before": before, "peak": _peak_kib()},
    }
    print(json.dumps(result), flush=True)


def _status_kib(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(field + ":")), None)


def _resident_kib() -> int:
    found = _status_kib("VmRSS")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if found is None else found


def _peak_kib() -> int:
    found = _status_kib("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if found is None else found


def _forget_peak() -> None:
    """Let the high-water mark start from here: what imports and preparation took for a moment does not count."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # not Linux: the peak then includes the imports
