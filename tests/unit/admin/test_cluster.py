"""`admin.cluster`: the brokers and the features of a cluster, in both faces."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import ClusterBroker, FeatureRange, FeatureUpdate
from kafwire.errors import (
    AdminError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaError,
    ProtocolError,
)
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.flavours import Flavour

NONE_SHARED = (9, 9)  # versions of an API that kafwire does not have


def age(flavour: Flavour, **versions: tuple[int, int]) -> None:
    """Let all brokers offer only these versions."""
    for node in flavour.world.nodes.values():
        node.versions = versions


def test_the_cluster_is_described(flavour: Flavour) -> None:
    flavour.world.nodes[2].rack = "r2"
    cluster = flavour.get(flavour.admin().describe_cluster())
    assert (cluster.cluster_id, cluster.controller_id, list(cluster.brokers)) == ("simulated", 1, [1, 2])
    broker = cluster.brokers[2]
    assert broker == ClusterBroker(2, broker.host, broker.port, "r2", is_fenced=False)
    assert cluster.authorized_operations is None


def test_fenced_brokers_are_shown_on_request(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.world.nodes[2].down = True
    assert list(flavour.get(admin.describe_cluster()).brokers) == [1]
    shown = flavour.get(admin.describe_cluster(fenced=True)).brokers
    assert {number: broker.is_fenced for number, broker in shown.items()} == {1: False, 2: True}


@pytest.mark.parametrize("versions", [{}, {"DescribeCluster": NONE_SHARED, "Metadata": (0, 9)}])
def test_operations_that_acls_allow(flavour: Flavour, versions: dict[str, tuple[int, int]]) -> None:
    age(flavour, **versions)
    cluster = flavour.get(flavour.admin().describe_cluster(authorized_operations=True))
    assert cluster.authorized_operations is not None
    assert {"Alter", "ClusterAction", "IdempotentWrite"} <= cluster.authorized_operations
    assert "Read" not in cluster.authorized_operations, "it is no operation on clusters"
    assert bool(flavour.world.made("DescribeCluster")) == (not versions)


def test_an_old_broker_describes_the_cluster_by_metadata(flavour: Flavour) -> None:
    age(flavour, DescribeCluster=NONE_SHARED)
    cluster = flavour.get(flavour.admin().describe_cluster())
    assert (cluster.cluster_id, cluster.controller_id, list(cluster.brokers)) == ("simulated", 1, [1, 2])
    assert not flavour.world.made("DescribeCluster")


@pytest.mark.parametrize("versions", [NONE_SHARED, (0, 1)])
def test_an_old_broker_cannot_show_fenced_brokers(flavour: Flavour, versions: tuple[int, int]) -> None:
    age(flavour, DescribeCluster=versions)
    with pytest.raises(ProtocolError, match="fenced=True needs Kafka 4.0 or newer"):
        flavour.get(flavour.admin().describe_cluster(fenced=True))


def test_an_error_of_the_description_is_raised(flavour: Flavour) -> None:
    response = protocol.DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message="why", cluster_id="", brokers=[]
    )
    flavour.world.on("DescribeCluster", lambda _: response)
    with pytest.raises(BrokerError, match="UNSUPPORTED_ENDPOINT_TYPE.*describing the cluster: why"):
        flavour.get(flavour.admin().describe_cluster())


# --- features


def test_features_are_described(flavour: Flavour) -> None:
    features = flavour.get(flavour.admin().describe_features())
    assert features.finalized["metadata.version"] == FeatureRange(33, 33)
    assert features.supported["transaction.version"] == FeatureRange(0, 2)
    assert features.finalized_epoch == 1


def test_a_broker_is_asked_for_its_features(flavour: Flavour) -> None:
    def respond(call: Call) -> Any:
        if call.node != 2:
            return None
        response = protocol.ApiVersionsResponse
        key = response.SupportedFeatureKey(name="of.two", min_version=1, max_version=3)
        keys = [response.ApiVersion(api_key=18, min_version=0, max_version=4)]
        keys.append(response.ApiVersion(api_key=3, min_version=0, max_version=12))
        return response(api_keys=keys, supported_features=[key])

    flavour.world.on("ApiVersions", respond)
    admin = flavour.admin()
    features = flavour.get(admin.describe_features(broker=2))
    assert features.supported == {"of.two": FeatureRange(1, 3)}
    assert (features.finalized, features.finalized_epoch) == ({}, None)
    assert "group.version" in flavour.get(admin.describe_features(broker=1)).supported
    with pytest.raises(ConfigError, match=r"broker 7 is not in the cluster \(its brokers: 1, 2\)"):
        flavour.get(admin.describe_features(broker=7))


def test_features_are_raised_and_lowered(flavour: Flavour) -> None:
    admin = flavour.admin()
    with pytest.raises(BrokerError, match="INVALID_UPDATE_VERSION.*Can't downgrade"):
        flavour.get(admin.update_features({"transaction.version": 1}))
    down = {
        "transaction.version": FeatureUpdate(1, "safe_downgrade"),
        "share.version": FeatureUpdate(0, "safe_downgrade"),
    }
    flavour.get(admin.update_features(down, validate_only=True))
    assert flavour.get(admin.describe_features()).finalized["share.version"].max_version == 2
    flavour.get(admin.update_features(down))
    features = flavour.get(admin.describe_features())
    assert features.finalized["transaction.version"] == FeatureRange(1, 1)
    assert "share.version" not in features.finalized
    assert features.finalized_epoch == 2
    flavour.get(admin.update_features({"share.version": 2}))
    assert flavour.get(admin.describe_features()).finalized["share.version"].max_version == 2


@pytest.mark.parametrize("version", [1, 2])
def test_one_bad_feature_changes_none(flavour: Flavour, version: int) -> None:
    age(flavour, UpdateFeatures=(0, version))
    admin = flavour.admin()
    updates = {"group.version": FeatureUpdate(0, "unsafe_downgrade"), "no.such": 1}
    with pytest.raises(AdminError, match="2 of 2 failed: group.version: INVALID_UPDATE_VERSION") as caught:
        flavour.get(admin.update_features(updates))
    assert list(caught.value.errors) == ["group.version", "no.such"]
    errors: dict[str, KafkaError] = {}
    flavour.get(admin.update_features(updates, on_error=errors.__setitem__))
    assert list(errors) == ["group.version", "no.such"]
    assert flavour.world.state.features["group.version"] == 1


def test_an_old_broker_reports_each_feature(flavour: Flavour) -> None:
    def respond(_: Call) -> Any:
        response = protocol.UpdateFeaturesResponse
        codes = {"a": 0, "b": ErrorCode.INVALID_UPDATE_VERSION}
        results = [
            response.UpdatableFeatureResult(feature=f, error_code=c, error_message=None) for f, c in codes.items()
        ]
        return response(error_message=None, results=results)

    age(flavour, UpdateFeatures=(0, 0))
    flavour.world.on("UpdateFeatures", respond)
    admin = flavour.admin()
    with pytest.raises(AdminError, match="1 of 2 failed: b: INVALID_UPDATE_VERSION") as caught:
        flavour.get(admin.update_features({"a": 1, "b": 1}))
    assert list(caught.value.results) == ["a"]
    for updates, only in [({"a": 1}, True), ({"a": FeatureUpdate(1, "safe_downgrade")}, False)]:
        with pytest.raises(ProtocolError, match="a downgrade or validate_only needs Kafka 3.3 or newer"):
            flavour.get(admin.update_features(updates, validate_only=only))


def test_a_moved_controller_is_found_again(flavour: Flavour) -> None:
    refusals = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]

    def respond(_: Call) -> Any:
        code = refusals.pop() if refusals else 0
        return protocol.UpdateFeaturesResponse(error_code=code, error_message=None) if code else None

    flavour.world.on("UpdateFeatures", respond)
    flavour.get(flavour.admin().update_features({"share.version": 2}))
    assert len(flavour.world.made("UpdateFeatures")) == 3


# --- registrations


def test_a_broker_is_unregistered(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.world.nodes[2].down = True
    flavour.get(admin.unregister_broker(2))
    assert list(flavour.get(admin.describe_cluster(fenced=True)).brokers) == [1]
    with pytest.raises(BrokerError, match="BROKER_ID_NOT_REGISTERED.*unregistering broker 2"):
        flavour.get(admin.unregister_broker(2))


def test_a_request_that_was_not_forwarded_in_time_is_sent_again(flavour: Flavour) -> None:
    late = [ErrorCode.REQUEST_TIMED_OUT]

    def respond(_: Call) -> Any:
        return protocol.UnregisterBrokerResponse(error_code=late.pop(), error_message=None) if late else None

    flavour.world.on("UnregisterBroker", respond)
    flavour.world.nodes[2].down = True
    flavour.get(flavour.admin().unregister_broker(2))
    assert len(flavour.world.made("UnregisterBroker")) == 2


def test_a_cluster_without_kraft_unregisters_no_broker(flavour: Flavour) -> None:
    age(flavour, UnregisterBroker=NONE_SHARED)
    with pytest.raises(ProtocolError, match=r"unregister_broker needs Kafka 3.0 \(with KRaft\) or newer"):
        flavour.get(flavour.admin().unregister_broker(2))


def test_a_missing_permission_is_named(flavour: Flavour) -> None:
    response = protocol.UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    flavour.world.on("UnregisterBroker", lambda _: response)
    with pytest.raises(AuthorizationError, match="an ACL that permits Alter on the Cluster"):
        flavour.get(flavour.admin().unregister_broker(2))


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("describe_cluster", (), {"fenced": "no"}, "fenced='no': write True or False"),
    ("describe_cluster", (), {"authorized_operations": 1}, "authorized_operations=1"),
    ("describe_features", (), {"broker": "1"}, "broker='1': it must be a node's id"),
    ("describe_features", (), {"broker": -1}, "from 0 on"),
    ("update_features", ({},), {}, "write a dict"),
    ("update_features", (["a"],), {}, "write a dict"),
    ("update_features", ({"": 1},), {}, "at least one character"),
    ("update_features", ({"a": "1"},), {}, "feature 'a': max_version_level='1'"),
    ("update_features", ({"a": 0},), {}, "feature 'a': level 0 removes a feature"),
    ("update_features", ({"a": 1},), {"validate_only": None}, "validate_only=None"),
    ("unregister_broker", (None,), {}, "broker_id=None"),
    ("unregister_broker", (True,), {}, "broker_id=True"),
]


@pytest.mark.parametrize(("method", "args", "options", "text"), WRONG)
def test_wrong_arguments(
    flavour: Flavour, method: str, args: tuple[Any, ...], options: dict[str, Any], text: str
) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args, **options))
    assert not flavour.world.calls


def test_wrong_upgrade_types() -> None:
    with pytest.raises(ConfigError, match="one of upgrade, safe_downgrade, unsafe_downgrade"):
        FeatureUpdate(1, "downgrade")
    with pytest.raises(ConfigError, match="one of upgrade, safe_downgrade, unsafe_downgrade"):
        FeatureUpdate(1, [])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="from 0 on"):
        FeatureUpdate(1 << 15)
