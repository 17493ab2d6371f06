"""The public test kit: Kafka clusters for tests, demos and benchmarks, and faults for their clients.

`EmbeddedKafka` is a cluster in this process. `KafkaCluster` starts Apache Kafka's own nodes on free ports of this
machine. `kafwire.testing.pytest_plugin` has both as fixtures. `kafwire.testing.faults` puts proxies before any brokers.
`kafwire.testing.history` compares the results of clients with the log. `import kafwire` imports none of this.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.testing.broker.embedded import EmbeddedKafka
    from kafwire.testing.cluster import KafkaCluster, Node
    from kafwire.testing.security import Security
    from kafwire.testing.simulated_time import run_in_simulated_time

__all__ = ["EmbeddedKafka", "KafkaCluster", "Node", "Security", "run_in_simulated_time"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> object:
        if name == "EmbeddedKafka":  # alone: it does not import the modules that start real clusters
            from kafwire.testing.broker.embedded import EmbeddedKafka

            return EmbeddedKafka
        if name == "run_in_simulated_time":
            from kafwire.testing.simulated_time import run_in_simulated_time

            return run_in_simulated_time
        if name in __all__:
            # Late, so that `python -m kafwire.testing.cluster` does not find its own module imported already.
            from kafwire.testing import cluster, security

            return getattr(security if name == "Security" else cluster, name)
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return __all__
