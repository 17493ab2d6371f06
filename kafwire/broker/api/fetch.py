"""Fetch (1): records of partitions. See KIP-227 (sessions), KIP-320 and KIP-595 (truncation), KIP-392, KIP-951.

A request waits for `min_bytes` until `max_wait_ms` have passed; errors do not wait. Followers serve their part of the
log, and leaders send readers to the follower in their rack.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.log.fetch_sessions import Context, Read, SessionBroker, share_available
from kafwire.broker.quotas import Quotas
from kafwire.broker.request import LATER, Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.errors import ErrorCode
from kafwire.protocol import FetchRequest

if TYPE_CHECKING:
    from kafwire.broker.log.log import Records
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer

COMMITTED = 1

# A partition as a request names it: its topic by name or by id, and its number.
Key = tuple[str, uuid.UUID, int]
Asked = Any  # FetchRequest.FetchPartition


class FetchSessions:
    """The fetch sessions of all brokers."""

    def __init__(self, state: ClusterState) -> None:
        self.slots = state.config_int("max.incremental.fetch.session.cache.slots")
        self._brokers: dict[int, SessionBroker[Key, Asked]] = {}
        self._ids = itertools.count(1)

    def of(self, node: int) -> SessionBroker[Key, Asked]:
        """Return the fetch sessions that `node` keeps; clear its `sessions` to make the broker forget them."""
        if node not in self._brokers:
            self._brokers[node] = SessionBroker(slots=self.slots, ids=self._ids)
        return self._brokers[node]


@dataclass(slots=True, eq=False)
class Found:
    """The data of a broker for one partition of a request, before the request's byte limit is shared out."""

    part: Any  # FetchResponse.PartitionData
    partition: Partition | None = None
    limit: int = -1  # the offset before which the response may have records
    first: int = 0  # bytes of the first batch
    size: int = 0  # bytes of all
    given: int = 0
    is_urgent: bool = False
    waits: bool = True  # for more data, if there is not enough


def handle(state: ClusterState, request: Request) -> Response:
    """Respond when there are enough bytes, or when the wait is over."""
    fetch = DelayedFetch(state, request)
    if fetch.is_ready(first=True):
        return fetch.response()
    fetch.wait()
    return LATER


