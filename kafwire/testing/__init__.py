"""The public test kit: Kafka clusters for tests, demos and benchmarks, and faults for their clients.

`EmbeddedKafka` is a cluster in this process. `KafkaCluster` starts Apache Kafka's own nodes on free ports of this
machine. `kafwire.testing.pytest_plugin` has both as fixtures. `kafwire.testing.faults` puts proxies before any brokers.
`kafwire.testing.history` compares the results of clients with the log. `import kafwire` imports none of this.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names
from kafwire.testing import old_paths

if TYPE_CHECKING:
    from kafwire.broker.embedded import EmbeddedKafka
    from kafwire.broker.security.security import Security
    from kafwire.testing.cluster import KafkaCluster, KafkaNode
    from kafwire.testing.simulated_time import run_in_simulated_time

__all__ = ["EmbeddedKafka", "KafkaCluster", "KafkaNode", "Security", "run_in_simulated_time"]

_HOMES = {
    "EmbeddedKafka": "kafwire.broker.embedded",
    "KafkaCluster": "kafwire.testing.cluster",
    "KafkaNode": "kafwire.testing.cluster",
    "Security": "kafwire.broker.security.security",
    "run_in_simulated_time": "kafwire.testing.simulated_time",
}

old_paths.install()

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
