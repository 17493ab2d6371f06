"""The memory of Spark's Python processes, by /proc: that of a reading worker, and of all over many micro-batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.rounds import ContenderError
from benchmarks.spark.queries import PARTITIONS, Figures, feed, progress_of
from benchmarks.spark.stage import Stage, open_session

_KIB = 1024
_LONGEST_S = 1200


def reading_worker(stage: Stage, source: str) -> Figures:
    """The peak of the largest Python process, in MiB, of a session that reads and does nothing else."""
    rows = stage.sizes.eight_tasks[100]
    options = (
        stage.ready_options(100, rows, PARTITIONS)
        if source == "ready"
        else {"kafka.bootstrap.servers": stage.bootstrap, "subscribe": stage.topic(100, PARTITIONS, rows)}
    )
    command = [sys.executable, "-m", "benchmarks.spark.memory", str(stage.folder), source, json.dumps(options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    if done.returncode:
        raise ContenderError((done.stderr.strip() or "no message").splitlines()[-1])
    return {"peak": [json.loads(done.stdout.splitlines()[-1])]}


def read_alone(folder: str, source: str, options: dict[str, str]) -> float:
    """The program of `reading_worker`, for a process of its own."""
    with open_session(Path(folder), connector=False) as spark:
        frame = spark.read.format(source).options(**options).load()
        for _ in range(3):
            frame.write.format("noop").mode("overwrite").save()
        return max(peak for _, peak in python_processes(os.getpid()).values()) / _KIB


def flatness(stage: Stage) -> Figures:
    """The growth of each Python process from the first fifth of many micro-batches to the end, in MiB; the largest."""
    target = stage.new_topic(PARTITIONS)
    with tempfile.TemporaryDirectory() as checkpoint, feed(stage, PARTITIONS) as topic:
        at = {"kafka.bootstrap.servers": stage.bootstrap}
        frame = stage.spark.readStream.format("kafwire").options(**at).option("subscribe", topic).load()
        writer = frame.select("value").writeStream.format("kafwire").options(**at).option("topic", target)
        writer = writer.options(delivery="exactly-once", sink=target).option("checkpointLocation", checkpoint)
        query = writer.start()
        try:
            samples = _samples(stage, query)
        finally:
            query.stop()
    stage.topics.delete(target)
    first = samples[len(samples) // 5]
    last = samples[-1]
    growth = {pid: (last[pid][0] - first[pid][0]) / _KIB for pid in last if pid in first}
    print(
        f"flat: {len(growth)} processes, RSS in MiB at the end {sorted(round(last[p][0] / _KIB) for p in growth)}, "
        f"grown by {sorted(round(each, 2) for each in growth.values())}",
        file=sys.stderr,
    )
    return {"growth": [max(growth.values())], "processes": [float(len(growth))]}


def _samples(stage: Stage, query: Any) -> list[dict[int, tuple[int, int]]]:
    samples: list[dict[int, tuple[int, int]]] = []
    wanted = stage.sizes.micro_batches
    while (done := len(progress_of(query))) < wanted:
        if (error := query.exception()) is not None:
            raise ContenderError(str(error).splitlines()[0])
        if done * 50 >= wanted * len(samples):
            samples.append(python_processes(os.getpid()))
        time.sleep(0.2)
    return [*samples, python_processes(os.getpid())]


def python_processes(root: int) -> dict[int, tuple[int, int]]:
    """RSS and peak RSS in KiB of the Python processes of Spark below `root`, by process id."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    found = {}
    for pid, parent in parents.items():
        above = parent
        while above not in (root, 0, 1) and above in parents:
            above = parents[above]
        if above == root:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            if b"pyspark" in command and b"java" not in command.split(b"\0")[0] and "VmRSS" in status:
                found[pid] = (_kib(status, "VmRSS"), _kib(status, "VmHWM"))
    return found


def _kib(status: str, name: str) -> int:
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(json.dumps(read_alone(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
