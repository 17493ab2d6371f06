"""FindCoordinator, in the versions of one key and of several."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.state import INTERNAL_PARTITIONS, ClusterState, java_hash
from kafwire.errors import ErrorCode
from tests.support.broker.driver import BrokerDriver

GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.fixture
def driver() -> BrokerDriver:
    state = ClusterState((1, 2, 3))
    for number, node in state.nodes.items():
        node.addresses = {"PLAINTEXT": ("here", 9000 + number), "INSIDE": ("inside", 9100 + number)}
    return BrokerDriver(state)


def find(driver: BrokerDriver, key: str = "g", kind: int = GROUP, version: int = 3, **how: Any) -> Any:
    if version >= 4:
        request = protocol.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return driver.ask(request, version, **how).coordinators[0]
    return driver.ask(protocol.FindCoordinatorRequest(key_type=kind, key=key), version, **how)


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_it(driver: BrokerDriver, version: int) -> None:
    driver.state.move_coordinator("g", 2)
    found = find(driver, version=version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 2, "here", 9002)
    assert found.error_message == ("NONE" if version < 4 else ""), "older versions say that there was no error"


def test_several_keys_at_once(driver: BrokerDriver) -> None:
    driver.state.move_coordinator("g", 2)
    driver.state.move_coordinator("h", 3)
    response = driver.ask(protocol.FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["h", "g"]), 4)
    assert [(each.key, each.node_id) for each in response.coordinators] == [("h", 3), ("g", 2)]


def test_kafkas_hash_chooses_the_coordinator(driver: BrokerDriver) -> None:
    assert java_hash("group-1") == 293427299
    assert find(driver, "group-1").node_id == [1, 2, 3][293427299 % INTERNAL_PARTITIONS % 3]


def test_the_coordinator_has_the_address_of_the_client_s_listener(driver: BrokerDriver) -> None:
    driver.state.move_coordinator("g", 2)
    inside = driver.state.connect(1, "INSIDE")
    assert (find(driver, connection=inside).host, find(driver, connection=inside).port) == ("inside", 9102)


@pytest.mark.parametrize("version", [3, 4])
def test_no_broker_coordinates(driver: BrokerDriver, version: int) -> None:
    for node in (-1, 2):
        driver.state.move_coordinator("g", node)
        driver.state.nodes[2].is_up = False
        found = find(driver, version=version)
        assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
        assert ErrorCode(found.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert bool(found.error_message) == (version < 4)


@pytest.mark.parametrize("kind", [SHARE, 5])
def test_kinds_that_there_are_not(driver: BrokerDriver, kind: int) -> None:
    for version in (2, 6):
        assert find(driver, kind=kind, version=version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "version", "code"),
    [
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:0", 6, 0),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:0", 5, ErrorCode.INVALID_REQUEST),
        ("g", 6, ErrorCode.INVALID_REQUEST),
        (" :AAAAAAAAAAAAAAAAAAAAAQ:0", 6, ErrorCode.INVALID_REQUEST),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:a", 6, ErrorCode.INVALID_REQUEST),
        ("g:00000000-0000-0000-0000-000000000001:0", 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_share_partition_is_found_by_group_topic_id_and_number(
    driver: BrokerDriver, key: str, version: int, code: int
) -> None:
    found = find(driver, key, SHARE, version)
    assert found.error_code == code
    assert (found.node_id > 0) == (code == 0)
