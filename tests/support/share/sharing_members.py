"""Members of a share group, as tests of the embedded broker drive them, with time as the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafwire import protocol
from kafwire.broker.request import ClientConnection, Request
from kafwire.broker.state import ClusterState
from tests.support.broker.driver import BrokerDriver

GROUP, TOPIC = "g", "t"
Got = dict[int, list[tuple[int, int, int]]]  # by partition: first and last offsets, and deliveries
Said = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]


class SharingMembers(BrokerDriver):
    """A group that reads one topic from its start. `partitions`: how many it has."""

    def __init__(self, partitions: int = 1, *, nodes: Sequence[int] = (1,), **options: str) -> None:
        configs = {"group.share.assignment.interval.ms": "0"}
        super().__init__(ClusterState(nodes, configs=configs))
        self.topic = self.state.topics.create(TOPIC, partitions, len(nodes))
        names = {name.replace("_", "."): value for name, value in options.items()}
        self.state.group_configs[GROUP] = {"share.auto.offset.reset": "earliest", **names}
        self.beat("m0", 0)
        self.beat("m0", -1)

    def append(self, count: int, partition: int = 0) -> None:
        """One batch of records."""
        self.topic.partitions[partition].append_values([b"x"] * count)
        self._take()

    def beat(self, member_id: str, epoch: int, topics: Sequence[str] | None = None) -> Any:
        """A heartbeat; the first one subscribes."""
        request = protocol.ShareGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
        if epoch == 0 or topics is not None:
            request.subscribed_topic_names = [TOPIC] if topics is None else [*topics]
        return self.ask(request, node=self.state.coordinator(GROUP))

    def fetch_request(
        self, member_id: str, epoch: int, said: Said | None = None, *, wait_ms: int = 0, **fields: Any
    ) -> Any:
        """A request for records; the first one of a session names all partitions."""
        said = said or {}
        request = protocol.ShareFetchRequest(
            group_id=GROUP, member_id=member_id, share_session_epoch=epoch, max_wait_ms=wait_ms, min_bytes=1
        )
        request.max_records = request.batch_size = 1000
        for name, value in fields.items():
            setattr(request, name, value)
        named = range(len(self.topic.partitions)) if epoch == 0 else said
        parts = [
            request.FetchPartition(
                partition_index=index, acknowledgement_batches=_batches(request, said.get(index, ()))
            )
            for index in named
        ]
        request.topics = [request.FetchTopic(topic_id=self.topic.topic_id, partitions=parts)] if parts else []
        return request

    def fetch(self, member_id: str, epoch: int, said: Said | None = None, **fields: Any) -> Got:
        """The records that a member gets at once."""
        response = self.ask(self.fetch_request(member_id, epoch, said, **fields))
        assert response is not None, "it waits"
        assert response.error_code == 0
        return got(response)

    def wait(self, member_id: str, epoch: int, *, connection: ClientConnection | None = None, **fields: Any) -> Request:
        """A request that waits a minute for records."""
        request = self.send(self.fetch_request(member_id, epoch, wait_ms=60_000, **fields), connection=connection)
        assert request not in self.late
        return request

    def say(self, member_id: str, epoch: int, said: Said, *, renews: bool = False) -> list[int]:
        """Acknowledge. Returns the error code of each partition."""
        request = protocol.ShareAcknowledgeRequest(
            group_id=GROUP, member_id=member_id, share_session_epoch=epoch, is_renew_ack=renews
        )
        parts = [
            request.AcknowledgePartition(partition_index=index, acknowledgement_batches=_batches(request, batches))
            for index, batches in said.items()
        ]
        request.topics = [request.AcknowledgeTopic(topic_id=self.topic.topic_id, partitions=parts)]
        response = self.ask(request)
        assert response.error_code == 0
        return [part.error_code for topic in response.responses for part in topic.partitions]

    def offsets(self) -> list[tuple[int, int]]:
        """Start and lag of each partition."""
        request = protocol.DescribeShareGroupOffsetsRequest()
        request.groups = [request.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
        (group,) = self.ask(request, node=self.state.coordinator(GROUP)).groups
        assert group.error_code == 0
        return [(part.start_offset, part.lag) for topic in group.topics for part in topic.partitions]


def got(response: Any) -> Got:
    """The records in a response, by partition; errors are in the place of records."""
    return {
        part.partition_index: [(part.error_code, -1, -1)]
        if part.error_code
        else [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]
        for topic in response.responses
        for part in topic.partitions
    }


def _batches(request: Any, said: Sequence[tuple[int, int, Sequence[int]]]) -> list[Any]:
    kind = request.AcknowledgementBatch
    return [kind(first_offset=first, last_offset=last, acknowledge_types=[*types]) for first, last, types in said]
