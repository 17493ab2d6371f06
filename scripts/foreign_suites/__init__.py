"""Test suites of other Kafka clients, run against the embedded broker from sources that the user has."""
