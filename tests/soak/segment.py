"""One segment: topics of its own, load under faults, then everything read back and judged."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.history import History, Report, check, observe, observe_group
from kafwire.testing.history.observe import read_all
from kafwire.types import TopicPartition
from tests.soak.access import AUTHENTICATIONS, RENEWALS, options_of, shows_frames
from tests.soak.chain import Row, broken
from tests.soak.cluster import Watch
from tests.soak.concealed import concealed
from tests.soak.director import Director
from tests.soak.judgement import judged
from tests.soak.matrix import CONTROL, LEVELS, READERS, TRANSFORM, Segment, Topic, Workload
from tests.soak.memory import resident_mib
from tests.soak.mistakes import SkippingHistory
from tests.soak.readers import Ends
from tests.soak.script import ClientBlow, Episode
from tests.soak.state import Tally
from tests.soak.workers import Broken, ControlBroken, HopProcess, Process

# I6: so soon after the faults have ended all is readable.
RECOVERY_S = 60.0
# And all that was under way is settled, which may take the longest delivery time-out more, and each process goes on.
SETTLE_S = RECOVERY_S + 60.0
_CLIENTS = ("kafwire", "confluent-kafka")
_BEGIN_S = 60.0
_WARM_S = 30.0
_BEGUN = ("acked", "read", "begun")
_SLICE_S = 0.2


class Stopped(RuntimeError):
    """A signal asked the run to end."""


@dataclass
class Outcome:
    """The outcome of a segment. `violations` are kafwire's, in words; `episode` is the number of the next episode."""

    seconds: float = 0.0
    episode: int = 0
    kafwire: Tally = field(default_factory=Tally)
    control: Tally = field(default_factory=Tally)
    faults: Counter[str] = field(default_factory=Counter)
    recovery_s: float = 0.0
    settled_s: float = 0.0
    peak_mib: float = 0.0
    judge_mib: tuple[float, float] = (0.0, 0.0)  # of this process, before and after the judgement
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)


def trend(memory: Sequence[tuple[float, float]], peak_mib: float) -> dict[str, float]:
    """The MiB of a series (seconds, MiB): when all had begun, at the end, and at the most."""
    begun = next((mib for at, mib in memory if at >= _WARM_S), 0.0)
    return {"begun": begun, "end": memory[-1][1] if memory else 0.0, "peak": round(peak_mib, 1)}


