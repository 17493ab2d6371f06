"""`admin.configs`: configurations are described, altered and listed, in both faces."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import Append, ConfigEntry, ConfigResource, ConfigSynonym, Subtract
from kafwire.broker.topics.config_store import ResourceType, Source
from kafwire.errors import (
    AdminError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaError,
    ProtocolError,
)
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.flavours import Flavour

T = ConfigResource.topic("t")
RETENTION = "retention.ms"


def entries(flavour: Flavour, resource: ConfigResource, **options: Any) -> dict[str, ConfigEntry]:
    found: dict[ConfigResource, dict[str, ConfigEntry]] = flavour.get(
        flavour.admin().describe_configs([resource], **options)
    )
    assert list(found) == [resource]
    return found[resource]


def test_options_of_a_topic_are_described(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    flavour.world.topics["t"].configs = {RETENTION: "5000"}
    found = entries(flavour, T)
    assert found[RETENTION] == ConfigEntry(RETENTION, "5000", "DYNAMIC_TOPIC_CONFIG", False, False, "long", (), None)
    assert not found[RETENTION].is_default
    assert found["cleanup.policy"].is_default
    assert (found["cleanup.policy"].type, found["cleanup.policy"].value) == ("list", "delete")


def test_synonyms_and_texts_are_described_when_asked_for(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    flavour.world.topics["t"].configs = {RETENTION: "5000"}
    found = entries(flavour, T, names=[RETENTION], synonyms=True, documentation=True)
    assert list(found) == [RETENTION]
    assert found[RETENTION].synonyms[0] == ConfigSynonym(RETENTION, "5000", "DYNAMIC_TOPIC_CONFIG")
    assert found[RETENTION].synonyms[-1].source == "DEFAULT_CONFIG"
    assert found[RETENTION].documentation


def test_passwords_are_hidden(flavour: Flavour) -> None:
    entry = entries(flavour, ConfigResource.broker(1))["ssl.key.password"]
    assert (entry.value, entry.is_sensitive, entry.type) == (None, True, "password")


def test_a_broker_describes_and_alters_itself(flavour: Flavour) -> None:
    admin = flavour.admin()
    first, second = map(ConfigResource.broker, (1, 2))
    found = flavour.get(admin.describe_configs([first, second, ConfigResource.all_brokers()]))
    assert [found[each]["node.id"].value for each in (first, second)] == ["1", "2"]
    assert found[first]["node.id"].is_read_only
    flavour.get(
        admin.alter_configs({second: {"log.retention.ms": 7}, ConfigResource.all_brokers(): {"log.retention.ms": 8}})
    )
    named = [
        [each.resource_name for each in call.message.resources]
        for call in flavour.world.made("IncrementalAlterConfigs")
    ]
    assert sorted(named) == [[""], ["2"]]
    altered = flavour.get(admin.describe_configs([first, second], names=["log.retention.ms"]))
    assert [(found["log.retention.ms"].value, found["log.retention.ms"].source) for found in altered.values()] == [
        ("8", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("7", "DYNAMIC_BROKER_CONFIG"),
    ]


def test_a_broker_that_is_not_in_the_cluster(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    errors: dict[ConfigResource, KafkaError] = {}
    found = flavour.get(flavour.admin().describe_configs([ConfigResource.broker(9), T], on_error=errors.__setitem__))
    assert list(found) == [T]
    assert "broker 9 is not in the cluster (its brokers: 1, 2)" in str(errors[ConfigResource.broker(9)])


def test_options_are_set_deleted_appended_and_subtracted(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    topic = flavour.world.topics["t"]
    admin = flavour.admin()
    flavour.get(admin.alter_configs({T: {RETENTION: 5000, "preallocate": True, "cleanup.policy": Append(["compact"])}}))
    assert topic.configs == {RETENTION: "5000", "preallocate": "true", "cleanup.policy": "delete,compact"}
    flavour.get(admin.alter_configs({T: {RETENTION: None, "cleanup.policy": Subtract(["delete", "x"])}}))
    assert topic.configs == {"preallocate": "true", "cleanup.policy": "compact"}
    flavour.get(admin.alter_configs({T: {RETENTION: "1"}}, validate_only=True))
    assert RETENTION not in topic.configs


def test_one_failure_does_not_hide_the_results_of_others(flavour: Flavour) -> None:
    for name in "tu":
        flavour.world.create_topic(name)
    admin = flavour.admin()
    changes = {T: {RETENTION: "soon"}, ConfigResource.topic("u"): {RETENTION: "9"}}
    with pytest.raises(AdminError, match="1 of 2 failed: topic 't': INVALID_CONFIG") as caught:
        flavour.get(admin.alter_configs(changes))
    assert list(caught.value.errors) == [T]
    assert flavour.world.topics["u"].configs == {RETENTION: "9"}
    errors: dict[ConfigResource, KafkaError] = {}
    flavour.get(admin.alter_configs(changes, on_error=errors.__setitem__))
    assert list(errors) == [T]
    with pytest.raises(BrokerError, match="altering the configuration of topic 't'.*Not a number"):
        flavour.get(admin.alter_configs({T: {RETENTION: "soon"}}))
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION.*describing the configuration of topic 'x'"):
        flavour.get(admin.describe_configs([ConfigResource.topic("x")]))
    assert len(flavour.world.made("DescribeConfigs")) == 1, "an unknown topic is final"


@pytest.mark.parametrize(
    ("resource", "options", "source"),
    [
        (ConfigResource.client_metrics("m"), {"interval.ms": "1000", "metrics": "*"}, "DYNAMIC_CLIENT_METRICS_CONFIG"),
        (ConfigResource.broker_logger(2), {"org.apache.kafka": "DEBUG"}, "DYNAMIC_BROKER_LOGGER_CONFIG"),
        (ConfigResource.group("g"), {"consumer.session.timeout.ms": "50000"}, "DYNAMIC_GROUP_CONFIG"),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_other_resources_have_options_too(
    flavour: Flavour, resource: ConfigResource, options: dict[str, str], source: str
) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_configs({resource: options}))
    found = flavour.get(admin.describe_configs([resource]))[resource]
    assert {name: (found[name].value, found[name].source) for name in options} == {
        name: (value, source) for name, value in options.items()
    }
    assert resource in flavour.get(admin.list_config_resources([resource.type]))
    flavour.get(admin.alter_configs({resource: dict.fromkeys(options)}))
    (name, value), *_ = options.items()
    assert flavour.get(admin.describe_configs([resource]))[resource][name].value != value


def test_resources_are_listed_by_type(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    brokers = [ConfigResource.broker(1), ConfigResource.broker(2)]
    loggers = [ConfigResource.broker_logger(1), ConfigResource.broker_logger(2)]
    assert flavour.get(admin.list_config_resources()) == [T, *brokers, *loggers]
    assert flavour.get(admin.list_config_resources(["topic", "broker"])) == [T, *brokers]
    assert flavour.get(admin.list_config_resources(["group"])) == []


def set_versions(flavour: Flavour, **versions: tuple[int, int]) -> None:
    for node in flavour.world.nodes.values():
        node.versions = versions


def test_older_brokers_list_only_client_metrics(flavour: Flavour) -> None:
    set_versions(flavour, ListConfigResources=(0, 0))
    admin = flavour.admin()
    flavour.get(admin.alter_configs({ConfigResource.client_metrics("m"): {"metrics": "*"}}))
    assert flavour.get(admin.list_config_resources(["client-metrics"])) == [ConfigResource.client_metrics("m")]
    for types in (None, ["topic"], ["client-metrics", "topic"]):
        with pytest.raises(ProtocolError, match=r"needs Kafka 4\.1"):
            flavour.get(admin.list_config_resources(types))


def test_brokers_without_lists_say_so(flavour: Flavour) -> None:
    set_versions(flavour, ListConfigResources=(-1, -1))
    with pytest.raises(ProtocolError, match=r"listing client metrics needs Kafka 3\.7"):
        flavour.get(flavour.admin().list_config_resources(["client-metrics"]))


def test_a_refused_list_names_the_permission(flavour: Flavour) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    flavour.world.on("ListConfigResources", lambda _: protocol.ListConfigResourcesResponse(error_code=code))
    with pytest.raises(AuthorizationError, match="permits DescribeConfigs on the Cluster"):
        flavour.get(flavour.admin().list_config_resources())


def test_a_refused_change_names_the_permission(flavour: Flavour) -> None:
    response = protocol.IncrementalAlterConfigsResponse
    result = response.AlterConfigsResourceResponse(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None, resource_type=2, resource_name="t"
    )
    flavour.world.on("IncrementalAlterConfigs", lambda _: response(responses=[result]))
    with pytest.raises(AuthorizationError, match="permits AlterConfigs on Topic 't'"):
        flavour.get(flavour.admin().alter_configs({T: {RETENTION: "1"}}))


def test_types_that_kafwire_does_not_know_are_left_out(flavour: Flavour) -> None:
    response = protocol.ListConfigResourcesResponse
    found = [response.ConfigResource(resource_type=kind, resource_name="t") for kind in (64, 2)]
    flavour.world.on("ListConfigResources", lambda _: response(config_resources=found))
    assert flavour.get(flavour.admin().list_config_resources()) == [T]
    assert flavour.get(flavour.admin().list_config_resources([])) == [], "brokers list all types then"


def test_unknown_sources_and_types_have_a_name(flavour: Flavour) -> None:
    response = protocol.DescribeConfigsResponse
    entry = response.DescribeConfigsResourceResult(name="n", value="v", config_source=99, config_type=99)
    result = response.DescribeConfigsResult(resource_type=2, resource_name="t", configs=[entry], error_message=None)
    stranger = response.DescribeConfigsResult(resource_type=99, resource_name="t", configs=[], error_message=None)
    flavour.world.on("DescribeConfigs", lambda _: response(results=[stranger, result]))
    assert entries(flavour, T) == {"n": ConfigEntry("n", "v", "UNKNOWN", False, False, "unknown", (), None)}


def test_a_lost_connection_to_a_broker_is_retried(flavour: Flavour) -> None:
    lost = [True, True]

    def respond(call: Call) -> Any:
        assert call.node == 2
        return HANGUP if lost and lost.pop() else None

    flavour.world.on("IncrementalAlterConfigs", respond)
    flavour.get(flavour.admin().alter_configs({ConfigResource.broker(2): {"log.retention.ms": "7"}}))
    assert len(flavour.world.made("IncrementalAlterConfigs")) == 3


def test_resources_are_values() -> None:
    assert ConfigResource.broker(1) == ConfigResource("broker", "1")
    assert pickle.loads(pickle.dumps(T)) == T
    assert {str(each) for each in (T, ConfigResource.broker(1), ConfigResource.all_brokers())} == {
        "topic 't'",
        "broker 1",
        "all brokers",
    }
    assert str(ConfigResource.broker_logger(1)) == "broker logger 1"
    assert str(ConfigResource.client_metrics("m")) == "client metrics 'm'"


def test_codes_are_those_of_kafka() -> None:
    from kafwire.admin.config_resources import TYPES
    from kafwire.admin.configs import SOURCES

    assert {code: ResourceType(code).name.lower().replace("_", "-") for code in TYPES.values()} == {
        code: name for name, code in TYPES.items()
    }
    assert set(SOURCES) == {*Source}
    for source in Source:
        assert source.name.removeprefix("DYNAMIC_") in SOURCES[source]


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("describe_configs", (T,), "write a list"),
    ("describe_configs", ("t",), "write a list"),
    ("describe_configs", (["t"],), "is not a resource"),
    ("describe_configs", ([[]],), "is not a resource"),
    ("alter_configs", ([T],), "write a dict"),
    ("alter_configs", ({T: RETENTION},), "write a dict with the options"),
    ("alter_configs", ({"t": {}},), "is not a resource"),
    ("alter_configs", ({T: {"": "1"}},), "at least one character"),
    ("alter_configs", ({T: {RETENTION: ["1"]}},), "a list is not a text, a number, None, Append or Subtract"),
    ("alter_configs", ({T: {"cleanup.policy": Append("compact")}},), "write a list of names"),
    ("list_config_resources", ("topic",), "write a list of names"),
    ("list_config_resources", (["topics"],), "'topics' is not one of topic, broker"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls


@pytest.mark.parametrize(("names", "text"), [([], "name at least one option"), (RETENTION, "write a list of names")])
def test_wrong_names(flavour: Flavour, names: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        flavour.get(flavour.admin().describe_configs([T], names=names))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("topics", "t"), "it must be one of topic, broker"),
        (([], "t"), "it must be one of topic, broker"),
        (("topic", ""), "at least one character"),
        (("topic", "t\ud800"), "lone surrogate"),
        (("group", None), "at least one character"),
        (("broker-logger", ""), "at least one character"),
        (("broker", "one"), "a broker's id, a number"),
    ],
)
def test_wrong_resources(args: tuple[Any, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ConfigResource(*args)


@pytest.mark.parametrize("broker", ["1", -1, True, 1.0])
def test_wrong_ids_of_brokers(broker: Any) -> None:
    with pytest.raises(ConfigError, match="a whole number from 0"):
        ConfigResource.broker(broker)
