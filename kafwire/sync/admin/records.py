"""The calls of `Admin` about records and offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.admin.records import ListedOffset, Spec
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace
from kafwire.types import TopicPartition

OnError = Callable[[TopicPartition, KafkaError], object]


class RecordAdmin(AdminFace):
    """A part of `Admin`."""

    def delete_records(
        self,
        offsets: Mapping[TopicPartition, int | str],
        *,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records of partitions before an offset. The leaders execute the requests.

        The topic's `cleanup.policy` must include "delete".

        Args:
            offsets: for each partition the first offset to keep, or "latest" to delete all records.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each partition whose records were not deleted, and its error; the result lacks them.
                Without it, errors are raised.

        Returns:
            The low watermark of each partition: the first offset that any replica has.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the leader refuses it for the only partition, for example with OFFSET_OUT_OF_RANGE.
            AuthorizationError: the client may not delete records of the only topic.
            AdminError: some of several partitions failed; it has the results and the errors.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.delete_records({partition: 1})[partition]
            1
        """
        return self._by_key(self._calls.delete_records(offsets, timeout=timeout), on_error)

    def list_offsets(
        self,
        offsets: Mapping[TopicPartition, Spec],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Find offsets by the end of the log, by time, or by storage. The leaders serve the requests.

        Args:
            offsets: for each partition the place:

                - "earliest", "latest": the first offset, and the offset after the last record.
                - a datetime with a time zone, or milliseconds since the epoch: the first record at or after it.
                - "max-timestamp": the record with the greatest timestamp (Kafka 3.0).
                - "earliest-local": the first offset on the leader's own disk (Kafka 3.4).
                - "latest-tiered": the last offset in remote storage (Kafka 3.8).
                - "earliest-pending-upload": the first offset that is not in remote storage yet (Kafka 4.2).
            isolation_level: "read_uncommitted", or "read_committed", whose "latest" is the last stable offset.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each partition without an outcome, and its error; the result lacks them. Without it,
                errors are raised.

        Returns:
            The offset of each partition with the time and the leader epoch of its record.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: a leader is too old for the place.
            BrokerError: the only topic does not exist, for example.
            AdminError: some of several partitions failed; it has the results and the errors.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.list_offsets({partition: "latest"})[partition].offset
            3
        """
        work = self._calls.list_offsets(offsets, isolation_level=isolation_level, timeout=timeout)
        return self._by_key(work, on_error)
