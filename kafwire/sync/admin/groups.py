"""The calls of `Admin` about groups and their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.group_types import GroupDescription, GroupListing, GroupMember
from kafwire.admin.groups import sorted_groups
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace

OnError = Callable[[str, KafkaError], object]


class GroupAdmin(AdminFace):
    """A part of `Admin`."""

    def list_groups(
        self,
        *,
        states: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        protocol_types: Iterable[str] | None = None,
        timeout: float | None = None,
        on_error: Callable[[int, KafkaError], object] | None = None,
    ) -> list[GroupListing]:
        """List the groups of the cluster. Each broker lists the groups that it coordinates.

        Args:
            states: only groups in these states: "Empty", "Stable", "PreparingRebalance", "CompletingRebalance",
                "Assigning", "Reconciling", "NotReady" or "Dead".
            types: only groups of these types: "classic", "consumer", "share" or "streams". Brokers before Kafka 3.8
                cannot filter by them.
            protocol_types: only groups whose members have these types, for example "consumer" or "connect"; "" is that
                of groups with offsets alone.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the id of each broker that could not list its groups, and with the error; the result
                lacks its groups. Without it, errors are raised.

        Returns:
            The groups by their ids. Groups that this client may not describe are left out.

        Raises:
            ConfigError: an argument has a bad value.
            AdminError: some brokers failed; it has the groups and the errors by broker.
            ProtocolError: the only broker is too old for a filter.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     groups = admin.list_groups(states=["Empty", "Stable"])
            >>> group in [each.group_id for each in groups]
            True
        """
        work = self._calls.list_groups(states=states, types=types, protocol_types=protocol_types, timeout=timeout)
        return sorted_groups(self._by_key(work, on_error))

    def describe_groups(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        topology_description: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> dict[str, GroupDescription]:
        """Describe groups of any type, with their members. The coordinator of each group describes it.

        Args:
            groups: their ids.
            authorized_operations: also report the operations that this client may perform on each group.
            topology_description: also ask for the processing graphs of streams groups, which a broker has if a plugin
                stores them (KIP-1331).
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the id and the error of each group that could not be described; the result lacks it.
                Without it, errors are raised.

        Returns:
            The groups by their ids.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only group could not be described: GROUP_ID_NOT_FOUND if it does not exist.
            AdminError: some of several groups could not be described.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     described = admin.describe_groups([group])[group]
            >>> described.type, described.members
            ('classic', ())
        """
        work = self._calls.describe_groups(
            groups,
            authorized_operations=authorized_operations,
            topology_description=topology_description,
            timeout=timeout,
        )
        return self._by_key(work, on_error)

    def delete_groups(
        self, groups: Iterable[str], *, timeout: float | None = None, on_error: OnError | None = None
    ) -> None:
        """Delete groups of any type without members, and all their offsets. Their coordinators execute the requests.

        Args:
            groups: their ids.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the id and the error of each group that was not deleted. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only group was not deleted: NON_EMPTY_GROUP if it has members, GROUP_ID_NOT_FOUND if it
                does not exist.
            AdminError: some of several groups were not deleted.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.delete_groups([group])
        """
        self._by_key(self._calls.delete_groups(groups, timeout=timeout), on_error)

    def remove_members(
        self,
        group: str,
        members: Iterable[str | GroupMember] | None = None,
        *,
        instance_ids: Iterable[str] | None = None,
        reason: str | None = None,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Remove members from a classic or a consumer group. The group's coordinator executes the request.

        A member that still runs joins again; a static member that has stopped for good leaves its partitions to others
        at once, before its session ends.

        Args:
            group: the group.
            members: member ids, or members of `describe_groups`; a static member of a description is removed by its
                instance id.
            instance_ids: the instance ids of static members. With neither, all members are removed.
            reason: the reason, for the broker's log; at most 255 characters.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the member's id, or instance id, and the error of each member that was not removed.
                Without it, errors are raised.

        Raises:
            ConfigError: an argument has a bad value, or all members of a share or streams group are to be removed.
            BrokerError: the only member was not removed: UNKNOWN_MEMBER_ID if the group has no such member.
            AdminError: some of several members were not removed.
            ProtocolError: the broker is older than Kafka 3.2, which has reasons.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.remove_members(group, reason="moving to another cluster")
        """
        work = self._calls.remove_members(group, members, instance_ids=instance_ids, reason=reason, timeout=timeout)
        self._by_key(work, on_error)
