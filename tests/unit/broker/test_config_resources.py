"""Subscriptions of clients' metrics, and the loggers of brokers, as resources with a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from tests.support.broker.driver import BrokerDriver

SET, DELETE, APPEND = 0, 1, 2
LOGGER, METRICS = 8, 16
INVALID_REQUEST, INVALID_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver(ClusterState((1, 2)))


def alter(driver: BrokerDriver, kind: int, name: str, *changes: Any, node: int = 1, only: bool = False) -> Any:
    request = protocol.IncrementalAlterConfigsRequest
    configs = [request.AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = driver.ask(request(resources=[resource], validate_only=only), node=node).responses
    return result


def described(driver: BrokerDriver, kind: int, name: str, *names: str, node: int = 1) -> Any:
    request = protocol.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(names) or None
    )
    message = request(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = driver.ask(message, node=node).results
    return result


def values(result: Any) -> dict[str, tuple[str, int]]:
    assert not result.error_code, result.error_message
    return {each.name: (each.value, each.config_source) for each in result.configs}


def listed(driver: BrokerDriver, version: int, *types: int) -> list[tuple[int, str]]:
    found = driver.ask(protocol.ListConfigResourcesRequest(resource_types=list(types)), version).config_resources
    return [(each.resource_type, each.resource_name) for each in found]


def test_a_subscription_from_its_first_option_to_its_last(driver: BrokerDriver) -> None:
    assert values(described(driver, METRICS, "m")) == {
        "interval.ms": ("300000", 5),
        "match": ("", 5),
        "metrics": ("", 5),
    }
    changes = ("interval.ms", SET, " 1000"), ("match", SET, "client_id=a.*, client_software_name = Java")
    assert not alter(driver, METRICS, "m", *changes, only=True).error_code
    assert listed(driver, 0) == []
    assert not alter(driver, METRICS, "m", *changes).error_code
    assert values(described(driver, METRICS, "m")) == {
        "interval.ms": ("1000", 7),
        "match": ("client_id=a.*,client_software_name = Java", 7),
        "metrics": ("", 5),
    }
    (interval,) = described(driver, METRICS, "m", "interval.ms").configs
    assert (interval.config_type, [each.source for each in interval.synonyms]) == (3, [7])
    assert interval.documentation
    assert listed(driver, 0) == listed(driver, 1, METRICS) == [(METRICS, "m")]
    assert (METRICS, "m") in listed(driver, 1)
    for name in ("interval.ms", "match"):
        assert not alter(driver, METRICS, "m", (name, DELETE, None)).error_code
    assert listed(driver, 0) == []


def test_alter_configs_replaces_a_subscription(driver: BrokerDriver) -> None:
    alter(driver, METRICS, "m", ("interval.ms", SET, "1000"))
    request = protocol.AlterConfigsRequest
    configs = [request.AlterableConfig(name="metrics", value="*")]
    resources = [
        request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        for kind, name in ((METRICS, "m"), (LOGGER, "1"))
    ]
    metrics, logger = driver.ask(request(resources=resources)).responses
    assert (metrics.error_code, logger.error_code) == (0, INVALID_REQUEST)
    assert values(described(driver, METRICS, "m"))["interval.ms"] == ("300000", 5)
    assert values(described(driver, METRICS, "m"))["metrics"] == ("*", 7)


@pytest.mark.parametrize(
    ("name", "change", "code", "text"),
    [
        ("", ("interval.ms", SET, "1000"), INVALID_REQUEST, "name can't be empty"),
        ("m", ("nope", SET, "1"), INVALID_REQUEST, "Unknown client metrics configuration: nope"),
        ("m", ("interval.ms", SET, "99"), INVALID_REQUEST, "must be between 100 and 3600000"),
        ("m", ("interval.ms", SET, "3600001"), INVALID_REQUEST, "must be between 100 and 3600000"),
        ("m", ("interval.ms", SET, "x"), INVALID_CONFIG, "Not a number of type INT"),
        ("m", ("interval.ms", APPEND, "1"), INVALID_CONFIG, "its type is not LIST"),
        ("m", ("metrics", APPEND, "a"), INVALID_CONFIG, "its type is not LIST"),
        ("m", ("match", SET, "colour=red"), INVALID_CONFIG, "Illegal client matching pattern: colour=red"),
        ("m", ("match", SET, "client_id"), INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ("m", ("match", SET, "client_id="), INVALID_CONFIG, "Illegal client matching pattern"),
        ("m", ("match", SET, "client_id=["), INVALID_CONFIG, "Illegal client matching pattern"),
    ],
)
def test_wrong_options_of_subscriptions(
    driver: BrokerDriver, name: str, change: tuple[str, int, str], code: int, text: str
) -> None:
    result = alter(driver, METRICS, name, change)
    assert result.error_code == code
    assert text in result.error_message
    assert listed(driver, 0) == []


def test_lists_of_groups_do_not_grow(driver: BrokerDriver) -> None:
    result = alter(driver, 32, "g", ("streams.rack.aware.assignment.tags", APPEND, "zone"))
    assert result.error_code == INVALID_CONFIG
    assert "its type is not LIST" in result.error_message


def test_levels_of_loggers(driver: BrokerDriver) -> None:
    assert values(described(driver, LOGGER, "2", node=2))["org.apache.kafka.controller"] == ("INFO", 6)
    changes = ("org.apache.kafka", SET, "DEBUG"), ("org.apache.kafka.controller", DELETE, None)
    assert not alter(driver, LOGGER, "2", *changes, node=2, only=True).error_code
    assert values(described(driver, LOGGER, "2", "org.apache.kafka", node=2)) == {"org.apache.kafka": ("INFO", 6)}
    assert not alter(driver, LOGGER, "2", *changes, node=2).error_code
    levels = values(described(driver, LOGGER, "2", node=2))
    assert levels["org.apache.kafka.controller"] == ("DEBUG", 6), "the nearest ancestor with a level"
    assert levels["kafka"] == levels["root"] == ("INFO", 6)
    assert values(described(driver, LOGGER, "1"))["org.apache.kafka"] == ("INFO", 6), "another broker has its own"
    assert not alter(driver, LOGGER, "2", ("kafka.request.logger", DELETE, None), node=2).error_code
    assert not alter(driver, LOGGER, "2", ("kafka", DELETE, None), ("root", SET, "ERROR"), node=2).error_code
    assert values(described(driver, LOGGER, "2", node=2))["kafka.request.logger"] == ("ERROR", 6)


def test_a_restart_resets_the_levels(driver: BrokerDriver) -> None:
    alter(driver, LOGGER, "1", ("root", SET, "TRACE"))
    driver.state.stop(1)
    driver.state.start(1)
    assert values(described(driver, LOGGER, "1"))["root"] == ("INFO", 6)


@pytest.mark.parametrize(
    ("name", "change", "code", "text"),
    [
        ("2", ("root", SET, "INFO"), INVALID_REQUEST, "Unexpected node id. Expected 1, but received 2"),
        ("x", ("root", SET, "INFO"), INVALID_REQUEST, "Node id must be an integer"),
        ("1", ("nope", SET, "INFO"), INVALID_CONFIG, "Logger nope does not exist!"),
        ("1", ("kafka", SET, "LOUD"), INVALID_CONFIG, "not a supported log level"),
        ("1", ("root", DELETE, None), INVALID_REQUEST, "not allowed"),
        ("1", ("kafka", APPEND, "INFO"), INVALID_REQUEST, "APPEND operation is not allowed"),
    ],
)
def test_wrong_levels(driver: BrokerDriver, name: str, change: tuple[str, int, str], code: int, text: str) -> None:
    before = values(described(driver, LOGGER, "1"))
    result = alter(driver, LOGGER, name, change)
    assert result.error_code == code
    assert text in result.error_message
    assert values(described(driver, LOGGER, "1")) == before


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (LOGGER, "", "Broker id must not be empty"),
        (LOGGER, "x", "Broker id must be an integer"),
        (LOGGER, "2", "Unexpected broker id, expected 1 but received 2"),
        (METRICS, "", "Client metrics subscription name must not be empty"),
    ],
)
def test_resources_that_cannot_be_described(driver: BrokerDriver, kind: int, name: str, text: str) -> None:
    result = described(driver, kind, name)
    assert result.error_code == INVALID_REQUEST
    assert text in result.error_message
