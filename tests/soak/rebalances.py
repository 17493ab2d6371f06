"""`python -m tests.soak.rebalances [--rebalances N] [--seed S]` forces rebalances of groups under load.

Groups of each protocol read topics that are written to, on a cluster of three nodes, while members join, leave, are
killed or stopped for longer than their sessions, and coordinators are killed and restarted. Each record is to be
processed, no offset to be committed before, and each partition to go on. `--client confluent` has librdkafka's members:
the control. `--exactly-once` has members that write on what they read, in transactions: each record once.

0: nothing was found; 1: a violation; 2: it could not be run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafwire
from kafwire.broker.setup_error import SetupError
from kafwire.testing.cluster import ClusterError, KafkaCluster
from kafwire.testing.history.observe import read_all
from kafwire.types import TopicPartition
from tests.soak.cluster import TRANSACTION_STATE, Unwell
from tests.soak.group_director import SESSION_MS, STUCK_S, Group
from tests.soak.group_judgement import findings, not_once
from tests.soak.group_load import PARTITIONS, Load
from tests.soak.group_log import commits_of, write_batches
from tests.soak.group_processes import MemberProcess
from tests.soak.group_strikes import Strikes
from tests.soak.matrix import Topic

HEARTBEAT_MS, REBALANCE_MS = 300, 10_000
PROPERTIES: dict[str, object] = {
    "min.insync.replicas": 2,
    "group.min.session.timeout.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.assignment.interval.ms": 0,
    "log.cleaner.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"group_protocol": "classic", "partition_assignment_strategy": "range"},
    "cooperative": {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
HOW = ("poll", "batches-commit", "streams", "poll-commit", "batches", "streams-commit")
LOOPS = ("loop-upto", "loop-processed")
_LOOK_S = 0.05
# Further readers of a sink that is not as it should be.
OTHER_READERS = (
    ("confluent-kafka", "read_committed"),
    ("kafwire", "read_uncommitted"),
    ("confluent-kafka", "read_uncommitted"),
)
_TELL_S = 10.0
LATE_WINDOW_MS = 100
_CALL_MS = 30_000

Tell = Callable[[str], None]


def options_of(protocol: str, client: str) -> dict[str, Any]:
    """A member's options."""
    options = dict(PROTOCOLS[protocol]) | {"auto_commit_interval_ms": 500}
    if protocol != "consumer":
        options |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
    if client == "confluent":
        return options | {"max_poll_interval_ms": REBALANCE_MS}
    return options | {"rebalance_timeout_ms": REBALANCE_MS, "request_timeout_ms": 5_000}


def late_options(number: int) -> dict[str, Any]:
    """Options by which every second member gives partitions up with records in hand."""
    if number % 2 == 0:
        return {}
    return {"on_revocation": "discard"} if number % 4 == 1 else {"revocation_timeout_ms": LATE_WINDOW_MS}