class DelayedFetch:
    """A request that may have to wait for records."""

    def __init__(self, state: ClusterState, request: Request) -> None:
        self.state = state
        self.request = request
        message = request.message
        add = [
            ((topic.topic, topic.topic_id, wanted.partition), wanted)
            for topic in message.topics
            for wanted in topic.partitions
        ]
        forget = [
            (topic.topic, topic.topic_id, index)
            for topic in message.forgotten_topics_data
            for index in topic.partitions
        ]
        sessions: FetchSessions = state.part(FetchSessions)
        self.context: Context[Key, Asked] = sessions.of(request.node).begin(
            state.now_ms,
            message.session_id,
            message.session_epoch,
            add,
            forget,
            by_id=request.version >= FetchRequest.BY_TOPIC_ID,
        )
        self._found: dict[Key, Found] = {}
        self._timer: Timer | None = None
        self._watched: list[Partition] = []
        self._missing = 0  # bytes still missing
        self._ends_ms = state.now_ms + message.max_wait_ms

    def is_ready(self, *, first: bool = False) -> bool:
        """Read all partitions. Return True if the response need not wait."""
        message = self.request.message
        found = {key: self._find(key, asked) for key, asked in self.context.asked.items()}
        # Partitions that cannot be read stand behind all others in a response.
        self._found = found = dict(sorted(found.items(), key=lambda item: item[1].partition is None))
        asked = [(key, self.context.asked[key].partition_max_bytes) for key in found]
        quotas: Quotas = self.state.part(Quotas)
        most = int(min(message.max_bytes, quotas.most_bytes(self.request)))
        given = share_available(asked, lambda key: (found[key].first, found[key].size), most)
        left = most
        for key, limit in asked:
            its, size = found[key], given[key]
            its.given = size
            if message.isolation_level == COMMITTED and its.limit >= 0 and min(left, limit) <= 0:
                its.part.aborted_transactions = []  # as Kafka, which does not read the log then
            left = max(0, left - size)
        self._missing = message.min_bytes - sum(given.values())
        is_late = self.state.now_ms >= self._ends_ms if not first else message.max_wait_ms <= 0
        return (
            bool(self.context.error)
            or not found
            or self._missing <= 0
            or is_late
            or any(not each.waits for each in found.values())
        )

    def _find(self, key: Key, asked: Asked) -> Found:
        name, topic_id, index = key
        request, version = self.request, self.request.version
        part = protocol.FetchResponse.PartitionData(partition_index=index, high_watermark=-1, records=b"")
        topic = self.state.topics.find(name, topic_id)
        injected = request.notes.get("fetch errors")  # set by a fault script, see `error_responses.py`
        if injected is not None and injected.concerns(topic.name if topic else name, index):
            part.error_code = injected.code
            return Found(part, waits=False)
        known = name if topic is None else topic.name
        if known and not self._may_read(known):
            part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return Found(part, waits=False)
        if topic is None or not 0 <= index < len(topic.partitions):
            by_id = version >= FetchRequest.BY_TOPIC_ID and topic is None
            part.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Found(part, waits=False)
        partition = topic.partitions[index]
        log = partition.log
        part.aborted_transactions = None  # an empty list only where a log was read, for read_committed
        part.error_code = partition.refuses(
            request.node, asked.current_leader_epoch, followers=version >= FetchRequest.FROM_FOLLOWERS
        )
        if part.error_code:
            if (
                version >= FetchRequest.NAMES_LEADERS
                and partition.leader in self.state.nodes
                and part.error_code in _TELLS_LEADER
            ):
                part.current_leader.leader_id = partition.leader
                part.current_leader.leader_epoch = partition.leader_epoch
            return Found(part, partition, waits=False)
        end = min(partition.end_at(request.node), partition.high_watermark)
        stable = min(end, partition.last_stable_offset)
        part.high_watermark = end
        part.last_stable_offset = stable
        part.log_start_offset = log.start_offset
        preferred = self._preferred_replica(partition, asked.fetch_offset)
        if preferred >= 0:
            part.preferred_read_replica = preferred
            return Found(part, partition, is_urgent=True, waits=False)
        if asked.last_fetched_epoch >= 0:
            epoch, epoch_end = partition.end_of_epoch(asked.last_fetched_epoch)
            if epoch >= 0 and (epoch < asked.last_fetched_epoch or epoch_end < asked.fetch_offset):
                part.diverging_epoch.epoch = epoch
                part.diverging_epoch.end_offset = epoch_end
                return Found(part, partition, is_urgent=True, waits=False)
            if epoch < 0:
                part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        if part.error_code or not log.start_offset <= asked.fetch_offset <= end:
            # As with all errors, the response has no offsets of the log.
            part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            part.high_watermark = part.last_stable_offset = part.log_start_offset = -1
            return Found(part, partition, waits=False)
        limit = stable if request.message.isolation_level == COMMITTED else end
        first, size = log.available(asked.fetch_offset, limit)
        if not size and request.message.isolation_level == COMMITTED:
            part.aborted_transactions = []
        return Found(part, partition, limit, first, size)

    def _may_read(self, topic: str) -> bool:
        message = self.request.message
        if max(message.replica_id, message.replica_state.replica_id) >= 0:
            return self.state.allows(self.request, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return self.state.allows(self.request, Operation.READ, ResourceType.TOPIC, topic)

    def _preferred_replica(self, partition: Partition, offset: int) -> int:
        """Return the follower in the reader's rack that a leader names, or -1."""
        nodes, request = self.state.nodes, self.request
        rack = request.message.rack_id if request.version >= FetchRequest.FROM_FOLLOWERS else ""
        if not rack or partition.leader != request.node or nodes[request.node].rack == rack:
            return -1
        near = [n for n in partition.replicas if n in nodes and nodes[n].rack == rack and nodes[n].is_up]
        start = partition.log.start_offset
        able = [n for n in near if n != partition.leader and partition.end_at(n) >= offset >= start]
        return max(able, key=partition.end_at, default=-1)

    # --- waiting

    def wait(self) -> None:
        """Wait until enough bytes were appended, something else changed, or the wait is over."""
        for found in self._found.values():
            if found.partition is not None:
                found.partition.watchers.add(self._on_change)
                self._watched.append(found.partition)
        self._timer = self.state.timers.at(self._ends_ms, self._end)

    def _on_change(self, partition: Partition, grown: int) -> None:
        del partition
        if not self.request.connection.is_open:
            self._stop()
            return
        self._missing -= max(grown, 0)
        if (grown < 0 or (grown and self._missing <= 0)) and self.is_ready():
            self._stop()
            self.state.reply(self.request, self.response())

    def _stop(self) -> None:
        for partition in self._watched:
            partition.watchers.discard(self._on_change)
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self._stop()
        self.is_ready()
        self.state.reply(self.request, self.response())

    # --- the response

    def response(self) -> Any:
        """Return the response with the results of `is_ready`."""
        response_type = protocol.FetchResponse
        found = self._found
        quotas: Quotas = self.state.part(Quotas)
        throttle_ms = quotas.fetch(self.request, sum(each.given for each in found.values()))
        if throttle_ms:
            error, session_id, _ = self.context.throttled()
            return response_type(throttle_time_ms=throttle_ms, error_code=error, session_id=session_id)
        committed = self.request.message.isolation_level == COMMITTED
        for key, each in found.items():
            if each.given:
                self._give(each, self.context.asked[key].fetch_offset, committed=committed)
        error, session_id, included = self.context.finish({key: _as_read(each) for key, each in found.items()})
        topics = [
            response_type.FetchableTopicResponse(
                topic=name, topic_id=topic_id, partitions=[found[k].part for k in keys]
            )
            for (name, topic_id), keys in itertools.groupby(included, key=lambda key: key[:2])
        ]
        response = response_type(error_code=error, session_id=session_id, responses=topics)
        if self.request.version >= FetchRequest.NAMES_LEADERS:
            leaders = {found[key].part.current_leader.leader_id for key in included} - {-1}
            response.node_endpoints = [self._endpoint(leader) for leader in sorted(leaders)]
        return response

    def _give(self, found: Found, offset: int, *, committed: bool) -> None:
        """Put batches into the response, with the aborted transactions among them."""
        assert found.partition is not None
        log = found.partition.log
        records: Records = log.read(offset, found.given)
        found.part.records = records
        if not committed:
            return
        end, left = offset, found.given
        producers = found.partition.producers
        found.part.aborted_transactions = []
        if not producers.aborted:
            return
        for header in log.headers(offset, found.limit):
            if left > 0:
                end = header.next_offset
            left -= header.size
        found.part.aborted_transactions = [
            protocol.FetchResponse.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in producers.aborted_in(offset, log.index_offset(end))
        ]

    def _endpoint(self, leader: int) -> Any:
        host, port = self.state.nodes[leader].address(self.request.connection.listener)
        kind = protocol.FetchResponse.NodeEndpoint
        return kind(node_id=leader, host=host, port=port, rack=self.state.nodes[leader].rack)


_TELLS_LEADER = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}


def _as_read(found: Found) -> Read:
    part = found.part
    return Read(found.given, part.high_watermark, part.log_start_offset, part.error_code, found.is_urgent)
