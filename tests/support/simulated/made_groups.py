"""Groups of each type in the simulated world, made by single requests of their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafwire import protocol
from kafwire.consumer.group.member import GroupMember
from kafwire.consumer.group.subscription import PROTOCOL_TYPE, assignment, subscription
from kafwire.errors import ErrorCode
from tests.support.simulated.flavours import Flavour
from tests.support.stream.streams_group_walk import HEARTBEAT, subtopology


class MadeGroups:
    """The groups that a test needs. Their members do not heartbeat by themselves."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.world = flavour.world
        self._client = flavour.client(client_id="member")

    def call(self, group: str, message: Any) -> Any:
        """The response of a group's coordinator."""
        node = self.world.state.coordinator(group)
        return self.flavour.get(self._client.call(message, broker=node))

    def on(self, group: str, node: int) -> str:
        """Let a broker coordinate a group, which need not exist."""
        self.world.move_coordinator(group, node)
        return group

    def classic(
        self,
        group: str,
        partitions: Mapping[str, Sequence[int]],
        *,
        instance_id: str | None = None,
        protocol_type: str = PROTOCOL_TYPE,
        assigned: bytes | None = None,
    ) -> str:
        """Add a member that has these partitions, or the bytes `assigned`; its id."""
        request = protocol.JoinGroupRequest
        metadata = subscription(GroupMember("", list(partitions)))
        join = request(
            group_id=group,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocols=[request.JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        response = self.call(group, join)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            join.member_id = response.member_id
            response = self.call(group, join)
        assert not response.error_code
        places = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
        sync = protocol.SyncGroupRequest(
            group_id=group,
            generation_id=response.generation_id,
            member_id=response.member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name="range",
        )
        given = assignment(places) if assigned is None else assigned
        sync.assignments = [sync.SyncGroupRequestAssignment(member_id=response.member_id, assignment=given)]
        assert not self.call(group, sync).error_code
        return str(response.member_id)

    def consumer(self, group: str, member_id: str, topics: Sequence[str], *, instance_id: str | None = None) -> None:
        """Add a member of the consumer protocol."""
        message = protocol.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            instance_id=instance_id,
            rack_id="r1",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=list(topics),
            topic_partitions=[],
        )
        assert not self.call(group, message).error_code

    def share(self, group: str, member_id: str, topics: Sequence[str]) -> None:
        """Add a member that shares the records."""
        epoch = 0
        for _ in range(2):  # the assignment comes with the second heartbeat
            message = protocol.ShareGroupHeartbeatRequest(
                group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(topics)
            )
            response = self.call(group, message)
            assert not response.error_code
            epoch = response.member_epoch
            self.world.pass_time(2)

    def streams(self, group: str, member_id: str, *topics: str, stores: Sequence[str] = ()) -> None:
        """Add a member of Kafka Streams, which has its tasks with the second heartbeat."""
        nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        epoch = 0
        are_there = all(topic in self.world.topics for topic in topics)  # else no member may have an endpoint
        for _ in range(2):
            message = HEARTBEAT(
                group_id=group,
                member_id=member_id,
                instance_id=f"{member_id}-instance",
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                process_id="p",
                user_endpoint=None if epoch or not are_there else HEARTBEAT.Endpoint(host="h", port=7),
                client_tags=None if epoch else [HEARTBEAT.KeyValue(key="zone", value="a")],
                topology=None
                if epoch
                else HEARTBEAT.Topology(subtopologies=[subtopology("0", topics, stores=tuple(stores))]),
                **nothing,
            )
            response = self.call(group, message)
            assert not response.error_code, response
            epoch = response.member_epoch
            self.world.pass_time(5)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
        """Commit offsets of a group without members."""
        request = protocol.OffsetCommitRequest
        topics = [
            request.OffsetCommitRequestTopic(
                name=topic,
                topic_id=self.world.topics[topic].topic_id,
                partitions=[
                    request.OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for (topic, number), offset in offsets.items()
        ]
        response = self.call(group, request(group_id=group, topics=topics))
        assert not [part for topic in response.topics for part in topic.partitions if part.error_code]
