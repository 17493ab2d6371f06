"""Faults between clients and brokers: a TCP proxy before each broker that parses frames and injects faults by rules.

    with KafkaCluster(3, proxies=True) as cluster:
        cluster.proxy.add(Rule(DropResponse(), api="Produce", count=2))
        with kafwire.Producer(cluster.bootstrap) as producer: ...
        print(cluster.proxy.seed, cluster.proxy.events)

`kinds` has the faults, `script` decides which request meets which fault, `conversation` applies it to the bytes; these
are pure. `proxy`, `front`, `link` and `reactor` move the bytes. docs/guide/testing.md describes what clients and
brokers see of each fault.
"""

from kafwire.testing.faults.kinds import (
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Fault,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Throttle,
)
from kafwire.testing.faults.proxy import FaultProxy
from kafwire.testing.faults.script import CONNECT, FaultEvent, Rule

__all__ = [
    "CONNECT",
    "BlackHole",
    "Corrupt",
    "Cut",
    "Delay",
    "DropResponse",
    "Duplicate",
    "Fault",
    "FaultEvent",
    "FaultProxy",
    "Hold",
    "Refuse",
    "Reorder",
    "Reset",
    "Rule",
    "Throttle",
]