class Run:
    """One run, on one cluster."""

    def __init__(self, options: argparse.Namespace, cluster: KafkaCluster, folder: Path, tell: Tell) -> None:
        self._options, self._cluster, self._folder, self._tell = options, cluster, folder, tell
        self._names = [name for name in PROTOCOLS if name in options.protocols.split(",")]
        self.violations: list[str] = []

    def run(self) -> dict[str, Any]:
        """Run; the figures."""
        options, cluster = self._options, self._cluster
        client = kafwire.Client(cluster.direct, default_api_timeout_ms=_CALL_MS)
        sinks = [self._sink(name) for name in self._names] if options.exactly_once else []
        for name in [*self._names, *sinks]:
            client.create_topic(name, partitions=PARTITIONS, replication_factor=len(cluster.nodes))
        load = Load(cluster.bootstrap, self._names, options.rate)
        groups = [Group(name, self._members(name), load, options.seed) for name in self._names]

        def on_strike(what: str) -> None:
            self._tell(what)
            for group in groups:
                group.struck_at = time.monotonic()

        topics = [Topic(name, PARTITIONS) for name in [*self._names, *sinks]]
        strikes = Strikes(cluster, topics, options.seed, on_strike) if options.strikes else None
        began = time.monotonic()
        try:
            self._force(groups, began)
            if strikes is not None:
                strikes.stop()
            load.stop()
            if not any(group.violations for group in groups):
                for group in groups:
                    group.settle("last")
                    if options.exactly_once:
                        self._await_commits(group, load)
        finally:
            seconds = time.monotonic() - began
            for group in groups:
                group.close()
        self.violations += [f"the cluster: {strikes.crash}"] if strikes is not None and strikes.crash else []
        figures = {group.name: self._judge(group, load.ends[group.name]) for group in groups}
        client.close()
        return {"groups": figures, "seconds": round(seconds), "strikes": dict(strikes.counts if strikes else {})}

    def _force(self, groups: list[Group], began: float) -> None:
        each = -(-self._options.rebalances // len(groups))
        limit_s = self._options.minutes * 60

        def stopping() -> bool:
            return time.monotonic() - began > limit_s or any(group.violations for group in groups)

        threads = [threading.Thread(target=group.run, args=(each, stopping), daemon=True) for group in groups]
        for thread in threads:
            thread.start()
        printed = 0.0
        while any(thread.is_alive() for thread in threads):
            time.sleep(_LOOK_S)
            if time.monotonic() - printed > _TELL_S:
                printed = time.monotonic()
                self._tell(
                    ", ".join(f"{g.name}: {g.forced.total()} rebalances, {g.progress.records} records" for g in groups)
                )

    def _members(self, group: str) -> list[MemberProcess]:
        options = self._options
        hows = LOOPS if options.exactly_once else HOW
        order = itertools.islice(itertools.cycle(hows), list(PROTOCOLS).index(group) * options.members, None)
        return [
            MemberProcess(
                {
                    "client": options.client,
                    "bootstrap": self._cluster.bootstrap,
                    "topic": group,
                    "sink": self._sink(group),
                    "group": group,
                    "name": f"{group}-{number}",
                    "how": next(order),
                    "seed": options.seed,
                    "options": options_of(group, options.client)
                    | (late_options(number + 2 * self._names.index(group)) if options.late else {}),
                },
                self._folder,
            )
            for number in range(options.members)
        ]

    @staticmethod
    def _sink(group: str) -> str:
        return f"{group}-sink"

    def _await_commits(self, group: Group, load: Load) -> None:
        """Everything is committed when the transactions that are open are."""
        places = [TopicPartition(group.name, number) for number in range(PARTITIONS)]
        deadline = time.monotonic() + STUCK_S
        with kafwire.Consumer(self._cluster.direct, assign=places, group_id=group.name) as consumer:
            while True:
                done = consumer.committed()
                lacking = {w.partition: done[w] for w in places if (done[w] or 0) < load.ends[group.name][w.partition]}
                if not lacking:
                    return
                if time.monotonic() > deadline:
                    group.violations.append(f"not committed within {STUCK_S:g} s: {lacking}")
                    return
                time.sleep(_LOOK_S)

    def _outputs(self, group: Group, client: str, isolation_level: str) -> Iterator[bytes]:
        rows = read_all(self._cluster.direct, [self._sink(group.name)], client=client, isolation_level=isolation_level)
        return (value or b"" for _, _, _, values, _ in rows for value in values)

    def _judge(self, group: Group, ends: dict[int, int]) -> dict[str, Any]:
        found = list(group.violations)
        progress = group.progress
        if self._options.exactly_once:
            wrong = not_once(ends, self._outputs(group, "kafwire", "read_committed"))
            found += wrong
            # The written batches show whether the log is wrong, or a reader.
            for number in range(PARTITIONS) if wrong else ():
                sink = self._sink(group.name)
                write_batches(self._cluster.direct, sink, number, self._folder / f"{sink}-{number}.log")
            if group.progress.records and wrong:  # else there need not have been a transaction
                write_batches(self._cluster.direct, TRANSACTION_STATE, 0, self._folder / "transactions.log")
            for client, level in OTHER_READERS if wrong else ():
                others = not_once(ends, self._outputs(group, client, level))
                found += [f"{client} reads {level}: {each}" for each in others or ["each once"]]
        else:
            found += findings(progress, ends, commits_of(self._cluster.direct, group.name))
        self.violations += [f"{group.name}: {one}" for one in found]
        return {
            "forced": dict(group.forced),
            "rebalances": group.forced.total(),
            "generations": len(progress.generations),
            "records": progress.records,
            "repeated": progress.repeated,
            "commits": dict(progress.commits),
            "errors": dict(progress.errors),
            "stalls": {
                kind: {
                    "count": len(times),
                    "median": round(statistics.median(times), 1),
                    "max": round(max(times), 1),
                }
                for kind, times in sorted(group.stalls.items())
            },
        }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.rebalances",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rebalances", type=int, default=30, help="how many are forced, in all groups (default: 30)")
    parser.add_argument("--minutes", type=float, default=60.0, help="end after this time in any case (default: 60)")
    parser.add_argument("--seed", type=int, help="default: another one each time, printed")
    parser.add_argument("--rate", type=float, default=120.0, help="records a second in each topic (default: 120)")
    parser.add_argument("--members", type=int, default=2, help="of each group, at most (default: 2)")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="the groups (default: all of %(default)s)")
    parser.add_argument("--client", choices=["kafwire", "confluent"], default="kafwire", help="the members' client")
    parser.add_argument("--exactly-once", action="store_true", help="members write on what they read, in transactions")
    parser.add_argument("--late", action="store_true", help="every second member revokes late, or discards")
    parser.add_argument("--no-strikes", dest="strikes", action="store_false", help="leave the nodes alone")
    parser.add_argument("--folder", type=Path, help="where journals are kept (default: a new one)")
    return parser


def main() -> int:
    """Parse the command line, run, print the figures."""
    options = _parser().parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kafwire-rebalances-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    tell(f"seed {options.seed}, folder {folder}")
    try:
        with KafkaCluster(3, properties=PROPERTIES, heap="256m") as cluster:
            run = Run(options, cluster, folder, tell)
            figures = run.run()
    except (ClusterError, SetupError, Unwell) as error:
        print(error, file=sys.stderr)
        return 2
    figures["violations"] = run.violations
    (folder / "figures.json").write_text(json.dumps(figures, indent=1))
    print(json.dumps(figures, indent=1))
    print("\n".join(run.violations) or "nothing was found")
    return 1 if run.violations else 0


if __name__ == "__main__":
    sys.exit(main())
