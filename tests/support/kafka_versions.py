"""The matrix of Apache Kafka's versions, and the session's cluster of each: a fixture's name."""

from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION, PREVIOUS_VERSION

CLUSTERS = {DEFAULT_VERSION: "cluster", PREVIOUS_VERSION: "cluster_431", OLDEST_VERSION: "cluster_391"}
