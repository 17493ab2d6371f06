"""`python -m tests.soak [--minutes N] [--seed S]`: producers under faults, all read back: docs/internals/soak.md.

0: nothing was found; 1: a violation, with the data needed to see it again; 2: the soak itself could not be run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from kafwire.broker.setup_error import SetupError
from kafwire.testing.cluster import ClusterError, KafkaCluster
from tests.soak import evidence, matrix, memory, perils, summary
from tests.soak.access import PLAINTEXT, PROTOCOLS, security_of
from tests.soak.cluster import PROPERTIES, Unwell
from tests.soak.mistakes import MISTAKES
from tests.soak.perils import PERILS
from tests.soak.script import episodes
from tests.soak.segment import Outcome, SegmentRun, Stopped
from tests.soak.state import State
from tests.soak.workers import Broken, ControlBroken

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "build" / "soak"
LATEST = RUNS / "latest"
SEGMENT_S = 300.0
LONG_MINUTES = 30
HEAP = "512m"
# Nodes that live for minutes: the quick compiler alone starts them sooner than it would pay to optimise.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1",)


class Run:
    """A run, begun or gone on with."""

    def __init__(self, folder: Path, state: State, *, mistake: str | None = None, only: bool = False) -> None:
        self.folder = folder
        self.state = state
        self._mistake = mistake
        self._only = only
        self._stopping = False
        self._began = time.monotonic()

    def run(self) -> int:
        """Run to the end, to a violation, or until stopped."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        state = self.state
        state.pid = os.getpid()
        try:
            self._perils()
            if state.finished:
                return self._finish()
            cluster = KafkaCluster(
                3,
                proxies=True,
                partitions=True,
                fault_seed=state.seed,
                properties=PROPERTIES,
                security=security_of(state.security),
                heap=HEAP,
                jvm_options=JVM_OPTIONS,
                quick=False,
            )
            self._enter("starting the cluster")
            with cluster:
                state.environment = {
                    "Kafka": cluster.version,
                    "Python": platform.python_version(),
                    "processors": str(os.cpu_count()),
                    "clients speak": state.security.upper(),
                }
                while not state.finished:
                    if self._stopping:
                        raise Stopped
                    self._segment(cluster)
                    if self._only:
                        break
        except Stopped:
            self._enter("stopped")
            print(f"stopped; to go on: python -m tests.soak --resume {self.folder}")
            return 130
        except (ClusterError, ControlBroken, SetupError, Unwell) as error:
            self._enter(f"failed: {str(error).splitlines()[0]}")
            print(error, file=sys.stderr)
            return 2
        return self._finish()

    def _perils(self) -> None:
        """Those that are wanted and were not played yet."""
        state = self.state
        for name in [name for name in state.wanted if name not in state.perils]:
            if self._stopping:
                raise Stopped
            self._enter(f"peril {name}")
            (result,) = perils.run([name], self._tell)
            state.perils[name] = result.as_json()
            state.violations += result.violations
            state.save(self.folder)
            if state.violations:
                return

    def _segment(self, cluster: KafkaCluster) -> None:
        state = self.state
        segment = matrix.segment(state.seed, state.segment, rate=state.rate)
        folder = self.folder / f"segment-{state.segment}"
        state.attempts += 1
        self._enter(f"segment {state.segment}, from episode {state.episode}")
        run = SegmentRun(
            segment,
            state.seed,
            cluster,
            folder,
            tell=self._tell,
            stopping=lambda: self._stopping,
            mistake=self._mistake,
        )
        left = state.minutes * 60 - state.seconds
        try:
            outcome = run.run(
                itertools.islice(episodes(state.seed), state.episode, None), min(SEGMENT_S, max(left, 1.0))
            )
        except Broken as error:
            outcome = run.outcome
            outcome.violations.append(str(error))
        if outcome.violations:
            self._violated(outcome, cluster, segment, folder)
        self._take(outcome)

    def _violated(self, outcome: Outcome, cluster: KafkaCluster, segment: matrix.Segment, folder: Path) -> None:
        state = self.state
        place = f"--segment {state.segment} --episode {state.episode} --rate {state.rate:g}"
        place += f" --security {state.security}" if state.security != PLAINTEXT else ""
        again = f"python -m tests.soak --seed {state.seed} {place}"
        state.violations = [f"segment {state.segment}: {one}" for one in outcome.violations]
        said = evidence.last_words(folder)
        text = "\n\n".join([*state.violations, *said, f"again: {again}", f"evidence: {folder}"])
        (folder / "violations.txt").write_text(text + "\n")
        print(text, flush=True)
        self._enter("keeping the evidence")
        evidence.keep(folder, cluster, outcome.reports, segment.topics)

    def _take(self, outcome: Outcome) -> None:
        """Add a segment that was judged."""
        state = self.state
        state.kafwire.add(outcome.kafwire)
        state.control.add(outcome.control)
        state.faults.update(outcome.faults)
        state.recovery_s = max(state.recovery_s, outcome.recovery_s)
        state.settled_s = max(state.settled_s, outcome.settled_s)
        state.peak_mib = max(state.peak_mib, outcome.peak_mib)
        # This process reads and judges; it grows with the segment, not with the run.
        mine = {"begun": outcome.judge_mib[0], "end": memory.resident_mib(), "peak": memory.peak_mib()}
        outcome.memory["the judge"] = mine
        for name, reported in outcome.memory.items():
            before = state.memory.setdefault(name, dict.fromkeys(reported, 0.0))
            state.memory[name] = max(before, reported, key=lambda one: one["peak"])
        state.seconds += outcome.seconds
        state.episode = max(state.episode, outcome.episode)
        state.segment += 1
        state.save(self.folder)

    def _finish(self) -> int:
        state = self.state
        self._enter("violated" if state.violations else "finished")
        text = summary.text(state)
        (self.folder / "summary.md").write_text(text)
        (self.folder / "summary.json").write_text(json.dumps(summary.figures(state), indent=1))
        print(text)
        print("".join(summary.violations(state)), end="")
        if summary.document(ROOT / "docs" / "internals" / "results" / "soak.md", state):
            print("written to docs/internals/results/soak.md")
        return 1 if state.violations else 0

    def _enter(self, phase: str) -> None:
        self.state.phase = phase
        self.state.save(self.folder)
        self._tell(phase)

    def _tell(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {line}", flush=True)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True


def status(folder: Path) -> int:
    """Print where a run is; 0 while it runs or when it ended well, 1 otherwise."""
    try:
        state = State.load(folder)
    except FileNotFoundError:
        print(f"no run in {folder}", file=sys.stderr)
        return 2
    ended = state.phase in ("finished", "violated", "stopped") or state.phase.startswith("failed")
    alive = not ended and _alive(state.pid)
    where = "running" if alive else "ended" if ended else "cut off"
    print(f"{folder.resolve()}: {where} (process {state.pid}), {state.phase}\n")
    print(summary.text(state))
    if not alive and state.phase != "finished":
        print(f"to go on: python -m tests.soak --resume {folder.resolve()}")
    return 0 if alive or state.phase == "finished" else 1


def chosen(given: str | None, minutes: float) -> list[str]:
    """The perils of a run: those that were named, or all in one that is long."""
    if given is None:
        return list(PERILS) if minutes >= LONG_MINUTES else []
    names = list(PERILS) if given == "all" else [name for name in given.split(",") if name]
    unknown = [name for name in names if name not in PERILS]
    if unknown:
        raise SystemExit(f"no peril is called {', '.join(unknown)}: there are {', '.join(PERILS)}")
    return names


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def _detach(arguments: list[str], folder: Path) -> int:
    """Start the same in the background, in a session of its own."""
    with (folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    print(f"pid {process.pid}\nfolder {folder}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="under load, reading apart (default: 3)")
    parser.add_argument("--seed", type=int, help="default: another one each time, printed")
    parser.add_argument("--rate", type=float, default=1.0, help="multiplies the records sent in a second (default: 1)")
    parser.add_argument(
        "--security", choices=PROTOCOLS, default=PLAINTEXT, help="the clients' protocol (perils: plain)"
    )
    parser.add_argument("--folder", type=Path, help="where the run is kept (default: a new one in build/soak)")
    parser.add_argument("--detach", action="store_true", help="run in the background; print the pid and the folder")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with a run that was cut off")
    parser.add_argument("--status", nargs="?", type=Path, const=LATEST, metavar="FOLDER", help="say where a run is")
    parser.add_argument("--segment", type=int, help="this segment only, as a violation's report says it")
    parser.add_argument("--episode", type=int, default=0, help="the episode to begin with")
    parser.add_argument("--perils", help=f"faults with oracles of their own, all or some of {', '.join(PERILS)}")
    parser.add_argument("--mistake", choices=MISTAKES, help="plant a mistake, which is to be found")
    return parser


def main() -> int:
    """Parse the command line, run."""
    options = _parser().parse_args()
    if options.status:
        return status(options.status)
    if options.resume:
        folder = options.resume.resolve()
        state = State.load(folder)
        if _alive(state.pid) and state.pid:
            print(f"process {state.pid} runs this already", file=sys.stderr)
            return 2
    else:
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
        folder = (options.folder or RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        state = State(seed, options.minutes, options.rate, options.security)
        state.segment, state.episode = options.segment or 0, options.episode
        state.wanted = chosen(options.perils, options.minutes)
        state.save(folder)
    if folder.parent == RUNS:
        LATEST.unlink(missing_ok=True)
        LATEST.symlink_to(folder.name)
    if options.detach:
        return _detach(["--resume", str(folder)], folder)
    memory.few_arenas()
    print(f"seed {state.seed}, folder {folder}", flush=True)
    return Run(folder, state, mistake=options.mistake, only=options.segment is not None).run()


if __name__ == "__main__":
    sys.exit(main())
