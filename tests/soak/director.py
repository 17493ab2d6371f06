"""Plays episodes on the cluster: rules to the proxies, strikes to the nodes, and heals; counts what took effect."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from kafwire.testing.cluster import ClusterError, KafkaCluster
from tests.soak.cluster import Watch
from tests.soak.matrix import Topic
from tests.soak.opaque import Play, opaque
from tests.soak.script import Episode, Strike

_START_S = 180.0

Wait = Callable[[float], None]


class Director:
    """The faults of the cluster. `wait(seconds)` is how it waits; it may raise, out of the whole episode.

    Without `frames` the proxies see bytes only, and faults are played as `soak.opaque` says.
    """

    def __init__(
        self, cluster: KafkaCluster, watch: Watch, wait: Wait, tell: Callable[[str], None], *, frames: bool = True
    ) -> None:
        self._cluster = cluster
        self._watch = watch
        self._give_time = wait
        self._frames = frames
        self._plays: list[tuple[float, Play]] = []
        self._tell = tell
        self.faults: Counter[str] = Counter()

    def play(self, episode: Episode, topics: tuple[Topic, ...]) -> None:
        """Play one to its end, and heal; the cluster is whole again when this returns."""
        began = time.monotonic()
        ends = began + episode.seconds
        proxy = self._cluster.proxy
        rules, plays = (episode.rules, ()) if self._frames else opaque(episode)
        proxy.restart(*rules, seed=episode.seed)
        self._plays = [(began + play.at, play) for play in plays]
        try:
            for strike in episode.strikes:
                self._strike(strike, topics)
                self._watch.wait_whole(topics, self._wait)
            self._wait(max(0.0, ends - time.monotonic()))
        finally:
            self._plays.clear()
            self.faults.update(event.kind for event in proxy.events)
            proxy.restart()
        self._watch.wait_whole(topics, self._wait)

    def _wait(self, seconds: float) -> None:
        """Let time pass, and play the faults that are due meanwhile."""
        ends = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            while self._plays and self._plays[0][0] <= now:
                _, play = self._plays.pop(0)
                self._cluster.proxy.play(play.fault, play.broker)
            upto = min(ends, self._plays[0][0]) if self._plays else ends
            self._give_time(max(0.0, upto - time.monotonic()))
            if upto == ends:
                return

    def _strike(self, strike: Strike, topics: tuple[Topic, ...]) -> None:
        node = self._cluster.node(self._watch.node_of(strike, topics))
        self._tell(f"{strike.blow} node {node.id} ({strike.target}) for {strike.seconds:g} s")
        if strike.blow == "part":
            self._cluster.part(node.id)
            try:
                self._wait(strike.seconds)
            finally:
                self._cluster.rejoin()
            self.faults["node parted"] += 1
            return
        if strike.blow == "pause":
            node.pause()
            try:
                self._wait(strike.seconds)
            finally:
                node.resume()
            self.faults["node paused"] += 1
            return
        if strike.blow == "kill":
            node.kill()
            self.faults["node killed"] += 1
        else:
            node.stop()
            self.faults["node restarted"] += 1
        self._wait(strike.seconds)
        for attempt in range(3):  # its port may be taken for a moment
            try:
                node.start(timeout=_START_S)
            except ClusterError as error:
                if attempt == 2:
                    raise
                self._tell(f"node {node.id} did not start: {str(error).splitlines()[0]}")
            else:
                return
