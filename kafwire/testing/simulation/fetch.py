"""Fetch, ListOffsets and OffsetForLeaderEpoch of the simulated world's brokers.

`fetch_sessions` has the fetch sessions. Followers serve their part of the log, and leaders send readers to the follower
in their rack (KIP-392). A request with an old epoch is fenced. A reader of truncated records gets the offset where its
log and the leader's part (KIP-320). The wrong broker names the right one (KIP-951). A request waits for `min_bytes`
until `max_wait_ms` have passed; errors do not wait.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafwire import protocol
from kafwire.broker.log.fetch_sessions import Context, Read, SessionBroker, share
from kafwire.errors import ErrorCode
from kafwire.protocol import FetchRequest
from kafwire.records import decode_batches
from kafwire.testing.simulation.log import Call, Log, Response, Stored, Topics

DEBUGGING_REPLICA = -2  # a replica id that sees uncommitted records too

# A partition as a request names it: its topic by name or by id, and its number.
Key = tuple[str, uuid.UUID, int]
Asked = Any  # FetchRequest.FetchPartition


@dataclass(slots=True)
class Found:
    """The data of a broker for one partition of a request, before the request's byte limit is shared out."""

    part: Any  # FetchResponse.PartitionData
    batches: list[Stored]
    log: Log | None = None
    urgent: bool = False
    waits: bool = True  # for more data, if there is not enough


