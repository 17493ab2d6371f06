"""Relays in processes of their own, which die by SIGKILL at a step; and what must be in a topic in the end.

A process that has imported kafwire, and has no engine yet, forks for each relay: starting Python takes ten times as
long. Its input and its output are lines of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kafwire
from kafwire.outbox import Step
from kafwire.records import Record
from tests.support.deadlines import PATIENCE_S

_ROOT = Path(__file__).parents[3]
_PROGRAM = """
import json, os, signal, sqlite3, sys, traceback
import kafwire
from kafwire.outbox import Outbox

kafwire.Scan, kafwire.Batch, kafwire.protocol # modules imported here are not imported by each relay

def connector(kind, where):
    if kind == "sqlite3":
        return lambda: sqlite3.connect(where)
    driver = __import__(kind)
    return lambda: driver.connect(where)

def relay(job):
    def on_step(step):
        if step == job["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
    with Outbox(connector(*job["database"]), job["bootstrap"], on_step=on_step, **job["options"]) as outbox:
        while outbox.relay():
            pass

for line in sys.stdin:
    job = json.loads(line)
    __import__(job["database"][0])
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            relay(job)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
"""

# Those that come where an older relay has left something.
OF_LEFTOVERS = (Step.LEFTOVERS_REMOVED, Step.LEFTOVERS_GONE)
# All steps; a relay that dies at one leaves the rows that the next one needs.
IN_TURN: list[Step] = [step for step in Step if step not in (*OF_LEFTOVERS, Step.REMOVED, Step.DONE)]
IN_TURN += [*OF_LEFTOVERS, Step.REMOVED, Step.DONE]


class Relays:
    """Runs relays of one outbox, one after the other.

    Args:
        process: the program that forks.
        database: the module of a driver, and what its `connect` takes.
        bootstrap: the address of the brokers.
        options: of each `Outbox`.
    """

    def __init__(
        self, process: subprocess.Popen[str], database: tuple[str, str], bootstrap: str, options: dict[str, Any]
    ) -> None:
        self._process = process
        self._arguments = {"database": database, "bootstrap": bootstrap, "options": options}

    def run(self, kill_at: Step | None = None) -> int:
        """Relay all that is there, or die at a step: the exit code of the relay, -9 if it died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._arguments | {"kill_at": kill_at}) + "\n")
        self._process.stdin.flush()
        code: int = json.loads(self._process.stdout.readline())
        return code


@contextmanager
def relays(database: tuple[str, str], bootstrap: str, **options: Any) -> Iterator[Relays]:
    """Make them; `options` are those of `Outbox`."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Relays(process, database, bootstrap, options)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def by_key(rows: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Values by keys, in order."""
    found = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return dict(found)


def committed(bootstrap: str, topic: str) -> list[Record]:
    """The records of a topic, as a reader of committed ones gets them.

    It waits until all transactions have their markers: a commit returns before that.
    """
    with kafwire.Client(bootstrap) as client:
        ends = client.offsets(kafwire.TopicPartition(topic, number) for number in client.partitions_for(topic))
        with client.scan(topic, end=ends, isolation_level="read_committed") as scan:
            return [record for batch in scan.batches() for record in batch]


def relayed(bootstrap: str, topic: str) -> dict[Any, list[Any]]:
    """The values of each key in a topic, in the order in which a reader of committed records gets them."""
    return by_key((record.key, record.value) for record in committed(bootstrap, topic))
