"""One round of one contender: its process started, let go, timed by itself, and its result checked."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.counted import Counted
from benchmarks.payload import split_pool
from benchmarks.processes import TOPIC, time_processes
from benchmarks.programs import build_rdkafka
from benchmarks.replayed import TOPIC_NAME, Replayed, tls_options
from benchmarks.rounds import ContenderError, Measured
from benchmarks.row import Contender, Row, Topic

if TYPE_CHECKING:
    from benchmarks.topics import Topics

ROOT = Path(__file__).parent.parent
WRITES = {"produce", "batch", "send", "send_batch"}
HEAVY_MODULES = ("pyarrow", "pyspark", "asyncio", "ssl")
IN_THOUSANDS = {"message", "commit", "stream", "share"}
IMPORTS_PER_ROUND = 5
LEAST_RECORDS = 100
WAITS_PER_SECOND = 3000
_TIMEOUT_SECONDS = 600
# numpy, which pyarrow brings, would start a pool of threads that spin for a while after the import.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


@dataclass(slots=True)
class Bench:
    """The state of all rounds. `records` and `payloads` go by the size of a value, `sources` and `blobs` by topic."""

    bootstrap: str
    topics: Topics
    floor: Path
    folder: Path
    seconds: float
    read_records: Mapping[int, int]
    write_records: Mapping[int, int]
    payloads: Mapping[int, Path]
    sources: Mapping[Topic, str]
    blobs: Mapping[Topic, Path]
    open_counted: Callable[[], Counted] | None = None
    broker_pid: int | None = None
    secured: str | None = None
    ca_pem: Path | None = None
    open_replay: Callable[[Topic], Replayed] | None = None
    perf_folder: Path | None = None
    _counted: tuple[Counted, Topics] | None = None
    _replayed: dict[Topic, Replayed] = field(default_factory=dict)
    _written: int = 0
    _checksums: dict[tuple[int, int], int] = field(default_factory=dict)
    _results: dict[object, list[dict[str, Any]]] = field(default_factory=dict)
    _used: Counter[object] = field(default_factory=Counter)

    def measure(self, row: Row, contender: Contender, variant: Mapping[str, str]) -> Measured:
        """Run one round. Raises `ContenderError` when the contender fails or gives a wrong count."""
        if row.kind == "import":
            return self._measure_import(contender)
        if row.kind == "start":
            return self._measure_start(contender)
        options = {"seconds": f"{self.seconds:g}", **contender.options, **variant, **self._where(row, contender)}
        if row.kind == "decode":
            result = self._run(row, contender, options | {"file": str(self.blobs[row.topic])})
        elif row.kind == "encode":
            size = row.topic.value_bytes
            result = self._run(
                row, contender, options | {"payload": str(self.payloads[size]), "value_bytes": str(size)}
            )
        elif row.kind in {"message", "values"}:
            result = self._run(row, contender, options)
        elif row.kind == "stream":
            result = self._stream(row, contender, options)
        elif row.kind in {"rebalance", "commit", "share"}:
            result = self._run(row, contender, options | self._read_options(row))
        elif row.kind == "wait":
            result = self._shared(row, contender, options, self._wait)
        elif row.kind == "pressure":
            result = self._press(row, contender, options)
        elif contender.task in WRITES:
            result = self._shared(row, contender, options, self._write)
        elif row.kind in {"latency", "trickle"}:
            result = self._shared(row, contender, options, self._pace)
        else:
            result = self._shared(row, contender, options, self._read)
        seconds = sum(one["seconds"] for one in result["passes"])
        records = sum(one["records"] for one in result["passes"])
        cpu = result["cpu_seconds"] / records * 1e6
        if row.kind in {"memory", "pressure"}:
            memory = result["memory_kib"]
            return Measured((memory["peak"] - memory["before"]) / 1024, seconds, result["note"], cpu)
        if row.figure == "cpu":
            return Measured(cpu, seconds, result["note"], cpu)
        if row.figure:
            figures = _medians([one["figures"] for one in result["passes"]])
            return Measured(figures[row.figure], seconds, _noted(figures, result["note"]), cpu)
        return Measured(records / seconds / (1e3 if row.kind in IN_THOUSANDS else 1e6), seconds, result["note"], cpu)

    def _where(self, row: Row, contender: Contender) -> Mapping[str, str]:
        """Where a contender finds its broker, if that is not the plain listener of Kafka's."""
        if not (row.replayed or contender.tls):
            return {}
        bootstrap = self.secured
        if row.replayed:
            if row.topic not in self._replayed:
                assert self.open_replay is not None
                self._replayed[row.topic] = self.open_replay(row.topic)
            replayed = self._replayed[row.topic]
            bootstrap = replayed.tls if contender.tls else replayed.plain
        if bootstrap is None or self.ca_pem is None:
            raise ContenderError("needs a broker of its own, with TLS: run without --bootstrap")
        return {"bootstrap": bootstrap, **(tls_options(contender.program, self.ca_pem) if contender.tls else {})}

    def _shared(
        self,
        row: Row,
        contender: Contender,
        options: dict[str, str],
        run: Callable[[Row, Contender, dict[str, str]], dict[str, Any]],
    ) -> dict[str, Any]:
        """The result of the next round; that of another row that did the same is as good."""
        what = (contender.folder, contender.program, contender.task, row.topic, *sorted(options.items()))
        if row.kind != "memory":
            done, mine = self._results.setdefault(what, []), (row.name, what)
            self._used[mine] += 1
            if len(done) < self._used[mine]:
                done.append(run(row, contender, options))
            return done[self._used[mine] - 1]
        return run(row, contender, options)

    def _pace(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        """A topic of its own, a producer at a steady pace, one pass."""
        seconds = self.seconds * float(options.pop("stretch", "1"))
        records = max(int(seconds * 1e6 / int(options["interval_us"])), LEAST_RECORDS)
        bootstrap, topics = self.bootstrap, self.topics
        if row.kind == "trickle":
            counted, topics = self._open_counted()
            bootstrap = counted.bootstrap
            options = options | {"report": counted.report}
        self._written += 1
        topic = f"bench-pace-{os.getpid()}-{self._written}"
        topics.create(topic, row.topic.partitions)
        try:
            result = self._run(
                row,
                contender,
                options
                | {
                    "bootstrap": bootstrap,
                    "topic": topic,
                    "partitions": str(row.topic.partitions),
                    "records": str(records),
                    "value_bytes": str(row.topic.value_bytes),
                    "seconds": "0",
                },
            )
        finally:
            topics.delete(topic)
        wanted = records + int(options["warmup"])
        if (got := result["passes"][0]["records"]) != wanted:
            raise ContenderError(f"read {got} records of {wanted}")
        return result

    def _open_counted(self) -> tuple[Counted, Topics]:
        """Started when it is needed: a second broker costs the others something even when it idles."""
        if self._counted is None:
            if self.open_counted is None:
                raise ContenderError("needs a broker of its own: run without --bootstrap")
            from benchmarks.topics import Topics

            counted = self.open_counted()
            self._counted = counted, Topics(counted.bootstrap, self.floor)
        return self._counted

    def _read(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        size = row.topic.value_bytes
        records = self.read_records[size]
        result = self._run(row, contender, options | self._read_options(row))
        wanted = self._checksum(size, records)
        for one in result["passes"]:
            whole = options.get("decode") != "0"
            if one["records"] != records or (whole and one["bytes"] != records * size):
                raise ContenderError(f"read {one['records']} records, {one['bytes']} bytes of {records} records")
            if whole and one.get("checksum", wanted) != wanted:
                raise ContenderError(f"read other bytes than were written: checksum {one['checksum']}, not {wanted}")
        return result

    def _read_options(self, row: Row) -> dict[str, str]:
        """The topic that the row reads, and its size."""
        return {
            "topic": TOPIC_NAME if row.replayed else self.sources[row.topic],
            "records": str(self.read_records[row.topic.value_bytes]),
            "partitions": str(row.topic.partitions),
        }

    def _stream(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        """Run the row's stream in memory, or from the topic that it reads into a new one."""
        if "guarantee" not in options:
            return self._run(row, contender, options)
        return self._into_new_topic(row, contender, options | {"source": self.sources[row.topic]})

    def _write(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        records = self.write_records[row.topic.value_bytes]
        result = self._into_new_topic(row, contender, options | {"records": str(records)})
        if result["claimed"] != records * len(result["passes"]):
            raise ContenderError(f"claims {result['claimed']} records, should write {records} in a pass")
        return result

    def _wait(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        """One record after the other, about `seconds` long, one pass."""
        records = max(int(self.seconds * WAITS_PER_SECOND), LEAST_RECORDS)
        return self._into_new_topic(row, contender, options | {"records": str(records), "seconds": "0"})

    def _press(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        """One pass, in which the contender stops the broker for a while."""
        if self.broker_pid is None:
            raise ContenderError("stops the broker: run without --bootstrap")
        try:
            return self._into_new_topic(row, contender, options | {"seconds": "0", "broker_pid": str(self.broker_pid)})
        finally:
            os.kill(self.broker_pid, signal.SIGCONT)  # a contender that died in between left it so

    def _into_new_topic(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        """The result of a contender that writes; the records that it claims are in the log, or it failed."""
        size = row.topic.value_bytes
        self._written += 1
        topic = f"bench-into-{os.getpid()}-{self._written}"
        self.topics.create(topic)
        try:
            result = self._run(
                row,
                contender,
                options | {"topic": topic, "payload": str(self.payloads[size]), "value_bytes": str(size)},
            )
            stored = self.topics.inspect(topic)
        finally:
            self.topics.delete(topic)
        claimed = sum(one["records"] for one in result["passes"])
        unsure = sum(one.get("figures", {}).get("unsure", 0) for one in result["passes"])
        if not claimed <= stored["records"] <= claimed + unsure:
            raise ContenderError(f"claims {claimed} records, the broker has {stored['records']}")
        result["claimed"] = claimed
        result["note"] += f"; {stored['batches']} batches, median {stored['batch_bytes']['median']} bytes"
        return result

    def _checksum(self, value_bytes: int, records: int) -> int:
        """The sum of the last byte of every value, as the C programs make it."""
        key = (value_bytes, records)
        if key not in self._checksums:
            ends = [value[-1] for value in split_pool(self.payloads[value_bytes].read_bytes(), value_bytes)]
            rounds, rest = divmod(records, len(ends))
            self._checksums[key] = rounds * sum(ends) + sum(ends[:rest])
        return self._checksums[key]

    def _command(self, row: Row, contender: Contender) -> list[str]:
        if contender.program == "floor":
            command = [str(self.floor)]
        elif contender.program == "rdkafka":
            command = [str(build_rdkafka(self.folder))]
        else:
            command = [sys.executable, "-m", f"benchmarks.workers.{contender.program}"]
        if self.perf_folder is None:
            return command
        name = f"{row.name}-{contender.name}".replace(" ", "_").replace(",", "")
        target = self.perf_folder / f"{name}.data"
        return ["perf", "record", "-q", "-e", "cpu-clock", "-g", "-o", str(target), "--", *command]

    def _run(self, row: Row, contender: Contender, options: Mapping[str, str]) -> dict[str, Any]:
        arguments = [f"{key}={value}" for key, value in {"bootstrap": self.bootstrap, **options}.items()]
        return converse([*self._command(row, contender), contender.task, *arguments], contender.folder or ROOT)

    def _measure_start(self, contender: Contender) -> Measured:
        """Whole processes, which read the only record of a topic, or write into another one."""
        cache = self.folder / "pycache"
        if not self.topics.exists(TOPIC):
            self.topics.create(TOPIC)
            time_processes("confluent first-send", self.bootstrap, ROOT, cache, count=1)
        return time_processes(contender.task, self.bootstrap, contender.folder or ROOT, cache)

    def _measure_import(self, contender: Contender) -> Measured:
        """Median of several imports, each in a fresh interpreter, compiled files in place and in the page cache."""
        module, folder = contender.task, contender.folder or ROOT
        code = (
            "import sys, time; start = time.perf_counter()\n"
            f"import {module}\n"
            "print((time.perf_counter() - start) * 1000, *sorted(sys.modules))"
        )
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(self.folder / "pycache")
        took = []
        for _ in range(IMPORTS_PER_ROUND + 1):
            result = subprocess.run(
                [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if result.returncode:
                raise ContenderError((result.stderr.strip() or "no message").splitlines()[-1])
            first, *modules = result.stdout.split()
            took.append(float(first))
            if module == "kafwire" and (heavy := [name for name in HEAVY_MODULES if name in modules]):
                raise ContenderError(f"import kafwire imports {', '.join(heavy)}")
        return Measured(statistics.median(took[1:]), sum(took) / 1000)


def converse(command: Sequence[str], folder: Path = ROOT) -> dict[str, Any]:
    """Start a worker, let it go, and return its result; raises `ContenderError` when it fails or does not end.

    The process starts in `folder`, where it finds the library.
    """
    # A file, not a pipe: a chatty client must not block on a pipe that no thread empties.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with process:
            try:
                out, _ = process.communicate("go\n", _TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise ContenderError(f"not done after {_TIMEOUT_SECONDS} s") from None
        errors.seek(0)
        said = [line for line in errors.read().splitlines() if line.strip()]
    lines = out.splitlines()
    if process.returncode or len(lines) != 2:
        # faulthandler's watchdog writes where every thread is; what matters is that it was its doing.
        late = [line for line in said if line.startswith("Timeout (")]
        reason = (late or said or ["no message"])[-1]
        for machine in (ROOT, Path(sys.prefix)):
            reason = reason.replace(f"{machine}/", "")  # the text names no machine's folders
        raise ContenderError(f"exit code {process.returncode}: {reason}")
    result: dict[str, Any] = json.loads(lines[1])
    return result


def _medians(passes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each figure's median over the passes of a round."""
    return {name: statistics.median([one[name] for one in passes]) for name in passes[0]}


def _noted(figures: Mapping[str, float], note: str) -> str:
    return f"{', '.join(f'{name} {value:.3g}' for name, value in figures.items())}; {note}"
