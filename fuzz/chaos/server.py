"""`python -m fuzz.chaos.server SEED`: an embedded broker behind proxies that inject faults, until its input ends.

The first line of its output is JSON: the addresses of the plain and of the TLS listener, and the TLS options. The last
line is JSON too: how many faults of each kind were injected, and the errors inside the broker.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence

import kafwire
from kafwire.testing import EmbeddedKafka
from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    FaultProxy,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
)

RECORDS = 4_000
PARTITIONS = 4
STORED = "stored"  # a topic that has records before the clients start
DATA = ("Produce", "Fetch", "ShareFetch")
STRIKES_S = (0.5, 2.0)  # the least and the most time between two strikes on all connections
STRIKES: Sequence[Reset | BlackHole | Throttle | Refuse] = (
    Reset(),
    BlackHole(seconds=0.1),
    Throttle(200_000, seconds=0.2),
    Refuse(seconds=0.1),
)

# The first rule that matches wins, so rare faults come before frequent ones.
RULES = [
    Rule(Reset(), api=CONNECT, probability=0.03),
    Rule(Corrupt(where="anywhere"), probability=0.01),
    Rule(Corrupt("request", where="anywhere"), probability=0.005),
    Rule(Corrupt(), api=DATA, probability=0.03),
    Rule(Corrupt("request"), api=DATA, probability=0.02),
    Rule(Cut(), probability=0.01),
    Rule(Cut(way="request", reset=True), probability=0.01),
    Rule(Reset(), probability=0.01),
    Rule(DropResponse(), probability=0.01),
    Rule(DropResponse(reset=False), probability=0.003),
    Rule(Duplicate(), probability=0.01),
    Rule(Duplicate("request"), probability=0.01),
    Rule(Hold((0.01, 0.3)), probability=0.01),
    Rule(Reorder(0.1), probability=0.02),
    Rule(BlackHole(seconds=0.3), probability=0.004),
    Rule(Throttle(20_000, seconds=0.3), probability=0.01),
    Rule(Delay((0.0, 0.05)), probability=0.1),
]


class Strikes(threading.Thread):
    """Faults that meet all connections of a proxy: the TLS proxy sees no requests, so it has no other ones."""

    def __init__(self, seed: int, proxies: list[FaultProxy]) -> None:
        super().__init__(name="strikes", daemon=True)
        self._chance = random.Random(f"{seed}/strikes")
        self._proxies = proxies
        self.over = threading.Event()

    def run(self) -> None:
        """Strike until it is over."""
        while not self.over.wait(self._chance.uniform(*STRIKES_S)):
            for proxy in self._proxies:
                proxy.play(self._chance.choice(STRIKES))


def fill(bootstrap: str, chance: random.Random) -> None:
    """Produce the records of `STORED`, in each codec, without faults."""
    with kafwire.Client(bootstrap) as client:
        client.create_topic(STORED, partitions=PARTITIONS)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with kafwire.Producer(bootstrap, compression_type=codec, linger_ms=20) as producer:
            for number in range(RECORDS // 5):
                key = b"%d" % number if chance.random() < 0.5 else None
                headers = [("h", b"x")] if chance.random() < 0.2 else None
                value = chance.randbytes(10) * chance.choice([0, 1, 1, 5, 500])
                producer.send(STORED, value, key=key, headers=headers)


def main() -> None:
    """Serve until the input ends."""
    seed = int(sys.argv[1])
    with EmbeddedKafka(security="SSL", plain=True, configs={"auto.create.topics.enable": True}) as kafka:
        fill(kafka.direct, random.Random(f"{seed}/fill"))
        listeners = kafka.ask(lambda state: dict(state.nodes[1].addresses))
        secured = kafka.bootstrap
        behind = {name: f"{host}:{port}" for name, (host, port) in listeners.items()}
        (tls,) = (name for name, address in behind.items() if address == secured)
        (plain,) = (name for name in behind if name != tls)
        with (
            FaultProxy({1: behind[plain]}, RULES, seed=seed) as seeing,
            FaultProxy({1: behind[tls]}, seed=seed, frames=False) as blind,
        ):
            advertised = {name: proxy.addresses[1].rsplit(":", 1) for name, proxy in ((plain, seeing), (tls, blind))}
            kafka.ask(
                lambda state: state.nodes[1].addresses.update(
                    {name: (host, int(port)) for name, (host, port) in advertised.items()}
                )
            )
            options = kafka.client_options()
            options.pop("bootstrap.servers", None)
            print(json.dumps([seeing.bootstrap, blind.bootstrap, options]), flush=True)
            strikes = Strikes(seed, [seeing, blind])
            strikes.start()
            sys.stdin.read()
            strikes.over.set()
            strikes.join()
            kinds = Counter(event.kind for proxy in (seeing, blind) for event in proxy.events)
        problems = [repr(problem) for problem in kafka.problems]
        print(json.dumps([kinds, problems]), flush=True)


if __name__ == "__main__":
    main()
