"""Groups of all types: list, describe and delete them, and remove their members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kafwire import protocol
from kafwire.admin.arguments import chosen_of, names_of, text_of, timeout_ms_of
from kafwire.admin.asking import ask, error_of
from kafwire.admin.group_arguments import MemberName, members_of, reason_of
from kafwire.admin.group_descriptions import (
    classic_group,
    consumer_group,
    share_group,
    source_topics,
    streams_group,
)
from kafwire.admin.group_types import (
    CLASSIC,
    CONSUMER,
    GROUP_STATES,
    GROUP_TYPES,
    NOT_READY,
    SHARE,
    STREAMS,
    GroupDescription,
    GroupListing,
    GroupMember,
)
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import AdminRequests
from kafwire.admin.routes import Coordinators
from kafwire.cluster.coordinator import GROUP
from kafwire.cluster.requirements import needs
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaError, ProtocolError, broker_error
from kafwire.runtime.interfaces import Work
from kafwire.types import TopicPartition

__all__ = ["GroupCalls", "sorted_groups"]

# A broker that starts lists no groups until it has loaded them; Java retries the same codes.
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# The group has another type, or the cluster disables this type: another API may know the group.
OTHER_TYPE = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
DEAD = "Dead"


class _Wanted(NamedTuple):
    """The optional parts of descriptions."""

    operations: bool = False
    topology: bool = False


class GroupCalls(AdminRequests):
    """The calls about groups and their members."""

    def list_groups(
        self,
        *,
        states: Iterable[str] | None,
        types: Iterable[str] | None,
        protocol_types: Iterable[str] | None,
        timeout: float | None,
    ) -> Work[Outcomes[int, list[GroupListing]]]:
        """List the groups of each broker."""
        wanted_states = chosen_of("states", states, GROUP_STATES)
        wanted_types = chosen_of("types", types, GROUP_TYPES)
        kinds = set() if protocol_types is None else set(_texts("protocol_types", protocol_types))
        # Brokers write this state in two ways, and filter by the second.
        asked_states = [*wanted_states, *(["not_ready"] if NOT_READY in wanted_states else [])]
        request: Any = protocol.ListGroupsRequest

        async def send(broker: int, _: list[int]) -> Mapping[int, list[GroupListing] | KafkaError]:
            asked_types = wanted_types
            version = await route.offered(broker, request)
            if version is not None and version < request.TYPES and set(wanted_types) <= {CLASSIC, CONSUMER}:
                asked_types = [] if CLASSIC in wanted_types else wanted_types  # such a broker has classic groups only
            what, kafka = (f"types={wanted_types}", "3.8") if asked_types else (f"states={wanted_states}", "2.6")
            with needs(request, what, kafka):
                response = await route.call(broker, request(states_filter=asked_states, types_filter=asked_types))
            error = error_of(response, f"listing the groups of broker {broker}", "ListGroups")
            found = [_listing(each, broker) for each in response.groups]
            return {broker: error or [each for each in found if not kinds or each.protocol_type in kinds]}

        route = self._given(_itself, also=LOADING)
        return self._everywhere(route, send, "listing groups", timeout_ms_of(timeout))

    def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool, topology_description: bool, timeout: float | None
    ) -> Work[Outcomes[str, GroupDescription]]:
        """Describe groups of any type."""
        names = names_of("groups", groups, 'describe_groups(["billing"])')
        wanted = _Wanted(bool(authorized_operations), bool(topology_description))

        async def send(broker: int, asked: list[str]) -> Mapping[str, GroupDescription | KafkaError]:
            return await self._describe(route, broker, asked, wanted)

        route: Coordinators[str] = self._coordinators(GROUP)
        return self._work(names, route, send, "describing groups", timeout_ms_of(timeout))

    def delete_groups(self, groups: Iterable[str], *, timeout: float | None) -> Work[Outcomes[str, None]]:
        """Delete groups of any type, with their offsets."""
        names = names_of("groups", groups, 'delete_groups(["billing"])')

        async def send(broker: int, asked: list[str]) -> Mapping[str, KafkaError | None]:
            response = await route.call(broker, protocol.DeleteGroupsRequest(groups_names=asked))
            return {
                each.group_id: error_of(each, f"deleting group {each.group_id}", "DeleteGroups", group=each.group_id)
                for each in response.results
            }

        route: Coordinators[str] = self._coordinators(GROUP)
        return self._work(names, route, send, "deleting groups", timeout_ms_of(timeout))

    def remove_members(
        self,
        group: str,
        members: Iterable[str | GroupMember] | None,
        *,
        instance_ids: Iterable[str] | None,
        reason: str | None,
        timeout: float | None,
    ) -> Work[Outcomes[str, None]]:
        """Remove members from a group; without any name: all."""
        text_of("group", group)
        is_all = members is None and instance_ids is None
        given = {} if is_all else members_of(() if members is None else members, instance_ids)
        why, limit_ms = reason_of(reason), timeout_ms_of(timeout)
        what = f"removing members of group {group}"
        route: Coordinators[str] = self._coordinators(GROUP, lambda _: group)

        async def run() -> Outcomes[str, None]:
            left_ms = self._time_limit(limit_ms)
            leaving = members_of(await self._members(group, left_ms())) if is_all else given

            async def send(broker: int, asked: list[str]) -> Mapping[str, KafkaError | None]:
                named = [leaving[name] for name in asked]
                return await _leave(route, broker, group, named, why, is_given=reason is not None)

            return await ask(self._cluster, leaving, route, send, what, left_ms())

        return run

    async def _members(self, group: str, limit_ms: float | None) -> tuple[GroupMember, ...]:
        """Return all members of a group from which they can be removed."""

        async def send(broker: int, asked: list[str]) -> Mapping[str, GroupDescription | KafkaError]:
            return await self._describe(route, broker, asked, _Wanted())

        route: Coordinators[str] = self._coordinators(GROUP)
        outcomes = await ask(self._cluster, [group], route, send, f"describing group {group}", limit_ms)
        if outcomes.errors:
            raise outcomes.error()
        its = outcomes.results[group]
        if its.type in (SHARE, STREAMS):
            text = f"group {group} is a {its.type} group: Kafka removes members of classic and consumer groups only"
            raise ConfigError(f"{text}; stop the clients")
        return its.members

    async def _describe(
        self, route: Coordinators[str], broker: int, groups: Collection[str], wanted: _Wanted
    ) -> dict[str, GroupDescription | KafkaError]:
        """Ask the APIs of all types, one after the other, for the groups that the APIs before did not know."""
        found: dict[str, GroupDescription | KafkaError] = {}
        left = list(groups)
        for api in APIS:
            request: Any = getattr(protocol, f"{api}Request")
            if not left or await route.offered(broker, request) is None:
                continue
            parts = await self._ask_api(route, broker, request, left, wanted)
            existing = await self._existing(parts) if api == APIS[-1] else set()
            others = []
            for part in parts:
                group_id, code = part.group_id, part.error_code
                if code in OTHER_TYPE or (not code and part.group_state == DEAD):
                    others.append(group_id)
                else:
                    error = error_of(part, f"describing group {group_id}", api, group=group_id)
                    found[group_id] = error or _READERS[api](part, broker, existing)
            left = others
        for group_id in left:
            what = f"describing group {group_id}"
            found[group_id] = broker_error(ErrorCode.GROUP_ID_NOT_FOUND, what, api="DescribeGroups", group=group_id)
        return found

    async def _ask_api(
        self, route: Coordinators[str], broker: int, request: Any, groups: list[str], wanted: _Wanted
    ) -> list[Any]:
        """Return the parts of the response of one API."""
        named = {"groups" if request is protocol.DescribeGroupsRequest else "group_ids": groups}
        message = request(**named, include_authorized_operations=wanted.operations)
        if request is protocol.StreamsGroupDescribeRequest:
            message.include_topology_description = wanted.topology
        with needs(request, "topology_description=True", "4.4"):
            return list((await route.call(broker, message)).groups)

    async def _existing(self, groups: Iterable[Any]) -> set[TopicPartition]:
        """Return the partitions of the topics that members of streams groups read."""
        topics = {topic for each in groups if each.members for its in source_topics(each).values() for topic in its}
        if not topics:
            return set()
        request: Any = protocol.MetadataRequest
        named = [request.MetadataRequestTopic(name=name) for name in sorted(topics)]
        response = await self._cluster.call_once(request(topics=named, allow_auto_topic_creation=False))
        return {
            TopicPartition(topic.name, part.partition_index) for topic in response.topics for part in topic.partitions
        }


# In this order: most groups are of the first two types.
APIS = ("ConsumerGroupDescribe", "DescribeGroups", "ShareGroupDescribe", "StreamsGroupDescribe")
_READERS: Mapping[str, Callable[[Any, int, Collection[TopicPartition]], GroupDescription]] = {
    "ConsumerGroupDescribe": lambda part, broker, _: consumer_group(part, broker),
    "DescribeGroups": lambda part, broker, _: classic_group(part, broker),
    "ShareGroupDescribe": lambda part, broker, _: share_group(part, broker),
    "StreamsGroupDescribe": streams_group,
}


def sorted_groups(by_broker: Mapping[int, list[GroupListing]]) -> list[GroupListing]:
    """Return the groups of all brokers by their ids."""
    return sorted((each for its in by_broker.values() for each in its), key=lambda each: each.group_id)


def _listing(its: Any, broker: int) -> GroupListing:
    # Kafka writes the types in capitals and small letters.
    return GroupListing(its.group_id, its.group_type.lower(), its.group_state, its.protocol_type, broker)


def _itself(broker: int) -> int:
    return broker


def _texts(what: str, values: Any) -> list[str]:
    """Return texts, which may be empty: the protocol type of a group without members is."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of texts: {what}=['consumer']")
    texts = list(values)
    for each in texts:
        if not isinstance(each, str):
            raise ConfigError(f"{what}: {each!r} is not a text")
    return texts


async def _leave(
    route: Coordinators[str], broker: int, group: str, members: Iterable[MemberName], reason: str, *, is_given: bool
) -> dict[str, KafkaError | None]:
    """Remove members by one LeaveGroup. Return the error of each, or None."""
    request: Any = protocol.LeaveGroupRequest
    version = await route.offered(broker, request)
    if is_given and version is not None and version < request.REASONS:
        text = f"reason={reason!r} needs Kafka 3.2 or newer: leave it out, as broker {broker} is older"
        raise ProtocolError(text, api=request.__name__, version=version)
    named = [
        request.MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
        for member_id, instance_id in members
    ]
    with needs(request, "remove_members", "2.4"):
        response = await route.call(broker, request(group_id=group, members=named))
    error = error_of(response, f"removing members of group {group}", "LeaveGroup", group=group)
    if error is not None:
        raise error
    found: dict[str, KafkaError | None] = {}
    for each in response.members:
        # Kafka 4.0 adds the member id of a static member of a consumer group.
        name = each.group_instance_id or each.member_id
        found[name] = error_of(each, f"removing member {name} of group {group}", "LeaveGroup", group=group)
    return found
