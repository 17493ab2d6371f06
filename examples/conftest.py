"""The fixtures of kafwire's test kit: `kafka`, `kafka_cluster`, `kafka_simulation`."""

pytest_plugins = ["kafwire.testing.pytest_plugin"]