def _role(process: Process) -> str:
    """The same name for processes of one sort in all segments."""
    return "kafwire-hop" if isinstance(process, HopProcess) else process.name


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
        self.processes: list[Process] = []
        self._hops: list[HopProcess] = []
        self._blows: list[tuple[float, ClientBlow]] = []
        self._marks = 0
        self.outcome = Outcome()

    def run(self, episodes: Iterator[Episode], seconds: float) -> Outcome:
        """Load for `seconds`, with as many episodes as begin within them; then read and judge."""
        segment, outcome = self._segment, self.outcome
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        watch = Watch(self._cluster)
        access = options_of(self._cluster)
        director = Director(self._cluster, watch, self._wait, self._tell, frames=shows_frames(access))
        every = segment.every_topic
        try:
            watch.create(every)
            for name, workloads in segment.processes.items():
                self.processes.append(Process(name, workloads, self._folder, access, self._seed, self._mistake))
            if segment.readings:
                self.processes.append(
                    Process(
                        READERS,
                        (),
                        self._folder,
                        access,
                        self._seed,
                        self._mistake,
                        segment.readings,
                    )
                )
            self._hops = [HopProcess(hop, self._folder, access, self._mistake) for hop in segment.hops]
            self.processes += self._hops
            self._wait_begun()
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                episode = next(episodes)
                self._tell(f"episode {episode.number}: {episode.name}")
                now = time.monotonic()
                self._blows = sorted((now + blow.at, blow) for blow in episode.clients if self._hops)
                director.play(episode, every)
                self._blows.clear()
                for hop in self._hops:
                    hop.look(resume=True)
                outcome.episode = episode.number + 1
                self._recover(watch, episode)
                self._wait(episode.rest)
            for process in self.processes:
                process.stop()
            for process in [process for process in self.processes if not process.reads]:
                self._look(process, process.join)
            outcome.seconds = time.monotonic() - began
            watch.wait_readable(every, self._wait, RECOVERY_S)
            for process in [process for process in self.processes if process.reads]:
                sources = self._sources(process)
                watch.wait_readable(sources, self._wait, RECOVERY_S)
                process.finish(self._ends(watch, sources))
                self._look(process, process.join)
        finally:
            outcome.faults += director.faults
            watch.close()
            for process in self.processes:
                process.kill()
        before = resident_mib()
        self._judge()
        outcome.judge_mib = before, resident_mib()
        return outcome

    # -- under load

    def _wait_begun(self) -> None:
        """Return when all processes are at work."""
        deadline = time.monotonic() + _BEGIN_S
        while not all(any(process.totals()[what] for what in _BEGUN) for process in self.processes):
            if time.monotonic() > deadline:
                raise Broken(f"not at work within {_BEGIN_S:g} s: {[process.counts for process in self.processes]}")
            self._wait(_SLICE_S)

    def _recover(self, watch: Watch, episode: Episode) -> None:
        """Wait until everything goes on as before, and take the times."""
        self._marks += 1
        mark = self._marks
        for process in self.processes:
            if not process.reads:
                process.mark(mark)
        began = time.monotonic()
        readable = watch.wait_readable(self._segment.topics, self._wait, RECOVERY_S)
        self._tell(f"readable after {readable:.1f} s")
        after = f"after episode {episode.number} ({episode.name})"
        if readable > RECOVERY_S:
            self.outcome.violations.append(f"not all is readable {RECOVERY_S:g} s {after}: {self._ends(watch)}")
        for process in self.processes:
            if process.reads and process not in self._hops:
                process.reach(mark, self._ends(watch))
        while not all(mark in process.recovered for process in self.processes if process not in self._hops):
            if time.monotonic() - began > SETTLE_S:
                break
            self._wait(_SLICE_S)
        for process in self.processes:
            took = process.recovered.get(mark)
            totals = process.totals()
            if process in self._hops:
                self._tell(f"{process.name}: {totals['passed on']:,} passed on")
                continue
            done = f"{totals['read']:,} read" if process.reads else f"{totals['acked']:,} acknowledged"
            self._tell(f"{process.name}: {done}, settled after {took}")
            if took is None and process.name == CONTROL:
                self.outcome.control.errors["error not settled"] += 1
            elif took is None:
                self.outcome.violations.append(
                    f"{process.name} has not settled what was under way {SETTLE_S:g} s {after}: {process.counts}"
                )
            elif process.name != CONTROL:
                self.outcome.settled_s = max(self.outcome.settled_s, *took.values())
        self.outcome.recovery_s = max(self.outcome.recovery_s, readable)

    def _ends(self, watch: Watch, topics: tuple[Topic, ...] = ()) -> Ends:
        return {level: watch.ends(topics or self._segment.topics, level) for level in LEVELS}

    def _sources(self, process: Process) -> tuple[Topic, ...]:
        return (process.hop.source,) if isinstance(process, HopProcess) else self._segment.topics

    def _wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while True:
            if self._stopping():
                raise Stopped
            for process in list(self.processes):
                self._look(process, process.check)
            self._strike_clients()
            left = ends - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _SLICE_S))

    def _strike_clients(self) -> None:
        now = time.monotonic()
        while self._blows and self._blows[0][0] <= now:
            _, blow = self._blows.pop(0)
            hop = self._hops[blow.number % len(self._hops)]
            hop.look(resume=True)
            if blow.blow == "kill":
                hop.kill_and_start()
            else:
                hop.pause(blow.seconds)
            self.outcome.faults["client killed" if blow.blow == "kill" else "client paused"] += 1
        for hop in self._hops:
            hop.look()

    def _look(self, process: Process, check: Callable[[], None]) -> None:
        """Run a check of a process. A control that ended by itself is noted, and the segment goes on without it."""
        try:
            check()
        except ControlBroken as error:
            self._tell(f"without the control from here on, which is not judged: {str(error).splitlines()[0]}")
            self.outcome.control.errors["error ended by itself"] += 1
            self.processes.remove(process)
            process.kill()

    # -- the judgement

    def _judge(self) -> None:
        own = [process for process in self.processes if process.name != CONTROL]
        control = [process for process in self.processes if process.name == CONTROL]
        for name, tally, processes, topics in (
            ("kafwire", self.outcome.kafwire, own, self._segment.topics),
            ("control", self.outcome.control, control, self._segment.control_topics),
        ):
            if not processes:
                continue
            workloads = [one for process in processes for one in self._segment.processes.get(process.name, ())]
            report = self._read_and_check(name, processes, topics, workloads)
            self.outcome.reports[name] = report
            tally.counts.update(report.counts)
            tally.found.update(report.found)
            for process in processes:
                totals = process.totals()
                tally.errors.update({key: count for key, count in totals.items() if key.startswith("error ")})
                tally.counts.update({key: totals[key] for key in (AUTHENTICATIONS, RENEWALS)})
            self._tell(f"{name}: {str(report).splitlines()[0]}")
            if name == "kafwire":
                self._accuse(report, tally)
        if self._hops:
            self._judge_chain()
        for process in own:
            assert process.done is not None
            self.outcome.peak_mib = max(self.outcome.peak_mib, process.done["peak_mib"])
            self.outcome.memory[_role(process)] = trend(process.memory, process.done["peak_mib"])
            (self._folder / f"{process.name}-memory.json").write_text(json.dumps(process.memory))

    def _judge_chain(self) -> None:
        """The last topic of the chain has the records of the first one (see `soak.chain`), by every reader."""
        first, last = self._segment.hops[0].source, self._segment.hops[-1].target
        for client in _CLIENTS:
            begin, end = (self._rows(client, topic) for topic in (first, last))
            count = sum(map(len, end.values()))
            self._tell(f"the chain: {client} read {count} records of {last.name}")
            found = broken(begin, end)
            if found:
                self.outcome.violations.append(f"the chain, as {client} reads it: " + "; ".join(found))
        counts = self.outcome.kafwire.counts
        counts["chain"] += count
        counts["hops killed"] += sum(hop.kills for hop in self._hops)
        counts["hops paused"] += sum(hop.pauses for hop in self._hops)

    def _rows(self, client: str, topic: Topic) -> dict[int, list[Row]]:
        found: dict[int, list[Row]] = {}
        read = read_all(self._cluster.direct, [topic.name], client=client, isolation_level="read_committed")
        for _, partition, _, values, dresses in read:
            rows = zip(values, dresses, strict=True)
            found.setdefault(partition, []).extend(
                Row(value, dress.key, tuple(dress.headers), dress.timestamp_ms) for value, dress in rows
            )
        return found

    def _accuse(self, report: Report, tally: Tally) -> None:
        self.outcome.violations += judged(report, tally.errors)

    def _read_and_check(
        self, name: str, processes: list[Process], topics: tuple[Topic, ...], workloads: list[Workload]
    ) -> Report:
        made = SkippingHistory if self._mistake == "skip" and name == "kafwire" else History
        path = self._folder / f"{name}-observers.history"
        servers = self._cluster.direct
        with made(path) as history:
            for client in _CLIENTS:
                for level in LEVELS:
                    began = time.monotonic()
                    count = observe(
                        history, servers, [topic.name for topic in topics], client=client, isolation_level=level
                    )
                    self._tell(f"{name}: {client} read {count} records ({level}) in {time.monotonic() - began:.1f} s")
            for one in workloads:
                if one.kind == TRANSFORM and one.source is not None:
                    places = [TopicPartition(one.source.name, place) for place in range(one.source.partitions)]
                    observe_group(history, servers, one.group, places)
        hidden = concealed(node.data for node in self._cluster.nodes)
        report = check(*(one.history for one in processes if not isinstance(one, HopProcess)), path, concealed=hidden)
        (self._folder / f"{name}-report.txt").write_text(f"{report}\n")
        return report
