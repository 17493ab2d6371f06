"""`Admin` about configurations, on the newest and the oldest tested Kafka."""

from __future__ import annotations

import pytest

import kafwire
from kafwire.admin import Append, ConfigEntry, ConfigResource, Subtract
from kafwire.errors import AdminError, BrokerError, ProtocolError
from kafwire.testing import KafkaCluster
from tests.support import seeds
from tests.support.deadlines import until
from tests.support.kafka_versions import CLUSTERS

pytestmark = pytest.mark.either_kafka

BROKER, BROKERS, LOGGER = ConfigResource.broker(1), ConfigResource.all_brokers(), ConfigResource.broker_logger(1)


@pytest.fixture(params=seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).bootstrap)


def wait_for(admin: kafwire.Admin, resource: ConfigResource, **wanted: str | None) -> dict[str, ConfigEntry]:
    """Return the options of a resource once these have their values: a broker follows the controller's log."""

    def is_there() -> bool:
        found = admin.describe_configs([resource])[resource]
        values = {name: entry.value for name, entry in found.items()}
        return all(values.get(name.replace("_", ".")) == value for name, value in wanted.items())

    until(is_there, f"{resource} has {wanted}")
    return admin.describe_configs([resource], synonyms=True, documentation=True)[resource]


def test_options_of_a_topic(bootstrap: str, topic_name: str) -> None:
    topic, missing = ConfigResource.topic(topic_name), ConfigResource.topic(f"{topic_name}-never")
    with kafwire.Admin(bootstrap) as admin:
        admin.create_topics([topic_name])
        admin.alter_configs({topic: {"retention.ms": 5000, "cleanup.policy": Append(["compact"])}})
        entries = wait_for(admin, topic, retention_ms="5000")
        retention = entries["retention.ms"]
        assert (retention.value, retention.source, retention.type) == ("5000", "DYNAMIC_TOPIC_CONFIG", "long")
        assert [each.source for each in retention.synonyms][:1] == ["DYNAMIC_TOPIC_CONFIG"]
        assert retention.synonyms[-1].source in ("DEFAULT_CONFIG", "STATIC_BROKER_CONFIG", "DYNAMIC_TOPIC_CONFIG")
        assert retention.documentation
        assert entries["cleanup.policy"].value == "delete,compact"
        admin.alter_configs({topic: {"retention.ms": None, "cleanup.policy": Subtract(["delete"])}})
        admin.alter_configs({topic: {"segment.ms": "1000"}}, validate_only=True)
        entries = wait_for(admin, topic, cleanup_policy="compact")
        assert entries["retention.ms"].source != "DYNAMIC_TOPIC_CONFIG"
        assert entries["segment.ms"].value != "1000"
        with pytest.raises(AdminError, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
            admin.describe_configs([missing, topic])
        assert list(caught.value.results) == [topic]
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            admin.alter_configs({topic: {"retention.ms": "soon"}})


def test_options_of_brokers_and_their_loggers(bootstrap: str) -> None:
    with kafwire.Admin(bootstrap) as admin:
        try:
            admin.alter_configs(
                {BROKER: {"log.cleaner.backoff.ms": 20_000}, BROKERS: {"log.cleaner.backoff.ms": 30_000}}
            )
            wait_for(admin, BROKER, log_cleaner_backoff_ms="20000")
            wait_for(admin, BROKERS, log_cleaner_backoff_ms="30000")
            found = admin.describe_configs([BROKER, BROKERS], names=["log.cleaner.backoff.ms", "node.id"])
            own = found[BROKER]["log.cleaner.backoff.ms"]
            assert (own.value, own.source) == ("20000", "DYNAMIC_BROKER_CONFIG")
            assert found[BROKERS]["log.cleaner.backoff.ms"].source == "DYNAMIC_DEFAULT_BROKER_CONFIG"
            assert found[BROKER]["node.id"].is_read_only
        finally:
            admin.alter_configs({each: {"log.cleaner.backoff.ms": None} for each in (BROKER, BROKERS)})
        levels = admin.describe_configs([LOGGER])[LOGGER]
        assert levels["root"].source == "DYNAMIC_BROKER_LOGGER_CONFIG"
        admin.alter_configs({LOGGER: {"state.change.logger": "WARN"}})
        assert admin.describe_configs([LOGGER])[LOGGER]["state.change.logger"].value == "WARN"
        admin.alter_configs({LOGGER: {"state.change.logger": None}})
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            admin.alter_configs({LOGGER: {"no.such.logger": "WARN"}})
        with pytest.raises(BrokerError, match="INVALID_REQUEST"):
            admin.alter_configs({LOGGER: {"root": None}})


def test_subscriptions_of_client_metrics(bootstrap: str, topic_name: str) -> None:
    metrics = ConfigResource.client_metrics(topic_name)
    with kafwire.Admin(bootstrap) as admin:
        admin.alter_configs({metrics: {"interval.ms": 1000, "metrics": "org.apache.kafka", "match": "client_id=none"}})
        entries = wait_for(admin, metrics, interval_ms="1000")
        assert {name: entry.value for name, entry in entries.items()} == {
            "interval.ms": "1000",
            "metrics": "org.apache.kafka",
            "match": "client_id=none",
        }
        assert {entry.source for entry in entries.values()} == {"DYNAMIC_CLIENT_METRICS_CONFIG"}
        until(lambda: metrics in admin.list_config_resources(["client-metrics"]), "the subscription is listed")
        for name, value, code in (
            ("nope", "1", "INVALID_REQUEST"),
            ("interval.ms", "99", "INVALID_REQUEST"),
            ("match", "colour=red", "INVALID_CONFIG"),
        ):
            with pytest.raises(BrokerError, match=code):
                admin.alter_configs({metrics: {name: value}})
        admin.alter_configs({metrics: dict.fromkeys(entries)})
        until(lambda: metrics not in admin.list_config_resources(["client-metrics"]), "the subscription is gone")


def test_resources_are_listed(cluster: KafkaCluster, topic_name: str) -> None:
    with kafwire.Admin(cluster.bootstrap) as admin:
        admin.create_topics([topic_name])
        every = admin.list_config_resources()
        assert {ConfigResource.topic(topic_name), BROKER, LOGGER} <= set(every)
        assert {each.type for each in admin.list_config_resources(["topic"])} == {"topic"}


def test_older_brokers_list_only_client_metrics(cluster_391: KafkaCluster) -> None:
    with kafwire.Admin(cluster_391.bootstrap) as admin:
        assert admin.list_config_resources(["client-metrics"]) == []
        with pytest.raises(ProtocolError, match=r"needs Kafka 4\.1 or newer"):
            admin.list_config_resources(["topic"])
