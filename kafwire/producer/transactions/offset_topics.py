"""The ids of the topics whose offsets a transaction commits (KIP-1319).

The ids are fixed for each action: a topic created later under the same name has other records, and must not get the
offsets.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.cluster.transaction_member import TransactionMember
from kafwire.errors import KafkaError

if TYPE_CHECKING:
    from kafwire.cluster.cluster import Cluster
    from kafwire.producer.transactions.actions import CommitOffsets

BY_NAME: Mapping[str, uuid.UUID] = MappingProxyType({})


class RecreatedTopicError(KafkaError):
    """The offsets to commit belong to a deleted topic; the transaction ends."""


class OffsetTopics:
    """The topic ids of one producer, which commits the offsets of one action at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._action: CommitOffsets | None = None
        self._ids: Mapping[str, uuid.UUID] = BY_NAME
        self._is_doubted = False

    async def ids(self, action: CommitOffsets) -> Mapping[str, uuid.UUID]:
        """Return the topics' ids by name; `BY_NAME` unless all are known.

        Raises `RecreatedTopicError`, `KafkaConnectionError`, `KafkaTimeoutError`, `BrokerError`.
        """
        names = list(dict.fromkeys(topic for topic, _ in action.offsets))
        if self._action is not action:
            self._action, self._ids, self._is_doubted = action, BY_NAME, False
            read = action.group.topic_ids(action.offsets) if isinstance(action.group, TransactionMember) else {}
            if missing := [name for name in names if name not in read and self._known(name) is None]:
                await self._cluster.refresh(missing)
            known = {name: topic_id for name in names if (topic_id := read.get(name) or self._known(name)) is not None}
            self._ids = known if len(known) == len(names) else BY_NAME
        elif self._is_doubted:
            await self._cluster.refresh(names)
            self._is_doubted = False
            self._check_same()
        return self._ids

    def read(self, topics: Iterable[Any]) -> None:
        """Set the topic names of a response: version 6 has only ids."""
        names = {topic_id: name for name, topic_id in self._ids.items()}
        for topic in topics:
            topic.name = topic.name or names.get(topic.topic_id, "")

    def doubt(self) -> None:
        """Note an id that the coordinator does not know: it lags, or the topic is gone.

        The next attempt asks for metadata.
        """
        self._is_doubted = True

    def _known(self, name: str) -> uuid.UUID | None:
        info = self._cluster.metadata.topics.get(name)
        return None if info is None or info.topic_id == NO_TOPIC_ID else info.topic_id

    def _check_same(self) -> None:
        for name, topic_id in self._ids.items():
            if self._known(name) not in {None, topic_id}:
                raise RecreatedTopicError(
                    f"topic {name!r} was deleted and created again: the offsets to commit are those of the deleted one"
                )