class FetchApi(Topics):
    """The APIs of readers."""

    def __init__(self, *, topic_ids: bool) -> None:
        super().__init__(topic_ids=topic_ids)
        self.session_slots = 1000
        self._session_brokers: dict[int, SessionBroker[Key, Asked]] = {}
        self._session_ids = itertools.count(1)

    def sessions(self, node: int) -> SessionBroker[Key, Asked]:
        """Return the fetch sessions that `node` keeps; clear its `sessions` to make the broker forget them."""
        if node not in self._session_brokers:
            self._session_brokers[node] = SessionBroker(slots=self.session_slots, ids=self._session_ids)
        return self._session_brokers[node]

    def _begin_fetch(self, call: Call) -> Context[Key, Asked]:
        request = call.message
        add = [
            ((topic.topic, topic.topic_id, wanted.partition), wanted)
            for topic in request.topics
            for wanted in topic.partitions
        ]
        forget = [
            (topic.topic, topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        return self.sessions(call.node).begin(
            call.at_ms,
            request.session_id,
            request.session_epoch,
            add,
            forget,
            by_id=call.version >= FetchRequest.BY_TOPIC_ID,
        )

    async def _on_Fetch(self, call: Call) -> Response:
        context = self._begin_fetch(call)
        throttle_ms = self.throttle(call)
        if throttle_ms:
            error, session_id, _ = context.throttled()
            return protocol.FetchResponse(error_code=error, session_id=session_id, throttle_time_ms=throttle_ms)
        until = asyncio.get_running_loop().time() + call.message.max_wait_ms / 1000
        while True:
            found, sizes = self._look(call, context)
            left = until - asyncio.get_running_loop().time()
            enough = sum(sizes.values()) >= call.message.min_bytes or not all(f.waits for f in found.values())
            if context.error or not found or enough or left <= 0:
                return self._respond_to_fetch(call, context, found, sizes)
            await self.changed(left)

    def _fetch(self, call: Call) -> tuple[Any, int]:
        """Return a response without waiting, and its number of record bytes."""
        context = self._begin_fetch(call)
        found, sizes = self._look(call, context)
        return self._respond_to_fetch(call, context, found, sizes), sum(sizes.values())

    def _look(self, call: Call, context: Context[Key, Asked]) -> tuple[dict[Key, Found], dict[Key, int]]:
        found = {key: self._find(call, key, asked) for key, asked in context.asked.items()}
        # Partitions that cannot be read stand behind all others in a response.
        found = dict(sorted(found.items(), key=lambda item: item[1].log is None))
        asked = [(key, context.asked[key].partition_max_bytes) for key in found]
        sizes = share(asked, lambda key: [len(stored.data) for stored in found[key].batches], call.message.max_bytes)
        return found, sizes

    def _find(self, call: Call, key: Key, asked: Asked) -> Found:
        name, topic_id, index = key
        part = protocol.FetchResponse.PartitionData(partition_index=index, high_watermark=-1, records=b"")
        topic = self.find(name, topic_id)
        if topic is None or index >= len(topic.partitions):
            part.error_code = (
                ErrorCode.UNKNOWN_TOPIC_ID
                if call.version >= FetchRequest.BY_TOPIC_ID and topic is None
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            return Found(part, [], waits=False)
        log = topic.partitions[index]
        if topic.name in self.unreadable:
            part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return Found(part, [], log, waits=False)
        part.error_code = log.refuses(
            call.node, asked.current_leader_epoch, followers=call.version >= FetchRequest.FROM_FOLLOWERS
        )
        if part.error_code:
            if (
                part.error_code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
                and call.version >= FetchRequest.NAMES_LEADERS
                and log.leader in self.nodes
            ):
                part.current_leader.leader_id = log.leader
                part.current_leader.leader_epoch = log.epoch
            return Found(part, [], log, waits=False)
        end = min(log.end_at(call.node), log.high_watermark)
        stable = min(end, log.last_stable)
        limit = stable if call.message.isolation_level else end
        part.high_watermark = end
        part.last_stable_offset = stable
        part.log_start_offset = log.start
        preferred = self._preferred_replica(call, log, asked.fetch_offset)
        if preferred >= 0:
            part.preferred_read_replica = preferred
            return Found(part, [], log, urgent=True, waits=False)
        if asked.last_fetched_epoch >= 0:
            epoch, epoch_end = log.end_of(asked.last_fetched_epoch)
            if epoch >= 0 and (epoch < asked.last_fetched_epoch or epoch_end < asked.fetch_offset):
                part.diverging_epoch.epoch = epoch
                part.diverging_epoch.end_offset = epoch_end
                return Found(part, [], log, urgent=True, waits=False)
            if epoch < 0:
                part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        if not log.start <= asked.fetch_offset <= end or part.error_code:
            # As with all errors, the response has no offsets of the log.
            part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            part.high_watermark = part.last_stable_offset = part.log_start_offset = -1
            return Found(part, [], log, waits=False)
        return Found(part, [b for b in log.batches if b.next > asked.fetch_offset and b.base < limit], log)

    def _preferred_replica(self, call: Call, log: Log, offset: int) -> int:
        """Return the follower in the reader's rack that a leader names, or -1."""
        rack = call.message.rack_id if call.version >= FetchRequest.FROM_FOLLOWERS else ""
        if not rack or log.leader != call.node or self.nodes[call.node].rack == rack:
            return -1
        near = (n for n in log.replicas if n in self.nodes and self.nodes[n].rack == rack and not self.nodes[n].down)
        able = [n for n in near if n != log.leader and log.end_at(n) >= offset >= log.start]
        return max(able, key=log.end_at, default=-1)

    def _respond_to_fetch(
        self, call: Call, context: Context[Key, Asked], found: dict[Key, Found], sizes: dict[Key, int]
    ) -> Any:
        response_type = protocol.FetchResponse
        for key, size in sizes.items():
            _give(found[key], size, context.asked[key].fetch_offset, committed=bool(call.message.isolation_level))
        error, session_id, included = context.finish({key: _as_read(f) for key, f in found.items()})
        topics = [
            response_type.FetchableTopicResponse(
                topic=name, topic_id=topic_id, partitions=[found[key].part for key in keys]
            )
            for (name, topic_id), keys in itertools.groupby(included, key=lambda key: key[:2])
        ]
        response = response_type(error_code=error, session_id=session_id, responses=topics)
        if call.version >= FetchRequest.NAMES_LEADERS:
            response.node_endpoints = self._endpoints(found[key].part.current_leader.leader_id for key in included)
        return response

    def _endpoints(self, leaders: Iterable[int]) -> list[Any]:
        hinted = (self.nodes[leader] for leader in sorted(set(leaders) - {-1}))
        return [
            protocol.FetchResponse.NodeEndpoint(node_id=n.number, host=n.host, port=n.port, rack=n.rack) for n in hinted
        ]

    def _on_ListOffsets(self, call: Call) -> Response:
        response_type = protocol.ListOffsetsResponse
        topics = []
        for topic in call.message.topics:
            known = self.topics.get(topic.name)
            responses = []
            for asked in topic.partitions:
                response = response_type.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
                responses.append(response)
                if known is None or asked.partition_index >= len(known.partitions):
                    response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                log = known.partitions[asked.partition_index]
                if log.leader != call.node:
                    response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif not log.error:
                    response.error_code = log.refuses(call.node, asked.current_leader_epoch)
                if not response.error_code and asked.timestamp == -1 and call.message.replica_id == DEBUGGING_REPLICA:
                    response.offset, response.leader_epoch = log.end, log.epoch
                elif not response.error_code:
                    _tell_offset(log, asked.timestamp, response, committed=bool(call.message.isolation_level))
            topics.append(response_type.ListOffsetsTopicResponse(name=topic.name, partitions=responses))
        return response_type(topics=topics)

    def _on_OffsetForLeaderEpoch(self, call: Call) -> Response:
        response = protocol.OffsetForLeaderEpochResponse
        topics = []
        for topic in call.message.topics:
            known = self.topics.get(topic.topic)
            ends = []
            for asked in topic.partitions:
                end = response.EpochEndOffset(partition=asked.partition)
                ends.append(end)
                if known is None or asked.partition >= len(known.partitions):
                    end.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                log = known.partitions[asked.partition]
                end.error_code = log.refuses(call.node, asked.current_leader_epoch)
                if not end.error_code:
                    end.leader_epoch, end.end_offset = log.end_of(asked.leader_epoch)
            topics.append(response.OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        return response(topics=topics)


def _give(found: Found, size: int, offset: int, *, committed: bool) -> None:
    """Put `size` bytes of the batches into the response, with the aborted transactions among them."""
    found.part.records = b"".join(stored.data for stored in found.batches)[:size]
    if not committed or found.log is None or not found.part.records:
        return
    end, left = offset, size
    for stored in found.batches:
        if left > 0:
            end = stored.next
        left -= len(stored.data)
    found.part.aborted_transactions = [
        protocol.FetchResponse.AbortedTransaction(producer_id=producer, first_offset=first)
        for producer, first in found.log.aborted_in(offset, found.log.reported_to(end) if found.log.aborted else end)
    ]


def _as_read(found: Found) -> Read:
    part = found.part
    return Read(len(part.records), part.high_watermark, part.log_start_offset, part.error_code, found.urgent)


def _tell_offset(log: Log, timestamp: int, response: Any, *, committed: bool) -> None:
    response.leader_epoch = log.epoch
    end = log.last_stable if committed else log.high_watermark
    if timestamp == -1:
        response.offset = end
    elif timestamp == -2:
        response.offset = log.start
    else:
        late = (
            record
            for stored in log.batches
            for batch in decode_batches(stored.data)
            for record in batch
            if (record.timestamp_ms or -1) >= timestamp and record.offset < end
        )
        found = next(late, None)
        if found is not None:
            response.offset, response.timestamp = found.offset, found.timestamp_ms or -1
