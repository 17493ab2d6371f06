"""The faults of the nodes of a cluster while its groups are rebalanced."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import kafwire
from kafwire.errors import KafkaError
from kafwire.testing.cluster import ClusterError, KafkaCluster
from tests.soak.cluster import CONSUMER_OFFSETS, Unwell, Watch
from tests.soak.matrix import Topic

_BETWEEN_S = (15.0, 30.0)
_MOST_DOWN_S = 5.0
_CALL_MS = 20_000


class Strikes:
    """Kills and restarts nodes, one after the other, in a thread of its own; the cluster is whole in between."""

    def __init__(
        self, cluster: KafkaCluster, topics: Sequence[Topic], seed: int, on_strike: Callable[[str], object]
    ) -> None:
        """The runner calls `on_strike` for each kill and each restart, and when the cluster is whole again."""
        self.counts: Counter[str] = Counter()
        self.crash = ""
        self._cluster, self._topics, self._on_strike = cluster, tuple(topics), on_strike
        self._watch = Watch(cluster)
        self._chance = random.Random(f"{seed}/strikes")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Strike no more; all nodes run then."""
        self._stop.set()
        self._thread.join()
        self._watch.close()

    def _run(self) -> None:
        kinds = self._kinds()
        try:
            while not self._stop.wait(self._chance.uniform(*_BETWEEN_S)):
                kind = next(kinds)
                self.counts[kind] += 1
                {"coordinator killed": self._kill, "rolling restart": self._roll}[kind]()
                self._watch.wait_whole(self._topics, time.sleep)
                self._on_strike("whole again")
        except (ClusterError, Unwell) as error:
            self.crash = str(error)

    def _kinds(self) -> Iterator[str]:
        while True:
            yield from ("coordinator killed", "coordinator killed", "rolling restart")

    def _kill(self) -> None:
        node = self._cluster.node(self._coordinator())
        self._on_strike(f"node {node.id}, the coordinator, is killed")
        node.kill()
        time.sleep(self._chance.uniform(0.0, _MOST_DOWN_S))
        node.start()

    def _roll(self) -> None:
        for node in self._cluster.nodes:
            self._on_strike(f"node {node.id} is restarted")
            node.stop()
            node.start()
            self._watch.wait_whole(self._topics, time.sleep)

    def _coordinator(self) -> int:
        client = kafwire.Client(self._cluster.direct, default_api_timeout_ms=_CALL_MS)
        try:
            return max(1, client.metadata([CONSUMER_OFFSETS]).topics[0].partitions[0].leader_id)
        except KafkaError:
            return 1
        finally:
            client.close()
