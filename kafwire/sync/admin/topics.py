"""The calls of `Admin` about topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.topics import CreatedTopic, NewTopic
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace

OnError = Callable[[str, KafkaError], object]


class TopicAdmin(AdminFace):
    """A part of `Admin`."""

    def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics. The controller executes the request.

        A topic reaches the brokers a moment after its creation; clients wait for it.

        Args:
            topics: `NewTopic`s; a name alone is a topic with the broker's defaults.
            validate_only: check whether the topics could be created, and create none.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name and the error of each topic that the cluster refuses; the result lacks them.
                Without it, errors are raised.

        Returns:
            The created topics by name.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the cluster refuses the only topic, for example with TOPIC_ALREADY_EXISTS.
            AdminError: the cluster refuses some of several topics; it has the results and the errors by name.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import NewTopic
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     created = admin.create_topics([NewTopic(new_topic, partitions=3)])
            >>> created[new_topic].partitions
            3
        """
        work = self._calls.create_topics(topics, validate_only=validate_only, timeout=timeout)
        return self._by_key(work, on_error)

    def delete_topics(
        self, topics: Iterable[str], *, timeout: float | None = None, on_error: OnError | None = None
    ) -> None:
        """Delete topics and all their records. The controller executes the request.

        Args:
            topics: their names.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name and the error of each topic that was not deleted. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only topic does not exist, or may not be deleted.
            AdminError: some of several topics were not deleted.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.delete_topics([topic])
        """
        self._by_key(self._calls.delete_topics(topics, timeout=timeout), on_error)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Add partitions to topics. The controller executes the request.

        Records stay where they are; keys of later records may go to other partitions.

        Args:
            counts: for each topic, how many partitions it is to have in all.
            validate_only: check the request, and add no partition.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name and the error of each topic that was not changed. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only topic cannot be changed, for example INVALID_PARTITIONS if it has as many already.
            AdminError: some of several topics were not changed.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.create_partitions({topic: 3})
        """
        work = self._calls.create_partitions(counts, validate_only=validate_only, timeout=timeout)
        self._by_key(work, on_error)
