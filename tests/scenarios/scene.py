"""The requests of a scenario to any Kafka broker, and the lines that it writes down of the responses.

A scenario is a function of a `Scene`. Each of the scene's methods sends one request and writes one line, `request
-> response`, in names that are the same in every world: producer ids are P1, P2, ... in the order in which they were
first seen, member ids M1, M2, .... So two worlds gave the same responses if their lines are the same.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from kafwire import protocol
from kafwire.errors import broker_error
from kafwire.records import RecordBatch, decode_batches, encode_batch

LATEST, EARLIEST = -1, -2
NO_ID = uuid.UUID(int=0)
Place = tuple[str, int]


class Kafka(Protocol):
    """A broker, or two: what a scene asks of the world it plays in."""

    version: str  # the version of Kafka that it responds as: "4.3.1"

    def call(self, request: Any, version: int) -> Any:
        """The response to a request in this version, from the broker that the request is for."""

    def create_topic(self, partitions: int) -> tuple[str, uuid.UUID]:
        """The name and the id of a topic that no test has used, and that can be used."""

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until something is so; fail when it has not been so for too long."""

    def hold_markers(self) -> AbstractContextManager[None]:
        """No marker of a transaction is written to a topic's partition inside of the block."""


@dataclass
class Producer:
    """The identity of a producer: as the coordinator returned it."""

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1


