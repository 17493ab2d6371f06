"""Drivers of an exactly-once copy in processes of their own, and the judgement of the rows that they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import kafwire
from kafwire.spark.exactly_once.decisions import Decision, decode
from kafwire.testing import KafkaCluster
from kafwire.types import TopicPartition
from tests.support.deadlines import PATIENCE_S, until
from tests.support.real_topics import committed
from tests.support.spark.sink_driver import Settings

ROOT = Path(__file__).parents[3]
PARTITIONS = 3


class Driver:
    """A driver's process. Ends with its block."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings = settings
        self._log = log
        with log.open("ab") as out:
            command = [sys.executable, "-m", "tests.support.spark.sink_driver", json.dumps(asdict(settings))]
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)

    @property
    def output(self) -> str:
        """The lines that it printed: steps, and the end."""
        return self._log.read_text()

    def has_stopped(self) -> bool:
        """Wait until the driver stops at its step, or ends; returns whether it stopped."""
        found = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        return found.si_code == os.CLD_STOPPED

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def resume(self) -> int:
        """Let a stopped driver go on; returns its exit code."""
        self._process.send_signal(signal.SIGCONT)
        return self.ended()

    def go_on(self) -> None:
        """Let a stopped driver go on to its next stop."""
        self._process.send_signal(signal.SIGCONT)
        until(lambda: not self._is_stopped(), "the driver goes on")

    def _is_stopped(self) -> bool:
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def ended(self) -> int:
        """The exit code."""
        code = self._process.wait(120)
        assert code in {0, 1}, self.output
        assert "Traceback" not in self.output, self.output
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Copies:
    """A topic of numbered records, and the drivers that copy it with one sink and one checkpoint."""

    def __init__(self, cluster: KafkaCluster, folder: Path, records: int, sink: str = "", **options: str) -> None:
        self.cluster = cluster
        self.topic = f"copied{uuid.uuid4().hex[:8]}"
        self.sink = sink or self.topic
        self.records = records
        self._folder = folder / self.topic
        self._folder.mkdir()
        self._options = options
        self._started = 0
        with kafwire.Client(cluster.direct) as client:
            for name in (self.topic, f"{self.topic}-copy"):
                client.create_topic(name, partitions=PARTITIONS, replication_factor=len(cluster.nodes))
        with kafwire.Producer(cluster.direct) as producer:
            for number in range(records):
                producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)

    @contextmanager
    def driver(self, *stop_at: int | str, **settings: Any) -> Iterator[Driver]:
        """Start a driver that stops at these steps."""
        self._started += 1
        options = {name.replace("_", "."): value for name, value in self._options.items()}
        run = f"r{self._started}"
        checkpoint = str(self._folder / "checkpoint")
        given = Settings(
            self.cluster.direct,
            self.topic,
            checkpoint,
            run,
            stop_at,
            self.sink,
            options=options,
            **settings,
        )
        with Driver(given, self._folder / f"{run}.log") as driver:
            yield driver

    def run(self, expected: int = 0, **settings: Any) -> str:
        """Run a driver to its end; returns what it printed."""
        with self.driver(**settings) as driver:
            code = driver.ended()
            assert code == expected, driver.output
            return driver.output

    @property
    def batches(self) -> int:
        """The number of committed batches in the checkpoint."""
        return len(list((self._folder / "checkpoint" / "commits").glob("[0-9]*")))

    @property
    def copied(self) -> list[int]:
        """The rows that readers of committed records see, once no transaction is open."""
        return sorted(map(int, committed(self.cluster, f"{self.topic}-copy")))

    @property
    def source(self) -> list[int]:
        """The rows of the committed batches in the checkpoint."""
        ends = json.loads((self._folder / "checkpoint" / "offsets" / str(self.batches - 1)).read_text())
        return sorted(number for number in range(self.records) if number // PARTITIONS < ends[number % PARTITIONS])

    def decisions(self) -> list[Decision]:
        """All decisions of this query that the state topic holds, done or not, in order."""
        state = TopicPartition(f"kafwire-sink-{self.sink}", 0)
        with kafwire.Client(self.cluster.direct) as client:
            stable, end = (
                client.offsets([state], "latest", isolation_level=level)[state]
                for level in ("read_committed", "read_uncommitted")
            )
            assert stable == end, "a transaction is open on the state topic"
            with client.scan(state.topic, isolation_level="read_committed") as scan:
                records = [(record.key, record.value) for batch in scan.batches() for record in batch]
        decisions = [each for record in records if record[1] for each in decode(self.sink, [record]).values()]
        return [each for each in decisions if each.query == self.topic]

    def ongoing(self) -> list[str]:
        """The sink's open transactions."""
        request = kafwire.protocol.ListTransactionsRequest(state_filters=["Ongoing"])
        with kafwire.Client(self.cluster.direct) as client:
            found = [
                each.transactional_id
                for node in self.cluster.nodes
                for each in client.call(request, broker=node.id).transaction_states
            ]
        return [name for name in found if f":{self.sink}:" in name]

    def wait_for_time_outs(self) -> None:
        """Return when the coordinators have aborted all open transactions."""
        until(lambda: not self.ongoing(), "all transactions timed out")

    def judge(self) -> None:
        """Compare the copy with the source: each row of each committed batch once, and one decision for each batch."""
        copied, source = Counter(self.copied), Counter(self.source)
        assert copied == source, f"lost {source - copied}, repeated {copied - source}"
        decisions = self.decisions()
        decided = Counter(each.batch for each in decisions if not each.is_done)
        assert decided == Counter(range(self.batches)), decided
        assert {each.batch for each in decisions if each.is_done} == set(range(self.batches))
        assert not self.ongoing()
