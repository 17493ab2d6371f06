"""Random walks of readers of a share group: requests for records, acknowledgements, and what they should not send.

A walk is played on a broker over one socket. The lines are the same in every world. Nothing in it waits for
locks to end, and what a real broker has to write down first is not asked for in the request that says it.
"""

from __future__ import annotations

import random
import socket
import struct
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol.framing import decode_response, encode_request
from kafwire.records import decode_batches, encode_batch
from tests.support import deadlines as waiting

GROUP = 32  # the resource type of a group's options
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
NO_EPOCH = 1 << 30  # of no session
Run = tuple[int, int, int]  # first and last offsets, and a number


@dataclass
class BrokerSocket:
    """One connection to a broker, with one request at a time."""

    address: str

    def __enter__(self) -> Self:
        host, _, port = self.address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.settimeout(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self._socket.close()

    def ask(self, message: Any, version: int | None = None) -> Any:
        """The response to a request, in the newest version unless another one is named."""
        version = type(message).max_version if version is None else version
        body = encode_request(message, version, 1, "walker")
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._take(4))
        return decode_response(type(message), self._take(size), version)[1]

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker has closed the connection"
            data += more
        return data

    def configure(self, group: str, **options: str) -> None:
        """Set options of a group, and see that the broker heeds them."""
        request = protocol.IncrementalAlterConfigsRequest()
        names = {name.replace("_", "."): value for name, value in options.items()}
        configs = [request.AlterableConfig(name=name, config_operation=0, value=value) for name, value in names.items()]
        resource = request.AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
        request.resources = [resource]
        (response,) = self.ask(request).responses
        assert response.error_code == 0, response.error_message
        asked = protocol.DescribeConfigsRequest()
        asked.resources = [asked.DescribeConfigsResource(resource_type=GROUP, resource_name=group)]

        def are_set() -> bool:
            (found,) = self.ask(asked).results
            return names.items() <= {each.name: each.value for each in found.configs}.items()

        waiting.until(are_set, "the broker knows of the group's options")

    def ready(self, group: str) -> dict[str, set[int]]:
        """The partitions that a share group may read."""
        request = protocol.DescribeShareGroupOffsetsRequest()
        request.groups = [request.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
        (found,) = self.ask(request).groups
        return {topic.topic_name: {each.partition_index for each in topic.partitions} for topic in found.topics}


@dataclass
class Reader:
    """The player of a reading member: its records by partition, and its session's epoch; None: it has none.

    `connection`: its own, whose end is the session's; None: the walk's.
    """

    member_id: str
    connection: BrokerSocket | None = None
    epoch: int | None = None
    held: dict[int, list[int]] = field(default_factory=dict)
    reads: set[int] = field(default_factory=set)


@dataclass
class ReadingWalk:
    """One walk on one broker. `topic_id`: of a topic of its own, of which it knows nothing but the name."""

    address: str
    seed: int
    partitions: int = 2
    leaves_often: bool = False
    lines: list[str] = field(default_factory=list)

    def play(self, steps: int) -> list[str]:
        self._random = random.Random(self.seed)
        self._topic = self._group = f"read-{self.seed}-{uuid.uuid4().hex[:8]}"
        self._readers = [Reader(f"m{number}") for number in range(self._random.choice([1, 2, 2, 3]))]
        self._ends = [0] * self.partitions
        with BrokerSocket(self.address) as self._broker, ExitStack() as self._connections:
            self._prepare()
            for _ in range(steps):
                self._step()
        return self.lines

    def _prepare(self) -> None:
        request = protocol.CreateTopicsRequest(timeout_ms=10_000)
        topic = request.CreatableTopic(name=self._topic, num_partitions=self.partitions, replication_factor=1)
        request.topics = [topic]
        (made,) = self._broker.ask(request).topics
        assert not made.error_code, made.error_message
        self._topic_id = made.topic_id
        limit = self._random.choice([2, 3, 5, 6])
        self._broker.configure(
            self._group,
            share_auto_offset_reset="earliest",
            share_delivery_count_limit=str(limit),
            share_partition_max_record_locks="100",
            share_record_lock_duration_ms="60000",
        )
        beat = protocol.ShareGroupHeartbeatRequest(group_id=self._group, member_id="m0", member_epoch=0)
        beat.subscribed_topic_names = [self._topic]
        waiting.until(lambda: self._has_joined(beat), "the share partitions are ready", 60)
        self._load()
        for index in range(self.partitions):
            self._append(index)
            self._append(index)
        self.lines.append(f"delivered {limit} times at most")

    def _has_joined(self, beat: Any) -> bool:
        response = self._broker.ask(beat)
        if not response.error_code:  # a real broker may have to learn of the topic, and of the coordinator
            beat.member_epoch, beat.subscribed_topic_names = response.member_epoch, None
        return len(self._broker.ready(self._group).get(self._topic, ())) == self.partitions

    def _load(self) -> None:
        """Let the leader load the share partitions: a response names each once it is loaded, with records of it."""
        for index in range(self.partitions):
            waiting.until(partial(self._has_loaded, index), "the leader has loaded the share partition")

    def _has_loaded(self, index: int) -> bool:
        request = protocol.ShareFetchRequest(
            group_id=self._group, member_id="m9", max_wait_ms=100, min_bytes=1, max_records=1, batch_size=1
        )
        request.topics = [
            request.FetchTopic(topic_id=self._topic_id, partitions=[request.FetchPartition(partition_index=index)])
        ]
        response = self._broker.ask(request)
        found = [each for topic in response.responses for each in topic.partitions if not each.error_code]
        acquired = [
            (run.first_offset, run.last_offset, run.delivery_count) for each in found for run in each.acquired_records
        ]
        if found:
            self.lines.append(f"load {index} -> {acquired}")
        m9 = Reader("m9", epoch=1)
        if acquired:  # a real broker writes down later that a session's end releases records
            self._acknowledge(m9, {index: [(first, last, [RELEASE]) for first, last, _ in acquired]})
        closing = protocol.ShareAcknowledgeRequest(group_id=self._group, member_id="m9", share_session_epoch=-1)
        return self._broker.ask(closing).error_code == 0 and bool(found)

    # --- one step

    def _step(self) -> None:
        reader = self._random.choice(self._readers)
        kinds = {"fetch": 10, "say": 8, "append": 2, "look": 1, "odd": 3, "close": 1, "both": 3, "leave": 1}
        kinds["leave"] += 2 * self.leaves_often
        if reader.epoch is None:
            kinds = {"open": 10, "odd": 1}
        (kind,) = self._random.choices([*kinds], [*kinds.values()])
        getattr(self, f"_{kind}")(reader)

    def _append(self, index: int | None = None) -> None:
        index = self._random.randrange(self.partitions) if not isinstance(index, int) else index
        count = self._random.choice([1, 2, 3, 5, 8, 13, 30])
        self._ends[index] += count
        data = encode_batch([b"%d" % number for number in range(count)])
        request = protocol.ProduceRequest(acks=-1, timeout_ms=10_000)
        part = request.PartitionProduceData(index=index, records=data)
        request.topic_data = [request.TopicProduceData(name=self._topic, partition_data=[part])]
        (response,) = self._broker.ask(request, 9).responses[0].partition_responses
        self.lines.append(f"append {count} to {index} -> {error_of(response)} {response.base_offset}")

    def _open(self, reader: Reader) -> None:
        if reader.connection is None:
            reader.connection = self._connections.enter_context(BrokerSocket(self.address))
        reader.reads = {*range(self.partitions)} if self._random.random() < 0.3 else {self._random.randint(0, 1)}
        self._fetch(reader, epoch=0, named=sorted(reader.reads))

    def _close(self, reader: Reader) -> None:
        """Accept or release all records that the reader has, and end its session."""
        said = {index: self._say_all(held) for index, held in reader.held.items() if held}
        if self._random.random() < 0.5:
            self._acknowledge(reader, said, epoch=-1)
        else:
            self._fetch(reader, epoch=-1, said=said, named=sorted(said))
        reader.epoch, reader.held = None, {}

    def _leave(self, reader: Reader) -> None:
        """All connections end: without a session of the group, the leader drops the share partitions."""
        del reader
        leaving = [each for each in self._readers if each.epoch is not None]
        for each in leaving:
            if each.connection is not None:
                each.connection.close()
            request = protocol.ShareAcknowledgeRequest(
                group_id=self._group, member_id=each.member_id, share_session_epoch=NO_EPOCH
            )
            waiting.until(partial(self._has_no_session, request), "the session has ended")
            each.connection, each.epoch, each.held = None, None, {}
        self.lines.append(f"{[each.member_id for each in leaving]} leave")
        self._load()

    def _has_no_session(self, request: protocol.ShareAcknowledgeRequest) -> bool:
        code: int = self._broker.ask(request).error_code
        return code == ErrorCode.SHARE_SESSION_NOT_FOUND

    def _say(self, reader: Reader) -> None:
        self._acknowledge(reader, self._some(reader))

    def _both(self, reader: Reader) -> None:
        said = self._some(reader, kinds=(ACCEPT, ACCEPT, REJECT, GAP))
        self._fetch(reader, said=said, named=sorted(said))

    def _some(self, reader: Reader, kinds: Sequence[int] = (GAP, ACCEPT, RELEASE, RELEASE, REJECT)) -> dict[int, Any]:
        """Acknowledgements of some of the records that it has."""
        said: dict[int, list[tuple[int, int, list[int]]]] = {}
        for index, held in reader.held.items():
            if not held or self._random.random() < 0.3:
                continue
            wanted = held if self._random.random() < 0.5 else sorted(self._random.sample(held, len(held) // 2 + 1))
            said[index] = [(first, last, self._types(last - first + 1, kinds)) for first, last in _joined(wanted)]
            gone = {offset for first, last, _ in said[index] for offset in range(first, last + 1)}
            reader.held[index] = [each for each in held if each not in gone]
        return said

    def _say_all(self, held: Sequence[int]) -> list[tuple[int, int, list[int]]]:
        return [(first, last, self._types(last - first + 1, (ACCEPT, RELEASE))) for first, last in _joined(held)]

    def _types(self, count: int, kinds: Sequence[int]) -> list[int]:
        if self._random.random() < 0.6:
            return [self._random.choice(kinds)]
        return [self._random.choice(kinds) for _ in range(count)]

    def _look(self, reader: Reader) -> None:
        del reader
        request = protocol.DescribeShareGroupOffsetsRequest()
        topic = request.DescribeShareGroupOffsetsRequestTopic(
            topic_name=self._topic, partitions=[*range(self.partitions)]
        )
        request.groups = [request.DescribeShareGroupOffsetsRequestGroup(group_id=self._group, topics=[topic])]
        (found,) = self._broker.ask(request).groups
        shown = sorted(
            (each.partition_index, each.start_offset, each.lag, each.leader_epoch, error_of(each))
            for its in found.topics
            for each in its.partitions
        )
        self.lines.append(f"look -> {error_of(found)} {shown}")

    def _odd(self, reader: Reader) -> None:
        """A request that a healthy client does not send."""
        kind = self._random.choice(
            ["epoch", "stranger", "types", "order", "range", "others", "topic", "partition", "renew", "member", "opens"]
        )
        epoch = 1 if reader.epoch is None else reader.epoch
        first = self._random.randrange(max(1, self._ends[0]))
        if kind == "epoch":
            self._acknowledge(reader, {}, epoch=epoch + 1)
            self._fetch(reader, epoch=epoch + 2)
        elif kind == "stranger":
            self._acknowledge(Reader("m9"), {0: [(0, 1, [1])]}, epoch=self._random.choice([-1, 0, 1]))
            self._fetch(Reader("m9"), epoch=self._random.choice([-1, 3]))
        elif kind == "member":
            self._fetch(Reader(self._random.choice(["", "m" * 37])), epoch=0)
        elif kind == "opens":
            self._fetch(Reader("m9"), epoch=0, said={0: [(0, 1, [1])]}, named=[0])
        elif reader.epoch is not None:
            said: dict[str, Any] = {
                "types": {0: [(first, first + 2, self._random.choice([[], [1, 1], [5], [-1]]))]},
                "order": {0: [(first + 2, first + 3, [1]), (first, first, [1])]},
                "range": {0: [(self._ends[0] + 3, self._ends[0] + 5, [1])]},
                "others": {0: [self._of_others()]},
                "topic": {0: [(first, first, [1])]},
                "partition": {7: [(0, 0, [1])]},
                "renew": {index: [(each[0], each[0], [RENEW])] for index, each in reader.held.items() if each},
            }
            self._acknowledge(reader, said[kind], topic=uuid.UUID(int=9) if kind == "topic" else None)

    def _of_others(self) -> tuple[int, int, list[int]]:
        """Records that another one may have: where a whole range is done with, a real broker trips over it."""
        runs = [run for each in self._readers for run in _joined(each.held.get(0, ()))]
        first = self._random.randrange(max(1, self._ends[0]))
        return (*self._random.choice([(first, first), *runs]), [1])

    # --- requests and responses

    def _fetch(
        self,
        reader: Reader,
        *,
        epoch: int | None = None,
        said: dict[int, Any] | None = None,
        named: Sequence[int] = (),
    ) -> None:
        said = said or {}
        its_epoch = (reader.epoch or 0) if epoch is None else epoch
        mode = int(self._random.random() < 0.3)
        request = protocol.ShareFetchRequest(
            group_id=self._group,
            member_id=reader.member_id,
            share_session_epoch=its_epoch,
            max_wait_ms=20,
            min_bytes=1,
            max_bytes=self._random.choice([1 << 20, 1 << 20, 400]),
            # Which of two partitions that gave records comes first the next time follows a hash table of Kafka's.
            max_records=1 if len(reader.reads) > 1 else self._random.choice([1, 2, 5, 20, 100]),
            batch_size=self._random.choice([1, 4, 100]),
            share_acquire_mode=mode,
        )
        forgotten: list[int] = []
        if epoch is None and its_epoch > 0 and not said and self._random.random() < 0.1:
            changed = self._random.randrange(self.partitions)
            (forgotten, named) = ([changed], ()) if changed in reader.reads else ([], [changed])
            reader.reads ^= {changed}
        parts = [
            request.FetchPartition(
                partition_index=index, acknowledgement_batches=_batches(request, said.get(index, ()))
            )
            for index in named
        ]
        request.topics = [request.FetchTopic(topic_id=self._topic_id, partitions=parts)] if parts else []
        if forgotten:
            request.forgotten_topics_data = [request.ForgottenTopic(topic_id=self._topic_id, partitions=forgotten)]
        response = (reader.connection or self._broker).ask(request)
        if not response.error_code:
            reader.epoch = its_epoch + 1 if its_epoch >= 0 else None
        shown = []
        for part in sorted((each for topic in response.responses for each in topic.partitions), key=_index):
            acquired = [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]
            if its_epoch >= 0:
                its = reader.held.setdefault(part.partition_index, [])
                its += [offset for first, last, _ in acquired for offset in range(first, last + 1)]
                reader.held[part.partition_index] = sorted(set(its))
            batches = [(b.base_offset, b.last_offset) for b in decode_batches(bytes(part.records))]
            ack = f"{ErrorCode(part.acknowledge_error_code).name} {part.acknowledge_error_message}"
            shown.append(f"{part.partition_index}: {error_of(part)} {part.error_message} {ack} {acquired} of {batches}")
        asked = (
            f"{reader.member_id} fetch {its_epoch} {[*named]} {said} most {request.max_records}, {request.max_bytes} B,"
            f" by {request.batch_size}, mode {mode}, without {forgotten}"
        )
        what = f"{error_of(response)} {response.error_message} {response.acquisition_lock_timeout_ms}"
        self.lines.append(f"{asked} -> {what}; {'; '.join(shown)}")

    def _acknowledge(
        self, reader: Reader, said: dict[int, Any], *, epoch: int | None = None, topic: uuid.UUID | None = None
    ) -> None:
        its_epoch = (reader.epoch or 0) if epoch is None else epoch
        request = protocol.ShareAcknowledgeRequest(
            group_id=self._group, member_id=reader.member_id, share_session_epoch=its_epoch
        )
        request.is_renew_ack = any(RENEW in types for batches in said.values() for _, _, types in batches) and (
            self._random.random() < 0.8
        )
        parts = [
            request.AcknowledgePartition(partition_index=index, acknowledgement_batches=_batches(request, batches))
            for index, batches in said.items()
        ]
        request.topics = [request.AcknowledgeTopic(topic_id=topic or self._topic_id, partitions=parts)] if parts else []
        response = (reader.connection or self._broker).ask(request)
        if not response.error_code and reader.epoch is not None:
            reader.epoch += 1
        shown = sorted(
            f"{part.partition_index}: {error_of(part)} {part.error_message}"
            for each in response.responses
            for part in each.partitions
        )
        what = f"{error_of(response)} {response.error_message} {response.acquisition_lock_timeout_ms}"
        self.lines.append(f"{reader.member_id} say {its_epoch} {said} -> {what}; {'; '.join(shown)}")


def _batches(request: Any, said: Sequence[tuple[int, int, list[int]]]) -> list[Any]:
    kind = request.AcknowledgementBatch
    return [kind(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in said]


def _joined(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Offsets in order as runs."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = runs[-1][0], offset
        else:
            runs.append((offset, offset))
    return runs


def _index(part: Any) -> int:
    index: int = part.partition_index
    return index


def error_of(response: Any) -> str:
    return ErrorCode(response.error_code).name if response.error_code else "ok"
