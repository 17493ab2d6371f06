"""The cluster: its brokers, the levels of its features, and registrations of nodes that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import flag_of, node_of, one_of, text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.operations import operations_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.admin.routes import ANY, Route
from kafwire.cluster.broker_connection import SOFTWARE_VERSION
from kafwire.cluster.requirements import is_lacking, needs, newer_needed
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaError, ProtocolError
from kafwire.integers import integer
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["ClusterBroker", "ClusterCalls", "ClusterDescription", "FeatureDescription", "FeatureRange", "FeatureUpdate"]

UPGRADE_TYPES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
HIGHEST_LEVEL = 0x7FFF


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """A broker of a cluster, and the address that it advertises to clients.

    Args:
        node_id: the broker's id.
        host: the host that it advertises.
        port: the port that it advertises.
        rack: its rack, or None.
        is_fenced: True if it is registered, and does not serve clients: it stopped, or is starting.

    Example:
        >>> from kafwire.admin import ClusterBroker
        >>> ClusterBroker(1, "localhost", 9092, None, is_fenced=False).port
        9092
    """

    __module__ = "kafwire.admin"
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster, as one of them knows them.

    Args:
        cluster_id: the cluster's id, or None.
        controller_id: the id of the controller; with KRaft, of a broker that forwards to it. -1 if none is known.
        brokers: the brokers by id.
        authorized_operations: the names of the operations on the cluster that ACLs allow this client, for example
            "Alter"; None if they were not requested.

    Example:
        >>> from kafwire.admin import ClusterDescription
        >>> ClusterDescription("4L6g3nShT-eMCtK--X86sw", 1, {}, None).controller_id
        1
    """

    __module__ = "kafwire.admin"
    cluster_id: str | None
    controller_id: int
    brokers: dict[int, ClusterBroker]
    authorized_operations: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """Levels of a feature, from `min_version` to `max_version`.

    Args:
        min_version: the lowest level.
        max_version: the highest level.

    Example:
        >>> from kafwire.admin import FeatureRange
        >>> FeatureRange(0, 2).max_version
        2
    """

    __module__ = "kafwire.admin"
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """The features of a cluster (KIP-584).

    Args:
        finalized: the levels that are in effect in the whole cluster, by feature. A feature at level 0 is not in it.
        finalized_epoch: a number that grows with each record of the metadata log; None from brokers before Kafka 2.7.
        supported: the levels that the asked broker supports, by feature.

    Example:
        >>> from kafwire.admin import FeatureDescription, FeatureRange
        >>> features = FeatureDescription({"group.version": FeatureRange(1, 1)}, 42, {})
        >>> features.finalized["group.version"].max_version
        1
    """

    __module__ = "kafwire.admin"
    finalized: dict[str, FeatureRange]
    finalized_epoch: int | None
    supported: dict[str, FeatureRange]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that a feature is to have, for `Admin.update_features`.

    Args:
        max_version_level: the level; 0 removes the feature, which is a downgrade.
        upgrade_type: "upgrade" only raises a level. "safe_downgrade" lowers it if no metadata is lost,
            "unsafe_downgrade" in any case.

    Raises:
        ConfigError: an argument has a bad value.

    Example:
        >>> from kafwire.admin import FeatureUpdate
        >>> FeatureUpdate(0, "safe_downgrade").max_version_level
        0
    """

    __module__ = "kafwire.admin"
    max_version_level: int
    upgrade_type: str = "upgrade"

    def __post_init__(self) -> None:
        level = integer(self.max_version_level)
        if level is None or not 0 <= level <= HIGHEST_LEVEL:
            raise ConfigError(f"max_version_level={self.max_version_level!r}: it must be a whole number from 0 on")
        one_of("upgrade_type", self.upgrade_type, UPGRADE_TYPES)
        if level == 0 and self.upgrade_type == "upgrade":
            raise ConfigError(
                "level 0 removes a feature, which is no upgrade: set upgrade_type to safe_downgrade or unsafe_downgrade"
            )


class ClusterCalls(AdminRequests):
    """The calls about the cluster and its features."""

    def describe_cluster(
        self, *, fenced: bool, authorized_operations: bool, timeout: float | None
    ) -> Work[ClusterDescription]:
        """Describe the brokers, by DescribeCluster or, for brokers before Kafka 2.8, by Metadata."""
        request: Any = protocol.DescribeClusterRequest
        message = request(
            include_fenced_brokers=flag_of("fenced", fenced),
            include_cluster_authorized_operations=flag_of("authorized_operations", authorized_operations),
        )

        async def send(broker: int) -> ClusterDescription | KafkaError:
            try:
                response = await route.call(broker, message)
            except ProtocolError as error:
                if not is_lacking(error, request):
                    raise
                if fenced:
                    raise newer_needed(error, "fenced=True", "4.0") from None
                return await self._cluster_of_metadata(route, broker, authorized_operations)
            return error_of(response, "describing the cluster", "DescribeCluster") or ClusterDescription(
                response.cluster_id,
                response.controller_id,
                {
                    each.broker_id: ClusterBroker(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
                    for each in response.brokers
                },
                operations_of(response.cluster_authorized_operations),
            )

        route = self._any()
        return self._single(route, send, "describing the cluster", timeout_ms_of(timeout))

    @staticmethod
    async def _cluster_of_metadata(route: Route[str], broker: int, operations: bool) -> ClusterDescription:
        request: Any = protocol.MetadataRequest
        message = request(topics=[], include_cluster_authorized_operations=operations)
        with needs(request, "authorized_operations=True", "2.3"):
            response = await route.call(broker, message)
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            {
                each.node_id: ClusterBroker(each.node_id, each.host, each.port, each.rack, is_fenced=False)
                for each in response.brokers
            },
            operations_of(response.cluster_authorized_operations),
        )

    def describe_features(self, *, broker: int | None, timeout: float | None) -> Work[FeatureDescription]:
        """Describe the features that are in effect, and those that a broker supports."""
        request: Any = protocol.ApiVersionsRequest
        message = request(client_software_name="kafwire", client_software_version=SOFTWARE_VERSION)
        named = ANY if broker is None else node_of("broker", broker)
        route: Route[str] = self._given(lambda _: named)

        async def send(broker: int) -> FeatureDescription | KafkaError:
            response = await route.call(broker, message)
            return error_of(response, "describing features", "ApiVersions") or _features(response)

        return self._single(route, send, "describing features", timeout_ms_of(timeout))

    def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        *,
        validate_only: bool,
        timeout: float | None,
    ) -> Work[Outcomes[str, None]]:
        """Change the levels of features: all of them, or none."""
        asked = _updates_of(updates)
        request: Any = protocol.UpdateFeaturesRequest
        message = request(
            timeout_ms=BROKER_TIMEOUT_MS,
            validate_only=flag_of("validate_only", validate_only),
            feature_updates=[
                request.FeatureUpdateKey(
                    feature=name,
                    max_version_level=update.max_version_level,
                    upgrade_type=UPGRADE_TYPES[update.upgrade_type],
                )
                for name, update in asked.items()
            ],
        )
        is_plain = not validate_only and all(each.upgrade_type == "upgrade" for each in asked.values())
        what, kafka = ("update_features", "2.7") if is_plain else ("a downgrade or validate_only", "3.3")

        async def send(broker: int, names: list[str]) -> Mapping[str, KafkaError | None]:
            with needs(request, what, kafka):
                response = await route.call(broker, message)
            error = error_of(response, "updating features", "UpdateFeatures")
            if error is not None or not response.results:
                return dict.fromkeys(names, error)
            return {
                each.feature: error_of(each, f"updating feature {each.feature!r}", "UpdateFeatures")
                for each in response.results
            }

        route = self._any()
        return self._work(asked, route, send, "updating features", timeout_ms_of(timeout))

    def unregister_broker(self, broker_id: int, *, timeout: float | None) -> Work[None]:
        """Remove the registration of a broker that will not come back."""
        message = protocol.UnregisterBrokerRequest(broker_id=node_of("broker_id", broker_id))
        needed = "unregister_broker", "3.0 (with KRaft)"
        late = {ErrorCode.REQUEST_TIMED_OUT}
        return self._command(message, f"unregistering broker {broker_id}", needed, timeout, also=late)


def _features(response: Any) -> FeatureDescription:
    epoch = response.finalized_features_epoch
    return FeatureDescription(
        {
            each.name: FeatureRange(each.min_version_level, each.max_version_level)
            for each in response.finalized_features
        },
        epoch if epoch >= 0 else None,
        {each.name: FeatureRange(each.min_version, each.max_version) for each in response.supported_features},
    )


def _updates_of(updates: Any) -> dict[str, FeatureUpdate]:
    if not isinstance(updates, Mapping) or not updates:
        raise ConfigError(f"updates={updates!r}: write a dict: update_features({{'share.version': 1}})")
    asked = {}
    for name, update in updates.items():
        text_of("feature", name)
        try:
            asked[name] = update if isinstance(update, FeatureUpdate) else FeatureUpdate(update)
        except ConfigError as error:
            raise ConfigError(f"feature {name!r}: {error}") from None
    return asked
