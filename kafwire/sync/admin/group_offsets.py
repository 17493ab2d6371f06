"""The calls of `Admin` about the offsets of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.group_offsets import GroupOffset
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace
from kafwire.types import TopicPartition


class GroupOffsetAdmin(AdminFace):
    """A part of `Admin`."""

    def list_group_offsets(
        self,
        groups: Mapping[str, Iterable[tuple[str, int]] | None] | Iterable[str],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
        on_error: Callable[[str, KafkaError], object] | None = None,
    ) -> dict[str, dict[TopicPartition, GroupOffset | None]]:
        """List the offsets of groups of any type. The coordinator of each group has them.

        These are committed offsets, except in share groups, which have start offsets and lags.

        Args:
            groups: for each group, the partitions; None: all partitions of which the group has an offset. A list of
                groups means all partitions of each.
            require_stable: wait for open transactions that may change an offset (KIP-447).
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the id and the error of each group whose offsets could not be listed; the result
                lacks it. Without it, errors are raised.

        Returns:
            The offsets of each group by partition; None for a partition without an offset. A group that does not exist
            has no offsets.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the offsets of the only group could not be listed.
            AdminError: those of some groups could not be listed; or of some partitions of a group: `results` has the
                offsets of the other partitions, `errors` the errors by partition.
            KafkaTimeoutError: no response came in time, or a transaction stays open.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     offsets = admin.list_group_offsets([group])
            >>> [each.offset for each in offsets[group].values()]
            [1]
        """
        work = self._calls.list_group_offsets(groups, require_stable=require_stable, timeout=timeout)
        return self._by_key(work, on_error)

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | tuple[int, str]],
        *,
        type: str | None = None,  # noqa: A002  # Kafka's word
        timeout: float | None = None,
        on_error: Callable[[TopicPartition, KafkaError], object] | None = None,
    ) -> None:
        """Set the offsets of a group of any type without members. The group's coordinator executes the request.

        Args:
            group: the group. If it does not exist, it is created.
            offsets: for each partition, the offset of the next record to read, or a pair with the metadata to commit.
            type: the type of the group: "share" for start offsets; another type for committed offsets. None: that of an
                existing group, and committed offsets of a new one.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each partition whose offset was not set, and with the error. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value, or metadata is given for a share group.
            BrokerError: the offset of the only partition was not set: UNKNOWN_MEMBER_ID or NON_EMPTY_GROUP if the
                group has members.
            AdminError: the offsets of some of several partitions were not set.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.alter_group_offsets(group, {kafwire.TopicPartition(topic, 0): 0})
        """
        self._by_key(self._calls.alter_group_offsets(group, offsets, type=type, timeout=timeout), on_error)

    def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int] | str],
        *,
        timeout: float | None = None,
        on_error: Callable[[TopicPartition | str, KafkaError], object] | None = None,
    ) -> None:
        """Delete offsets of a group of any type. The group's coordinator executes the request.

        No member of the group may subscribe to the topics; a share group must have no members.

        Args:
            group: the group.
            partitions: partitions, or topics for all partitions of each. Kafka deletes the offsets of a share group by
                topic only.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each partition or topic whose offsets were not deleted, and with the error. Without
                it, errors are raised.

        Raises:
            ConfigError: an argument has a bad value, or a partition of a share group is named.
            BrokerError: the offset of the only partition was not deleted: GROUP_SUBSCRIBED_TO_TOPIC or NON_EMPTY_GROUP
                if the group has members that read it, GROUP_ID_NOT_FOUND if the group does not exist.
            AdminError: the offsets of some of several partitions were not deleted.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.delete_group_offsets(group, [topic])
        """
        self._by_key(self._calls.delete_group_offsets(group, partitions, timeout=timeout), on_error)
