"""The calls of `Admin` about producers and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.hanging_transactions import HangingTransaction, sorted_hanging
from kafwire.admin.transactions import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    sorted_listings,
)
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace
from kafwire.types import TopicPartition

OnPartitionError = Callable[[TopicPartition, KafkaError], object]
OnBrokerError = Callable[[int, KafkaError], object]
OnIdError = Callable[[str, KafkaError], object]


class TransactionAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout: float | None = None,
        on_error: OnPartitionError | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Describe the producers that partitions remember. The leaders respond, or a given replica.

        A partition remembers a producer until `producer.id.expiration.ms` after its last record, and as long as its
        transaction is open.

        Args:
            partitions: the partitions.
            broker: the id of a broker that has replicas of them all; None: each partition's leader.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each partition that could not be described, and its error; the result lacks them.
                Without it, errors are raised.

        Returns:
            The producers of each partition.

        Raises:
            ConfigError: an argument has a bad value, or no broker has the id `broker`.
            BrokerError: the only partition is not described, for example for lack of the Read permission.
            AdminError: some of several partitions were not described.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     producers = admin.describe_producers([partition])[partition]
            >>> [producer.start_offset for producer in producers]
            [None]
        """
        work = self._calls.describe_producers(partitions, broker=broker, timeout=timeout)
        return self._by_key(work, on_error)

    def list_transactions(
        self,
        *,
        states: Iterable[str] | None = None,
        producer_ids: Iterable[int] | None = None,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        prefix: str | None = None,
        timeout: float | None = None,
        on_error: OnBrokerError | None = None,
    ) -> list[TransactionListing]:
        """List transactional ids. All brokers respond: each lists those that it coordinates and the user may describe.

        Args:
            states: only ids in one of these states, for example `["Ongoing"]`, see `TransactionListing`; None: in any.
            producer_ids: only ids whose producer has one of these; None: any.
            longer_than_ms: only ids whose last transaction began longer ago, in milliseconds, and those without one.
                Needs Kafka 3.8.
            pattern: only ids that this regular expression in RE2 syntax matches as a whole. Needs Kafka 4.1.
            prefix: only ids that begin with this text; not together with `pattern`.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the id of each broker that did not respond, and its error; the result lacks its
                transactional ids. Without it, errors are raised.

        Returns:
            The transactional ids with their coordinators, sorted.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the only broker is older than a filter.
            BrokerError: the only broker refuses, for example with INVALID_REGULAR_EXPRESSION.
            AdminError: some of several brokers did not respond; `results` has the lists of the others.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.list_transactions(states=["Ongoing"], longer_than_ms=60_000)
            []
        """
        work = self._calls.list_transactions(
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
            prefix=prefix,
            timeout=timeout,
        )
        return sorted_listings(self._by_key(work, on_error))

    def describe_transactions(
        self,
        transactional_ids: Iterable[str],
        *,
        timeout: float | None = None,
        on_error: OnIdError | None = None,
    ) -> dict[str, TransactionDescription]:
        """Describe the states of transactional ids. The coordinator of each responds.

        Args:
            transactional_ids: the ids.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each id that could not be described, and its error; the result lacks them. Without
                it, errors are raised.

        Returns:
            The descriptions by id.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only id is not described, for example TRANSACTIONAL_ID_NOT_FOUND.
            AdminError: some of several ids were not described.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     producer.init_transactions()
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.describe_transactions([new_topic])[new_topic].state
            'Empty'
        """
        return self._by_key(self._calls.describe_transactions(transactional_ids, timeout=timeout), on_error)

    def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        broker: int | None = None,
        longer_than_ms: int = 900_000,
        timeout: float | None = None,
        on_error: OnPartitionError | None = None,
    ) -> list[HangingTransaction]:
        """Find transactions that no coordinator will end, and that hide later records from readers of committed ones.

        Like `kafka-transactions.sh find-hanging`: it asks the leaders for open transactions, all brokers for the
        transactional ids of their producers, and the coordinators for the partitions of these. A transaction hangs if
        its coordinator does not have the partition. The user needs the Describe permission on all transactional ids:
        without it, brokers do not list the id, and its transaction looks like a hanging one.

        Args:
            topics: the topics to search; None: all.
            broker: search only the replicas on this broker; None: the leaders.
            longer_than_ms: leave out producers that wrote within this time, in milliseconds. Give at least the
                brokers' `transaction.max.timeout.ms`, whose default is the default here.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each partition that could not be searched, and its error. Without it, errors are
                raised.

        Returns:
            The hanging transactions, by partition. `abort_transaction` ends one.

        Raises:
            ConfigError: an argument has a bad value, or no broker has the id `broker`.
            BrokerError: a topic does not exist, a coordinator refuses, or the only partition could not be searched.
            AdminError: some of several partitions could not be searched, or not all brokers responded.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     for hanging in admin.find_hanging_transactions([topic]):
            ...         admin.abort_transaction(
            ...             hanging.partition,
            ...             producer_id=hanging.producer_id,
            ...             producer_epoch=hanging.producer_epoch,
            ...             coordinator_epoch=hanging.coordinator_epoch,
            ...         )
        """
        work = self._calls.find_hanging_transactions(
            topics, broker=broker, longer_than_ms=longer_than_ms, timeout=timeout
        )
        return sorted_hanging(self._by_key(work, on_error))

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Abort a hanging transaction in one partition. The leader writes the marker; the coordinator is not asked.

        For `HangingTransaction`s only: in a transaction that its coordinator knows, some partitions would be aborted
        and others committed. `force_terminate_transaction` ends such a one.

        Args:
            partition: the partition.
            producer_id: the id of the transaction's producer, see `describe_producers`.
            producer_epoch: the producer's epoch.
            coordinator_epoch: the coordinator's epoch; None: the first, as for a producer without an earlier marker.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the leader refuses: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for an outdated
                epoch, CLUSTER_AUTHORIZATION_FAILED without the Alter permission on the Cluster.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     producer = admin.describe_producers([partition])[partition][0]
            ...     admin.abort_transaction(
            ...         partition, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
            ...     )
        """
        work = self._calls.abort_transaction(
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timeout=timeout,
        )
        self._by_key(work, None)

    def fence_producers(
        self,
        transactional_ids: Iterable[str],
        *,
        timeout: float | None = None,
        on_error: OnIdError | None = None,
    ) -> dict[str, FencedProducer]:
        """Fence the producers with these transactional ids, and abort their open transactions. Coordinators do it.

        The producers fail with PRODUCER_FENCED at their next request to the coordinator.

        Args:
            transactional_ids: the ids; one that does not exist is created.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each id that was not fenced, and its error; the result lacks them. Without it, errors
                are raised.

        Returns:
            The producer id and the new epoch of each id.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the coordinator of the only id refuses.
            AdminError: some of several ids were not fenced.
            KafkaTimeoutError: no response came in time, or the open transaction did not end.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.fence_producers([new_topic])[new_topic].producer_epoch
            0
        """
        return self._by_key(self._calls.fence_producers(transactional_ids, timeout=timeout), on_error)

    def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """Abort the open transaction of a transactional id, even a prepared one (KIP-939). Its coordinator does it.

        Its producer is fenced, as by `fence_producers`.

        Args:
            transactional_id: the id.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the coordinator refuses.
            KafkaTimeoutError: no response came in time, or the transaction did not end.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.force_terminate_transaction(new_topic)
        """
        self._by_key(self._calls.force_terminate_transaction(transactional_id, timeout=timeout), None)
