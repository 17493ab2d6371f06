"""The connections to partition leaders: whether a batch may be sent on one now, else the steps to get there."""

from __future__ import annotations

from functools import partial

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import AuthenticationError, KafkaError
from kafwire.producer.buffer.backlog import Backlog, Where
from kafwire.producer.outcome.outcomes import Outcomes
from kafwire.producer.send.topics import Topics
from kafwire.producer.send.turns import Turns


class Leaders:
    """The leader connections of one producer. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        backlog: Backlog,
        outcomes: Outcomes,
        *,
        topics: Topics,
        turns: Turns,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._backlog = backlog
        self._balance = backlog.balance
        self._outcomes = outcomes
        self._topics = topics
        self._turns = turns

    def connection_for(self, where: Where, now: float) -> BrokerConnection | None:
        """Return the leader's produce connection if a batch may be sent on it now; else start the missing step."""
        not_before = self._backlog.not_before_ms.get(where, 0.0)
        if not_before > now:
            self._turns.wake_in(not_before - now)
            return None
        topic, partition = where
        leader = self._cluster.metadata.leader(topic, partition)
        if leader < 0:
            self._topics.look_up(topic)
            return None
        connection = self._cluster.connection(leader, "produce")
        if not connection.is_ready:
            self._balance.note(leader, now, taken=False)
            self._turns.run(f"open {leader}", self._open(connection, topic), partial(self._on_not_open, leader))
            return None
        if connection.muted_until_ms > now:
            self._balance.note(leader, now, taken=False)
            self._turns.wake_in(connection.muted_until_ms - now)
            return None
        # Batches in flight to an old leader settle before any is sent to the new one.
        return connection if self._outcomes.in_flight_on.get(where, connection) is connection else None

    async def _open(self, connection: BrokerConnection, topic: str) -> None:
        try:
            await connection.open()
        except AuthenticationError:
            raise  # a metadata request would fail in the same way
        except KafkaError:
            await self._cluster.refresh([topic])
            raise

    def _on_not_open(self, leader: int, error: BaseException) -> None:
        """Fail the leader's batches on an authentication error: a retry could lock the account."""
        if isinstance(error, AuthenticationError):
            for where, queue in list(self._backlog.waiting.items()):
                if self._cluster.metadata.leader(*where) == leader:
                    self._outcomes.give_up_waiting(where, queue, error)

    def leave_all_hung(self) -> None:
        """After a change of leaders: stop waiting for former leaders that hang."""
        for connection in set(self._outcomes.in_flight_on.values()):
            self.leave_hung(connection)

    def leave_hung(self, connection: BrokerConnection) -> None:
        """Close a connection whose response is overdue if another broker now leads a partition that is in flight there.

        Without idempotence that could make duplicates: there the request's timeout decides.
        """
        if not self._config.idempotent or not connection.is_overdue:
            return
        if any(
            used is connection and self._cluster.metadata.leader(*where) not in (-1, connection.node)
            for where, used in self._outcomes.in_flight_on.items()
        ):
            connection.fail("the broker does not respond, and other brokers now lead its partitions")
