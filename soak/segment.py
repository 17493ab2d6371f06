"""One segment: topics of its own, load under faults, then everything read back and judged."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafwire.structs import TopicPartition
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.history import History, Report, check, observe, observe_group
from soak.cluster import Watch
from soak.director import Director
from soak.matrix import CONTROL, TRANSFORM, Segment, Topic, Workload
from soak.mistakes import SkippingHistory
from soak.script import Episode
from soak.state import Tally
from soak.workers import Broken, ControlBroken, Process

# I6: so soon after the faults have ended all is readable.
RECOVERY_S = 60.0
# And all that was under way is settled, which may take the longest delivery time-out more, and everybody goes on.
SETTLE_S = RECOVERY_S + 60.0
_CLIENTS = ("kafwire", "confluent-kafka")
_LEVELS = ("read_uncommitted", "read_committed")
_BEGIN_S = 60.0
_SLICE_S = 0.2


class Stopped(RuntimeError):
    """Somebody asked the run to end."""


@dataclass
class Outcome:
    """What a segment came to. `violations` are kafwire's, in words; `episode` is the number of the next episode."""

    seconds: float = 0.0
    episode: int = 0
    kafwire: Tally = field(default_factory=Tally)
    control: Tally = field(default_factory=Tally)
    faults: Counter[str] = field(default_factory=Counter)
    recovery_s: float = 0.0
    settled_s: float = 0.0
    peak_mib: float = 0.0
    violations: list[str] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)


