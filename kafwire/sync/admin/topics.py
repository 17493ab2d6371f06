"""The calls of `Admin` about topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.topic_descriptions import TopicDescription, TopicListing
from kafwire.admin.topics import CreatedTopic, NewPartitions, NewTopic
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace

OnError = Callable[[str, KafkaError], object]
OnTopicError = Callable[[str | uuid.UUID, KafkaError], object]


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
        self, topics: Iterable[str | uuid.UUID], *, timeout: float | None = None, on_error: OnTopicError | None = None
    ) -> None:
        """Delete topics and all their records. The controller executes the request.

        A topic id spares a newer topic of the same name.

        Args:
            topics: their names or topic ids.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name or id, and the error, of each topic that was not deleted. Without it, errors
                are raised.

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
        counts: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Add partitions to topics. The controller executes the request.

        Records stay where they are; keys of later records may go to other partitions.

        Args:
            counts: for each topic, how many partitions it is to have in all; `NewPartitions` has the brokers too.
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

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """List the topics that the client may describe. Any broker serves the request.

        Args:
            internal: include Kafka's own topics.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The topics by name, in the order of their names.

        Raises:
            ConfigError: an argument has a bad value.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     topic in admin.list_topics()
            True
        """
        return self._run(self._calls.list_topics(internal=internal, timeout=timeout))

    def describe_topics(
        self,
        topics: Iterable[str | uuid.UUID],
        *,
        authorized_operations: bool = False,
        timeout: float | None = None,
        on_error: OnTopicError | None = None,
    ) -> dict[str | uuid.UUID, TopicDescription]:
        """Describe topics and their partitions. Any broker serves the request.

        Brokers from Kafka 3.8 on send descriptions by name page by page, with the eligible leaders of each partition.

        Args:
            topics: their names or topic ids; ids need Kafka 3.1.
            authorized_operations: describe the operations on each topic that the client's ACLs permit.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name or id, and the error, of each topic that cannot be described; the result
                lacks them. Without it, errors are raised.

        Returns:
            The descriptions by name or id, as the call has them.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only topic does not exist.
            AuthorizationError: the client may not describe the only topic.
            AdminError: some of several topics cannot be described; it has the results and the errors.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     found = admin.describe_topics([topic])
            >>> [partition.leader for partition in found[topic].partitions]
            [1]
        """
        work = self._calls.describe_topics(topics, authorized_operations=authorized_operations, timeout=timeout)
        return self._by_key(work, on_error)
