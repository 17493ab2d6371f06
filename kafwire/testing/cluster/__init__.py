"""Real Apache Kafka clusters on this machine. `python -m kafwire.testing.cluster start` runs one until Ctrl-C."""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.broker.setup_error import SetupError
    from kafwire.testing.cluster.kafka_cluster import KafkaCluster, prepare
    from kafwire.testing.cluster.node import ClusterError, KafkaNode

__all__ = ["ClusterError", "KafkaCluster", "KafkaNode", "SetupError", "prepare"]

_HOMES = {
    "ClusterError": "kafwire.testing.cluster.node",
    "KafkaCluster": "kafwire.testing.cluster.kafka_cluster",
    "KafkaNode": "kafwire.testing.cluster.node",
    "SetupError": "kafwire.broker.setup_error",
    "prepare": "kafwire.testing.cluster.kafka_cluster",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