class SegmentRun:
    """Runs a segment on a cluster that is there. `stopping()` says whether to give up, with `Stopped`."""

    def __init__(
        self,
        segment: Segment,
        seed: int,
        cluster: KafkaCluster,
        folder: Path,
        *,
        tell: Callable[[str], None],
        stopping: Callable[[], bool] = lambda: False,
        mistake: str | None = None,
    ) -> None:
        self._segment = segment
        self._cluster = cluster
        self._folder = folder
        self._seed = seed
        self._tell = tell
        self._stopping = stopping
        self._mistake = mistake
        self._processes: list[Process] = []
        self._marks = 0
        self.outcome = Outcome()

    def run(self, episodes: Iterator[Episode], seconds: float) -> Outcome:
        """Load for `seconds`, with as many episodes as begin within them; then read and judge."""
        segment, outcome = self._segment, self.outcome
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        watch = Watch(self._cluster)
        director = Director(self._cluster, watch, self._wait, self._tell)
        every = (*segment.topics, *segment.control_topics)
        try:
            watch.create(every)
            for name, workloads in segment.processes.items():
                self._processes.append(
                    Process(name, workloads, self._folder, self._cluster.bootstrap, self._seed, self._mistake)
                )
            self._wait_begun()
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                episode = next(episodes)
                self._tell(f"episode {episode.number}: {episode.name}")
                director.play(episode, every)
                outcome.episode = episode.number + 1
                self._recover(watch, episode)
                self._wait(episode.rest)
            for process in self._processes:
                process.stop()
            for process in list(self._processes):
                self._look(process, process.join)
            outcome.seconds = time.monotonic() - began
            watch.wait_readable(every, self._wait, RECOVERY_S)
        finally:
            outcome.faults = director.faults
            watch.close()
            for process in self._processes:
                process.kill()
        self._judge()
        return outcome

    # -- under load

    def _wait_begun(self) -> None:
        """Return when all processes are at work."""
        deadline = time.monotonic() + _BEGIN_S
        while not all(process.totals()["acked"] for process in self._processes):
            if time.monotonic() > deadline:
                raise Broken(f"not at work within {_BEGIN_S:g} s: {[process.counts for process in self._processes]}")
            self._wait(_SLICE_S)

    def _recover(self, watch: Watch, episode: Episode) -> None:
        """Wait until everything goes on as before, and take the times."""
        self._marks += 1
        mark = self._marks
        for process in self._processes:
            process.mark(mark)
        began = time.monotonic()
        readable = watch.wait_readable(self._segment.topics, self._wait, RECOVERY_S)
        self._tell(f"readable after {readable:.1f} s")
        after = f"after episode {episode.number} ({episode.name})"
        if readable > RECOVERY_S:
            ends = [watch.ends(self._segment.topics, level) for level in _LEVELS]
            self.outcome.violations.append(
                f"not all is readable {RECOVERY_S:g} s {after}: logs end at {ends[0]}, for read_committed at {ends[1]}"
            )
        while not all(mark in process.recovered for process in self._processes):
            if time.monotonic() - began > SETTLE_S:
                break
            self._wait(_SLICE_S)
        for process in self._processes:
            took = process.recovered.get(mark)
            self._tell(f"{process.name}: {process.totals()['acked']:,} acknowledged, settled after {took}")
            if took is None and process.name == CONTROL:
                self.outcome.control.errors["error not settled"] += 1
            elif took is None:
                self.outcome.violations.append(
                    f"{process.name} has not settled what was under way {SETTLE_S:g} s {after}: {process.counts}"
                )
            elif process.name != CONTROL:
                self.outcome.settled_s = max(self.outcome.settled_s, *took.values())
        self.outcome.recovery_s = max(self.outcome.recovery_s, readable)

    def _wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while True:
            if self._stopping():
                raise Stopped
            for process in list(self._processes):
                self._look(process, process.check)
            left = ends - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _SLICE_S))

    def _look(self, process: Process, check: Callable[[], None]) -> None:
        """Run a check of a process. A control that ended by itself is noted, and the segment goes on without it."""
        try:
            check()
        except ControlBroken as error:
            self._tell(f"without the control from here on, which is not judged: {str(error).splitlines()[0]}")
            self.outcome.control.errors["error ended by itself"] += 1
            self._processes.remove(process)
            process.kill()

    # -- the judgement

    def _judge(self) -> None:
        own = [process for process in self._processes if process.name != CONTROL]
        control = [process for process in self._processes if process.name == CONTROL]
        for name, tally, processes, topics in (
            ("kafwire", self.outcome.kafwire, own, self._segment.topics),
            ("control", self.outcome.control, control, self._segment.control_topics),
        ):
            if not processes:
                continue
            workloads = [one for process in processes for one in self._segment.processes[process.name]]
            report = self._read_and_check(name, processes, topics, workloads)
            self.outcome.reports[name] = report
            tally.counts.update(report.counts)
            tally.found.update(report.found)
            for process in processes:
                totals = process.totals()
                tally.errors.update({key: count for key, count in totals.items() if key.startswith("error ")})
            self._tell(f"{name}: {str(report).splitlines()[0]}")
            if name == "kafwire":
                self._accuse(report)
        for process in own:
            assert process.done is not None
            self.outcome.peak_mib = max(self.outcome.peak_mib, process.done["peak_mib"])

    def _accuse(self, report: Report) -> None:
        violations = self.outcome.violations
        if not report.ok:
            violations.append(str(report))
        for name in ("unread", "unjudged"):
            if report.counts[name]:
                violations.append(f"{name}: {report.counts[name]}\n{report}")

    def _read_and_check(
        self, name: str, processes: list[Process], topics: tuple[Topic, ...], workloads: list[Workload]
    ) -> Report:
        made = SkippingHistory if self._mistake == "skip" and name == "kafwire" else History
        path = self._folder / f"{name}-observers.history"
        servers = self._cluster.direct
        with made(path) as history:
            for client in _CLIENTS:
                for level in _LEVELS:
                    began = time.monotonic()
                    count = observe(
                        history, servers, [topic.name for topic in topics], client=client, isolation_level=level
                    )
                    self._tell(f"{name}: {client} read {count} records ({level}) in {time.monotonic() - began:.1f} s")
            for one in workloads:
                if one.kind == TRANSFORM and one.source is not None:
                    places = [TopicPartition(one.source.name, place) for place in range(one.source.partitions)]
                    observe_group(history, servers, one.group, places)
        report = check(*(process.history for process in processes), path)
        (self._folder / f"{name}-report.txt").write_text(f"{report}\n")
        return report
