"""`python -m tests.soak.hidden_inputs [--cycles N] [--seed S] [--resume FOLDER]` hunts hidden committed inputs.

docs/internals/results/soak.md has the open finding. Three nodes of Apache Kafka run; different nodes lead the state of
transactions, the groups' offsets, and the first partition of each sink. In each cycle members write on the records that
they read, in transactions. A SIGSTOP stops each member within one, while the coordinator of the transactions or of the
groups is killed; the next producer of the same transactional id begins, in another process or in the one that goes on.
kafwire and confluent-kafka then read the sinks, with and without uncommitted records, and the judge compares that with
the transactions that members had reported as committed. The seed decides each choice. A stopped run goes on with the
next cycle, on a new cluster.

0: all cycles ran, without a finding; 1: a finding, with its dump in the folder; 2: no run was possible; 130: stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from kafwire.broker.setup_error import SetupError
from kafwire.errors import KafkaError
from kafwire.testing.cluster import ClusterError, KafkaCluster
from tests.soak.cluster import Unwell, Watch
from tests.soak.hidden_cycle import SESSION_MS, Cycle
from tests.soak.hidden_evidence import BrokerLogs, count_markers, keep
from tests.soak.hidden_judgement import plan

PROPERTIES: dict[str, object] = {
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 1,  # a plan may have two replicas of it, and kill one
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 0,
    "log.cleaner.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}
_STATE, _BROKERS = "state.json", "brokers.log"
_UNWELL_LIMIT = 3  # cycles in a row that could not be run

Tell = Callable[[str], None]


class Stopped(RuntimeError):
    """A signal asked the run to end."""


@dataclass
class State:
    """A run: what it was asked for, and the counts of the cycles that were judged."""

    seed: int
    cycles: int
    lanes: int
    rate: float
    cycle: int = 0  # the next one
    judged: int = 0
    unwell: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    markers: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Put it into the folder, whole or not at all."""
        beside = folder / f"{_STATE}.new"
        beside.write_text(json.dumps(vars(self), indent=1))
        beside.replace(folder / _STATE)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The state in a folder. Raises FileNotFoundError if there is none."""
        known = json.loads((folder / _STATE).read_text())
        known["counts"], known["markers"] = Counter(known["counts"]), Counter(known["markers"])
        return cls(**known)


class Run:
    """The cycles of a run, from where its state is."""

    def __init__(self, state: State, folder: Path, tell: Tell, *, mistake: bool = False) -> None:
        self._state, self._folder, self._tell, self._mistake = state, folder, tell, mistake

    def run(self) -> None:
        """Run until all cycles are judged, or there is a finding."""
        state, failed = self._state, 0
        while state.cycle < state.cycles and not state.findings:
            try:
                with KafkaCluster(3, properties=PROPERTIES, heap="256m", partitions=True) as cluster:
                    watch = Watch(cluster)
                    try:
                        logs = BrokerLogs(cluster)
                        while state.cycle < state.cycles and not state.findings:
                            self._cycle(cluster, watch, logs)
                            failed = 0
                    finally:
                        watch.close()
            except (Unwell, ClusterError, KafkaError) as error:  # the cluster's fault: the next cycle has a new one
                failed += 1
                self._tell(f"cycle {state.cycle} could not be run: {error}")
                state.unwell += 1
                state.cycle += 1
                state.save(self._folder)
                if failed == _UNWELL_LIMIT:
                    raise

    def _cycle(self, cluster: KafkaCluster, watch: Watch, logs: BrokerLogs) -> None:
        state = self._state
        folder = self._folder / f"cycle-{state.cycle}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        chosen = plan(state.seed, state.cycle, state.lanes)
        (folder / "plan.json").write_text(json.dumps(asdict(chosen), indent=1))
        cycle = Cycle(
            chosen,
            cluster,
            watch,
            folder,
            seed=state.seed,
            rate=state.rate,
            mistake=self._mistake,
            tell=self._tell,
        )
        began = time.monotonic()
        cycle.run()
        lines = logs.news()
        with (self._folder / _BROKERS).open("a") as file:
            file.writelines(f"{line}\n" for line in [f"cycle {state.cycle}:", *lines])
        markers = count_markers(lines)
        state.markers.update(markers)
        state.counts.update([chosen.order, f"{chosen.victim} killed"])
        state.counts["stopped within a transaction"] += sum(bool(lane.stopped) for lane in cycle.lanes)
        state.counts["inputs reported as committed"] += sum(lane.claimed for lane in cycle.lanes)
        state.counts["commits reported while their markers were held"] += cycle.held
        for lane in cycle.lanes:
            state.counts[f"stopped at {lane.stopped or 'no transaction'}"] += 1
            state.counts["next producer in " + ("another process" if lane.plan.successor else "the same process")] += 1
        if cycle.violations:
            state.findings = [f"cycle {state.cycle}: {one}" for one in cycle.violations]
            ids = {lane.sink: lane.transactional_id for lane in cycle.lanes}
            keep(cluster, folder, cycle.hidden() or {lane.sink: set() for lane in cycle.lanes}, ids)
            (folder / "coordinator.txt").write_text("\n".join(cycle.states) + "\n")
            (folder / "findings.txt").write_text("\n".join(cycle.violations) + "\n")
        else:
            shutil.rmtree(folder)
        self._tell(
            f"cycle {state.cycle}: {sum(lane.claimed for lane in cycle.lanes)} inputs reported as committed, "
            f"markers {markers}, {time.monotonic() - began:.1f} s: {'; '.join(cycle.violations) or 'nothing'}"
        )
        state.cycle += 1
        state.judged += 1
        state.save(self._folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.hidden_inputs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cycles", type=int, help="how many, those of a resumed run included (default: 10)")
    parser.add_argument("--seed", type=int, help="default: another one each time, printed")
    parser.add_argument("--lanes", type=int, default=2, help="transactional ids in each cycle (default: 2)")
    parser.add_argument("--rate", type=float, default=300.0, help="inputs a second (default: 300)")
    parser.add_argument("--folder", type=Path, help="where the state and the findings are kept (default: a new one)")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with a run")
    parser.add_argument("--mistake", action="store_true", help="plant a hidden transaction, to see that it is found")
    return parser


def _state_of(options: argparse.Namespace) -> tuple[State, Path]:
    if options.resume is not None:
        state = State.load(options.resume)
        state.cycles = options.cycles or state.cycles
        return state, options.resume
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kafwire-hidden-"))
    folder.mkdir(parents=True, exist_ok=True)
    return State(seed, options.cycles or 10, options.lanes, options.rate), folder


def _on_signal(_number: int, _frame: object) -> None:
    raise Stopped


def main() -> int:
    """Parse the command line, run, print the counts."""
    options = _parser().parse_args()
    try:
        state, folder = _state_of(options)
    except (FileNotFoundError, json.JSONDecodeError, TypeError, KeyError) as error:
        print(f"--resume {options.resume}: no run is kept there: {error}", file=sys.stderr)
        return 2
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _on_signal)
    tell(f"seed {state.seed}, from cycle {state.cycle}, folder {folder}")
    state.save(folder)
    try:
        Run(state, folder, tell, mistake=options.mistake).run()
    except Stopped:
        print(f"stopped; to go on: python -m tests.soak.hidden_inputs --resume {folder}")
        return 130
    except (ClusterError, SetupError, Unwell, KafkaError) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(vars(state), indent=1))
    print("\n".join(state.findings) or f"nothing was found in {state.judged} cycles ({state.unwell} could not be run)")
    return 1 if state.findings else 0


if __name__ == "__main__":
    sys.exit(main())
