"""Members of groups in processes that compute: `python -m benchmarks.computing [--minutes 60]`.

A group for each client and each way to compute, with one member, on one Apache Kafka, with ten records a second. A
rebalance is a new generation of the group (its epoch, in the consumer protocol), as the coordinator stored it in
`__consumer_offsets`: the first is the member's joining.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack

import kafwire
from benchmarks.groups import create
from benchmarks.workers.computing import CLIENTS
from kafwire.testing import KafkaCluster
from kafwire.types import TopicPartition

WAYS = ("thread", "handler")
_STORE = TopicPartition("__consumer_offsets", 0)
_CLASSIC, _CONSUMER = 2, 3  # versions of keys: a group's metadata, in each protocol
_FIRST_FLEXIBLE_VERSION = 4
_PAUSE_S = 0.1


def main() -> None:
    """Run, and print a line for each group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    minutes = parser.parse_args().minutes
    properties = {"group.initial.rebalance.delay.ms": 0, "log.cleaner.enable": "false"}
    with KafkaCluster(properties=properties) as cluster, ExitStack() as members:
        topic = create(cluster.bootstrap, 1)
        for client in CLIENTS:
            for how in WAYS:
                command = [sys.executable, "-m", "benchmarks.workers.computing", client, how]
                process = subprocess.Popen(
                    [*command, cluster.bootstrap, topic, f"{client}/{how}"], stdin=subprocess.PIPE
                )
                members.callback(process.communicate)
        with kafwire.Producer(cluster.bootstrap) as producer:
            until = time.monotonic() + 60 * minutes
            while time.monotonic() < until:
                producer.send(topic, b"v")
                time.sleep(_PAUSE_S)
        generations = generations_of(cluster.bootstrap)
        ended = [group for group in groups() if group not in generations]
        assert not ended, f"no members of {ended}"
    for group in groups():
        print(f"{group}: {len(generations[group]) - 1} rebalances in {minutes:g} minutes", flush=True)


def groups() -> list[str]:
    """Their names."""
    return [f"{client}/{how}" for client in CLIENTS for how in WAYS]


def generations_of(bootstrap: str) -> dict[str, set[int]]:
    """The generations that each group has had."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    with kafwire.Consumer(bootstrap, assign=[_STORE], start="earliest") as consumer:
        (end,) = consumer.end_offsets().values()
        while consumer.position(_STORE) < end:
            for batch in consumer.poll(1.0):
                for record in batch:
                    if record.key is not None and record.value is not None:
                        generation = _generation(record.key, record.value)
                        if generation is not None and generation[1] > 0:  # a classic group begins with none
                            found[generation[0]].add(generation[1])
    return found


def _generation(key: bytes, value: bytes) -> tuple[str, int] | None:
    kind, length = struct.unpack_from(">hh", key)
    name = key[4 : 4 + length].decode()
    at = 2  # behind the version
    if kind == _CLASSIC:
        (version,) = struct.unpack_from(">h", value)
        if version >= _FIRST_FLEXIBLE_VERSION:
            at += max(1, value[at])
        else:
            at += 2 + max(0, struct.unpack_from(">h", value, at)[0])
    elif kind != _CONSUMER:
        return None
    return name, struct.unpack_from(">i", value, at)[0]


if __name__ == "__main__":
    main()