class Scene:
    """One play of a scenario: its producers and members, and its lines. `transaction_version` is the client's."""

    def __init__(self, kafka: Kafka, *, transaction_version: int = 1) -> None:
        self.kafka = kafka
        self.transaction_version = transaction_version
        self.lines: list[str] = []
        self.identities: dict[str, Producer] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self._topics: dict[str, str] = {}
        self._unique = uuid.uuid4().hex[:12]
        self._producer_ids: dict[int, str] = {}
        self._members: dict[str, str] = {}

    def say(self, asked: str, outcome: object) -> None:
        """Write a line."""
        self.lines.append(f"{asked} -> {outcome}")

    def full(self, name: str) -> str:
        """A name that no other play uses."""
        return self._topics.get(name) or f"{name}-{self._unique}"

    def short(self, name: str) -> str:
        """A topic's name, as it is in all worlds."""
        its = (short for short, full in self._topics.items() if full == name)
        return next(its, name.removesuffix(f"-{self._unique}"))

    # --- topics and their logs

    def topic(self, name: str = "t", partitions: int = 1) -> None:
        """A new topic."""
        self._topics[name], self.topic_ids[name] = self.kafka.create_topic(partitions)

    def read(self, topic: str = "t", partition: int = 0, *, committed: bool = False, offset: int = 0) -> None:
        """Fetch all from `offset` on: its ends, the aborted transactions, and each batch."""
        request = protocol.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, isolation_level=int(committed))
        asked = request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request.topics = [request.FetchTopic(topic=self.full(topic), partitions=[asked])]
        part = self.kafka.call(request, 12).responses[0].partitions[0]
        aborted = [(self.name(each.producer_id), each.first_offset) for each in part.aborted_transactions or ()]
        ends = f"start {part.log_start_offset}, stable {part.last_stable_offset}, high {part.high_watermark}"
        batches = [self._batch(batch) for batch in decode_batches(bytes(part.records or b""))]
        reported = (
            f", aborted {' '.join(f'{producer}@{first}' for producer, first in aborted) or 'none'}" if committed else ""
        )
        how = "committed" if committed else "all"
        self.say(
            f"read {how} of {topic}-{partition} from {offset}",
            f"{error(part.error_code)}: {ends}{reported}: {'; '.join(batches) or 'nothing'}",
        )

    def _batch(self, batch: RecordBatch) -> str:
        producer = f"{self.name(batch.producer_id)}/{batch.producer_epoch}"
        if batch.is_control:
            (record,) = batch
            kind = {b"\0\0\0\0": "abort", b"\0\0\0\1": "commit"}[record.key or b""]
            return f"{batch.base_offset} {kind} of {producer}"
        kind = "txn " if batch.is_transactional else ""
        return f"{batch.base_offset}-{batch.last_offset} {kind}{producer} seq {batch.base_sequence}"

    def ends(self, topic: str = "t", partition: int = 0) -> None:
        """ListOffsets: the first, the end, and the end for readers of committed records."""
        found = []
        for timestamp, isolation in ((EARLIEST, 0), (LATEST, 0), (LATEST, 1)):
            request = protocol.ListOffsetsRequest(replica_id=-1, isolation_level=isolation)
            asked = request.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            request.topics = [request.ListOffsetsTopic(name=self.full(topic), partitions=[asked])]
            part = self.kafka.call(request, 7).topics[0].partitions[0]
            found.append(part.offset if not part.error_code else error(part.error_code))
        self.say(f"ends of {topic}-{partition}", f"first {found[0]}, last {found[1]}, stable {found[2]}")

    def producers(self, topic: str = "t", partition: int = 0) -> None:
        """DescribeProducers, in the order of their names."""
        request = protocol.DescribeProducersRequest()
        request.topics = [request.TopicRequest(name=self.full(topic), partition_indexes=[partition])]
        part = self.kafka.call(request, 0).topics[0].partitions[0]
        states = sorted(
            f"{self.name(p.producer_id)}/{p.producer_epoch} last {p.last_sequence} open {p.current_txn_start_offset}"
            for p in part.active_producers
        )
        self.say(f"producers of {topic}-{partition}", f"{error(part.error_code)}: {'; '.join(states) or 'nobody'}")

    # --- producers

    def name(self, producer_id: int) -> str:
        """A producer id, as it is in all worlds."""
        if producer_id < 0:
            return "nobody"
        return self._producer_ids.setdefault(producer_id, f"P{len(self._producer_ids) + 1}")

    def init(
        self,
        producer: str,
        transactional_id: str | None = None,
        *,
        current: tuple[str, int] | None = None,
        timeout_ms: int = 600_000,
        version: int = 5,
    ) -> None:
        """InitProducerId, without an id, or with that of `current`: a producer, and how far its epoch is off."""
        known = self.identities[current[0]] if current else Producer(transactional_id)
        request = protocol.InitProducerIdRequest(
            transactional_id=transactional_id and self.full(transactional_id),
            transaction_timeout_ms=timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch + (current[1] if current else 0),
        )
        response = self.kafka.call(request, version)
        asked = f"init {producer}{f' {transactional_id}' if transactional_id else ''}"
        as_current = f" as {current[0]}{shift(current[1])}" if current else ""
        self.say(
            f"{asked}{as_current}",
            f"{error(response.error_code)} {self.name(response.producer_id)}/{response.producer_epoch}",
        )
        if not response.error_code:
            self.identities[producer] = Producer(transactional_id, response.producer_id, response.producer_epoch)

    def produce(
        self,
        producer: str,
        sequence: int,
        count: int = 1,
        *,
        to: Place = ("t", 0),
        epoch: int = 0,
        transactional: bool | None = None,
        version: int | None = None,
    ) -> None:
        """A batch of `count` records; `epoch` is how far the epoch is off."""
        known = self.identities[producer]
        is_transactional = known.transactional_id is not None if transactional is None else transactional
        data = encode_batch(
            [(None, b"v", time.time_ns() // 1_000_000)] * count,  # producers whose last batch is old are forgotten
            producer_id=known.producer_id,
            producer_epoch=known.epoch + epoch,
            base_sequence=sequence,
            transactional=is_transactional,
        )
        name = known.transactional_id
        request = protocol.ProduceRequest(
            acks=-1, timeout_ms=10_000, transactional_id=self.full(name) if name and is_transactional else None
        )
        part = request.PartitionProduceData(index=to[1], records=data)
        request.topic_data = [request.TopicProduceData(name=self.full(to[0]), partition_data=[part])]
        version = version or (12 if self.transaction_version == 2 else 11)
        response = self.kafka.call(request, version).responses[0].partition_responses[0]
        asked = f"{producer}{shift(epoch)} produces {count} from {sequence} to {to[0]}-{to[1]}"
        place = f" at {response.base_offset}" if not response.error_code else ""
        self.say(asked, f"{error(response.error_code)}{place}")

    # --- transactions

    def add(self, producer: str, *places: Place, epoch: int = 0) -> None:
        """AddPartitionsToTxn."""
        known = self.identities[producer]
        request = protocol.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.full(known.transactional_id or ""),
            v3_and_below_producer_id=known.producer_id,
            v3_and_below_producer_epoch=known.epoch + epoch,
        )
        for topic in dict.fromkeys(name for name, _ in places):
            indexes = [index for name, index in places if name == topic]
            request.v3_and_below_topics.append(
                request.AddPartitionsToTxnTopic(name=self.full(topic), partitions=indexes)
            )
        response = self.kafka.call(request, 3)
        codes = {
            (self.short(topic.name), part.partition_index): part.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }
        names = " ".join(f"{topic}-{index}" for topic, index in places)
        reported = " ".join(f"{topic}-{index} {error(code)}" for (topic, index), code in sorted(codes.items()))
        self.say(f"{producer}{shift(epoch)} adds {names}", reported)

    def add_offsets(self, producer: str, group: str = "g", *, epoch: int = 0) -> None:
        """AddOffsetsToTxn."""
        known = self.identities[producer]
        request = protocol.AddOffsetsToTxnRequest(
            transactional_id=self.full(known.transactional_id or ""),
            producer_id=known.producer_id,
            producer_epoch=known.epoch + epoch,
            group_id=self.full(group),
        )
        self.say(f"{producer}{shift(epoch)} adds {group}", error(self.kafka.call(request, 4).error_code))

    def txn_commit(
        self,
        producer: str,
        offsets: Mapping[Place, int],
        group: str = "g",
        *,
        epoch: int = 0,
        generation: int = -1,
        member: str = "",
        version: int | None = None,
    ) -> None:
        """TxnOffsetCommit; in the newest version that fits the transaction's, with topic ids from 4.4 on."""
        if version is None:
            version = 4 if self.transaction_version == 1 else 5 if self.kafka.version < "4.4" else 6
        known = self.identities[producer]
        request = protocol.TxnOffsetCommitRequest(
            transactional_id=self.full(known.transactional_id or ""),
            group_id=self.full(group),
            producer_id=known.producer_id,
            producer_epoch=known.epoch + epoch,
            generation_id_or_member_epoch=generation,
            member_id=self._member_id(member),
        )
        for topic in dict.fromkeys(name for name, _ in offsets):
            parts = [
                request.TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata="by a transaction"
                )
                for (name, index), offset in offsets.items()
                if name == topic
            ]
            named = self._named(topic, by_id=version >= 6)
            request.topics.append(request.TxnOffsetCommitRequestTopic(**named, partitions=parts))
        response = self.kafka.call(request, version)
        reported = sorted(
            f"{self._name_of(topic)}-{part.partition_index} {error(part.error_code)}"
            for topic in response.topics
            for part in topic.partitions
        )
        asked = " ".join(f"{topic}-{index}={offset}" for (topic, index), offset in offsets.items())
        as_member = self._as_member(generation, member)
        self.say(f"{producer}{shift(epoch)} commits {asked} of {group}{as_member}", " ".join(reported))

    def end(
        self, producer: str, *, commit: bool = True, epoch: int = 0, settle: bool = True, version: int | None = None
    ) -> None:
        """EndTxn; the producer goes on with the id and epoch of the response. `settle` waits for the markers."""
        known = self.identities[producer]
        request = protocol.EndTxnRequest(
            transactional_id=self.full(known.transactional_id or ""),
            producer_id=known.producer_id,
            producer_epoch=known.epoch + epoch,
            committed=commit,
        )
        response = self.kafka.call(request, version or (5 if self.transaction_version == 2 else 4))
        identity = ""
        if self.transaction_version == 2:
            identity = f" {self.name(response.producer_id)}/{response.producer_epoch}"
        does = "ends" if commit else "aborts"
        self.say(f"{producer}{shift(epoch)} {does}", f"{error(response.error_code)}{identity}")
        if not response.error_code and self.transaction_version == 2:
            known.producer_id, known.epoch = response.producer_id, response.producer_epoch
        if settle:
            self.settle(known.transactional_id or "")

    def settle(self, transactional_id: str, *, until: Callable[[str], bool] | None = None) -> None:
        """Wait until no marker is on its way, or for another state."""
        done = until or (lambda state: not state.startswith("Prepare"))
        self.kafka.wait_until(lambda: done(self._describe(transactional_id).transaction_state))

    def _describe(self, transactional_id: str) -> Any:
        request = protocol.DescribeTransactionsRequest(transactional_ids=[self.full(transactional_id)])
        return self.kafka.call(request, 0).transaction_states[0]

    def transaction(self, transactional_id: str) -> None:
        """DescribeTransactions: its state, producer and partitions."""
        found = self._describe(transactional_id)
        if found.error_code:
            self.say(f"transaction of {transactional_id}", error(found.error_code))
            return
        places = sorted(f"{self.short(topic.topic)}-{p}" for topic in found.topics for p in topic.partitions)
        places = [place for place in places if not place.startswith("__")]
        producer = f"{self.name(found.producer_id)}/{found.producer_epoch}"
        self.say(
            f"transaction of {transactional_id}",
            f"{found.transaction_state} {producer} {' '.join(places) or 'nothing'}",
        )

    # --- groups

    def join(self, member: str, group: str = "g") -> None:
        """One member enters a group of the classic protocol, which forms with no other member in it."""
        request = protocol.JoinGroupRequest(
            group_id=self.full(group),
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            member_id=self._member_id(member),
            protocol_type="consumer",
        )
        subscription = b"\0\0\0\0\0\0\xff\xff\xff\xff"  # version 0, no topics, no user data
        request.protocols = [request.JoinGroupRequestProtocol(name="range", metadata=subscription)]
        response = self.kafka.call(request, 3)
        self._members.setdefault(member, response.member_id)
        self.say(f"{member} joins {group}", f"{error(response.error_code)} generation {response.generation_id}")
        if response.error_code:
            return
        sync = protocol.SyncGroupRequest(
            group_id=self.full(group), generation_id=response.generation_id, member_id=response.member_id
        )
        sync.assignments = [sync.SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"")]
        self.say(f"{member} is assigned", error(self.kafka.call(sync, 3).error_code))

    def leave(self, member: str, group: str = "g") -> None:
        """The member leaves, and the group is empty."""
        request = protocol.LeaveGroupRequest(group_id=self.full(group))
        request.members = [request.MemberIdentity(member_id=self._member_id(member))]
        response = self.kafka.call(request, 3)
        self.say(f"{member} leaves {group}", f"{error(response.error_code)} {error(response.members[0].error_code)}")

    def _member_id(self, member: str) -> str:
        return self._members.get(member, "" if not member or member.startswith("M") else member)

    def _as_member(self, generation: int, member: str) -> str:
        return f" as {member or 'nobody'} in {generation}" if member or generation >= 0 else ""

    def commit(
        self,
        offsets: Mapping[Place, int],
        group: str = "g",
        *,
        generation: int = -1,
        member: str = "",
        leader_epoch: int = -1,
        metadata: str | None = "",
        version: int = 9,
    ) -> None:
        """OffsetCommit."""
        request = protocol.OffsetCommitRequest(
            group_id=self.full(group), generation_id_or_member_epoch=generation, member_id=self._member_id(member)
        )
        for topic in dict.fromkeys(name for name, _ in offsets):
            parts = [
                request.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
                for (name, index), offset in offsets.items()
                if name == topic
            ]
            request.topics.append(
                request.OffsetCommitRequestTopic(**self._named(topic, by_id=version >= 10), partitions=parts)
            )
        response = self.kafka.call(request, version)
        reported = sorted(
            f"{self._name_of(topic)}-{part.partition_index} {error(part.error_code)}"
            for topic in response.topics
            for part in topic.partitions
        )
        asked = " ".join(f"{topic}-{index}={offset}" for (topic, index), offset in offsets.items())
        self.say(f"commit {asked} of {group}{self._as_member(generation, member)}", " ".join(reported))

    def committed(
        self, *groups: str, places: Iterable[Place] | None = (("t", 0),), stable: bool = False, version: int = 9
    ) -> None:
        """OffsetFetch of one group or several; `places=None` asks for all that they have."""
        groups = groups or ("g",)
        places = None if places is None else list(places)
        request: Any = protocol.OffsetFetchRequest(require_stable=stable)
        kind = request.OffsetFetchRequestTopics if version >= 8 else request.OffsetFetchRequestTopic
        topics = None
        if places is not None:
            topics = [
                kind(
                    **(self._named(topic, by_id=version >= 10) if version >= 8 else {"name": self.full(topic)}),
                    partition_indexes=[index for name, index in places if name == topic],
                )
                for topic in dict.fromkeys(name for name, _ in places)
            ]
        if version >= 8:
            request.groups = [
                request.OffsetFetchRequestGroup(group_id=self.full(group), topics=topics) for group in groups
            ]
            found = self.kafka.call(request, version).groups
        else:
            assert len(groups) == 1
            request.group_id, request.topics = self.full(groups[0]), topics
            found = [self.kafka.call(request, version)]
        for group, response in zip(groups, found, strict=True):
            reported = sorted(
                f"{self._name_of(topic)}-{part.partition_index}={part.committed_offset}"
                f" epoch {part.committed_leader_epoch} {part.metadata!r} {error(part.error_code)}"
                for topic in response.topics
                for part in topic.partitions
            )
            asked = "all" if places is None else " ".join(f"{topic}-{index}" for topic, index in places)
            self.say(
                f"committed {asked} of {group}{' stable' * stable}",
                f"{error(response.error_code)}: {', '.join(reported) or 'nothing'}",
            )

    def delete_offsets(self, *places: Place, group: str = "g") -> None:
        """OffsetDelete."""
        request = protocol.OffsetDeleteRequest(group_id=self.full(group))
        for topic in dict.fromkeys(name for name, _ in places):
            parts = [request.OffsetDeleteRequestPartition(partition_index=i) for name, i in places if name == topic]
            request.topics.append(request.OffsetDeleteRequestTopic(name=self.full(topic), partitions=parts))
        response = self.kafka.call(request, 0)
        reported = sorted(
            f"{self.short(topic.name)}-{part.partition_index} {error(part.error_code)}"
            for topic in response.topics
            for part in topic.partitions
        )
        asked = " ".join(f"{topic}-{index}" for topic, index in places)
        self.say(f"delete {asked} of {group}", f"{error(response.error_code)}: {', '.join(reported) or 'nothing'}")

    def _named(self, topic: str, *, by_id: bool) -> dict[str, Any]:
        if by_id:
            return {"topic_id": self.topic_ids.get(topic, uuid.uuid5(NO_ID, topic))}
        return {"name": self.full(topic)}

    def _name_of(self, topic: Any) -> str:
        """The topic of a response, which has its name or its id."""
        if topic.name:
            return self.short(topic.name)
        return next((name for name, its in self.topic_ids.items() if its == topic.topic_id), "unknown id")


def error(code: int) -> str:
    """An error code by its name."""
    return "ok" if not code else broker_error(code, "").name


def shift(epoch: int) -> str:
    return f"{epoch:+}" if epoch else ""
