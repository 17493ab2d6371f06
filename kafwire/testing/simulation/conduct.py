"""What clients send, judged as it leaves them: the rules of Kafka's protocol that brokers do not, or cannot, enforce.

It sees every request when a client gives it to a connection, and every answer when it comes back, and knows nothing of
kafwire's own code. A rule holds whatever is wrong with brokers and network.

- batches: the numbers of an idempotent producer's batches to a partition go on without a gap; no more than five are
  between the oldest that was not acknowledged and the newest, as brokers remember five (KIP-98); none overtakes one
  that waits to be sent again, or one whose fate was not asked for; the number of one that may be in the log is given to
  no other; until the first of a producer id is acknowledged it is alone, as a broker takes any number of a producer
  that it does not know; where a later epoch is known than the producer's, it goes on with another id (KIP-360)
- transactions: before version 2 a partition is added before it is written to (KIP-98); none ends while batches of it
  are in flight, which could be stored behind its end; the one after a request without an answer has another epoch, so
  that what comes late is refused
- when: where nothing is wrong, a batch that was refused goes again when its backoff is over, and metadata that were
  news are asked for again as soon as news may be (KIP-580)
- fetching: no client is told that the epoch of its session is wrong (KIP-227); the leader epochs that it says never go
  back (KIP-320)
- who is asked: a broker that has said again and again that it does not lead a partition, or coordinate a group or
  transaction, is not asked on before the client has asked who does
"""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker import dispatch
from kafwire.testing.broker.log.batch_header import BatchHeader, read_header

REMEMBERED = 5  # batches of a producer and partition, by each broker
IN_VAIN = 5  # requests for the same to a broker that is the wrong one
MOST = 20  # violations that are kept
BACKOFF_S, LONGEST_BACKOFF_S, SPREAD = 0.1, 1.0, 1.2  # `retry_backoff_ms`, `retry_backoff_max_ms`, and KIP-580's jitter
LATE_S = 0.05  # what a client may take beside its backoff, where an answer takes 2 ms
_HEAD = struct.Struct(">hhi")
# The answers after which a batch is in the log.
_TAKEN = {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
# Those after which it may be.
_UNKNOWN = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
_COORDINATED = {
    *("OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn"),
    *("InitProducerId", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
}
# Requests of a transaction, which coordinators may execute late.
_TRANSACTIONAL = {"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"}
_SEARCHES = {"DescribeProducers", "Fetch"}
_READ = {"Produce", "Fetch", *_COORDINATED}
_FIRST_WITH_IMPLICIT_PARTITIONS = 12  # the version of Produce that adds its partitions itself (KIP-890)
Place = tuple[Hashable, int]  # a topic, by its name or id, and a partition


@dataclass(slots=True)
class _Batch:
    """One that was sent and not acknowledged. `maybe_stored`: one of its requests has an outcome that nobody knows."""

    ordinal: int  # how many batches there were before it
    crc: int
    in_flight: bool = True
    maybe_stored: bool = False
    is_out_of_order: bool = False  # for a broker, which may have lost what it had
    back: int = -1  # how many requests and answers there were when its last request came back
    refusals: int = 0  # in a row, by too few replicas
    refused_s: float = -1.0  # when it was last; -1: its last outcome is another one

    def may_be_found(self, searched: int) -> bool:
        """Whether the client may know its outcome by other means than an answer, as it has looked into the log."""
        return (self.maybe_stored or self.is_out_of_order) and not self.in_flight and searched > self.back


@dataclass(slots=True)
class _Flow:
    """The batches of a producer's epoch to a partition, by their first numbers."""

    next: int | None = (
        None  # None before the first: a topic that was made anew is written to with the numbers of before
    )
    sent: int = 0  # batches
    searched: int = -1  # how many requests and answers there were when its client was last told of a log
    is_known: bool = False  # to the broker: a batch was acknowledged
    open: dict[int, _Batch] = field(default_factory=dict)


@dataclass(slots=True)
class _Sent:
    """A request on its way. `number`: how many there were before it. `batches`: of Produce, by partition."""

    number: int
    name: str
    client: Hashable
    node: int
    version: int
    message: Any
    batches: dict[Place, tuple[_Flow, int]] = field(default_factory=dict)


class Conduct:
    """Judges what it is told of. `violations`: in words.

    `clock`: the time in seconds. `calm_since`: since when nothing is wrong with brokers and network.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0, calm_since: Callable[[], float] = lambda: 0.0) -> None:
        self.violations: list[str] = []
        self._clock = clock
        self._calm_since = calm_since
        self._kinds = dispatch.served()
        self._sent: dict[Hashable, dict[int, _Sent]] = {}
        self._flows: dict[tuple[int, int, Place], _Flow] = {}
        self._added: dict[int, set[Place]] = {}  # to the transaction, by producer id
        self._epochs: dict[tuple[Hashable, Place], int] = {}
        # By client, broker, and what it was asked for: how often it has said that it is the wrong one.
        self._refused: Counter[tuple[Hashable, int, Hashable]] = Counter()
        self._numbers = itertools.count()
        self._looked_up: dict[tuple[Hashable, str], int] = {}  # how many requests there were when it was told who does
        self._searched: dict[Hashable, int] = {}  # by client: how many there were when it was told of a log
        self._owners: dict[int, Hashable] = {}  # the clients of producers without transactions
        self._refused_epochs: dict[tuple[int, Place], int] = {}  # by producer id, the epochs that are known to be old
        self._unanswered: dict[int, int] = {}  # by producer id, the epoch of a request without an answer
        self._ended: dict[int, int] = {}  # by producer id, the epoch of such a transaction that has ended
        self._told: dict[
            tuple[Hashable, Place], tuple[int, int]
        ] = {}  # the newest epoch a client knows, and its leader
        self._news_s: dict[Hashable, float] = {}  # by client: when it was told what it did not know, if it was the last
        self._wants_s: dict[Hashable, float] = {}  # by client: when it has to ask for metadata again

    def _wrong(self, sent: _Sent, problem: str) -> None:
        if len(self.violations) < MOST:
            self.violations.append(f"{sent.name} to broker {sent.node}: {problem}")

    def _refuse(self, sent: _Sent, lookup: str, what: Hashable) -> None:
        """A broker has said that it is the wrong one; who was told another one since may have asked before."""
        if sent.number > self._looked_up.get((sent.client, lookup), -1):
            self._refused[sent.client, sent.node, what] += 1

    def _asks(self, sent: _Sent, what: Hashable) -> None:
        """Whether a broker is asked in vain: a few times may be, while the client waits to ask who it should be."""
        if self._refused[sent.client, sent.node, what] >= IN_VAIN:
            self._wrong(
                sent, f"it has said {IN_VAIN} times that it is the wrong one for {what}, and nobody asked who is"
            )

    def _led(self, sent: _Sent, place: Place, data: Any) -> None:
        """What an answer says of who leads a partition: not the one that was asked, and perhaps who does (KIP-951)."""
        if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._refuse(sent, "Metadata", place)
            self._refused.pop((sent.client, data.current_leader.leader_id, place), None)
            hint = data.current_leader
            if hint.leader_id >= 0:
                self._is_news(sent.client, place, hint.leader_epoch, hint.leader_id)
                self._wants_s.pop(sent.client, None)
                return
            _, leader = self._told.get((sent.client, place), (-1, -1))
            is_free = sent.name == "Produce" and sent.message.transactional_id is None
            if is_free and leader == sent.node and sent.client in self._news_s and not self._is_asking(sent.client):
                due_s = max(self._news_s[sent.client] + BACKOFF_S * SPREAD, self._clock())
                self._wants_s.setdefault(sent.client, due_s)

    def _is_asking(self, client: Hashable) -> bool:
        """Whether a request for metadata is on its way."""
        return any(
            each.name == "Metadata" and each.client == client for sent in self._sent.values() for each in sent.values()
        )

    def _is_news(self, client: Hashable, place: Place, epoch: int, leader: int) -> bool:
        if epoch <= self._told.get((client, place), (-1, -1))[0]:
            return False
        self._told[client, place] = epoch, leader
        return True

    # --- what it is told

    def sent(self, connection: Hashable, client: Hashable, node: int, frame: bytes) -> None:
        """A client has given a request, without its size, to a connection."""
        key, version, correlation_id = _HEAD.unpack_from(frame)
        its = self._kinds[key]
        kind = its.request_class
        message: Any = None
        if its.name in _READ:
            header = protocol.RequestHeader.plan(2 if version >= kind.flexible_from else 1)
            _, used = header.decode_prefix(frame)
            message, _ = kind.plan(version).decode_prefix(memoryview(frame)[used:])
        sent = _Sent(next(self._numbers), its.name, client, node, version, message)
        self._sent.setdefault(connection, {})[correlation_id] = sent
        due_s = self._wants_s.pop(client, None) if sent.name == "Metadata" else None
        late_s = 0.0 if due_s is None else self._clock() - due_s
        if due_s is not None and late_s > LATE_S and self._calm_since() < self._news_s.get(client, -1.0):
            self._wrong(sent, f"it was to be asked {late_s:.3f} s ago, after news in which no leader was found")
        if sent.name == "Produce":
            self._produces(sent)
        elif sent.name == "Fetch":
            self._fetches(sent)
        elif sent.name == "EndTxn":
            self._ends(sent)
        if sent.name in _COORDINATED:
            for who in _coordinated(sent):
                self._asks(sent, who)
        if sent.name in _TRANSACTIONAL:
            self._goes_on(sent, *_producer(sent))

    def answered(self, connection: Hashable, correlation_id: int, answer: Any) -> None:
        """An answer has come to the client."""
        sent = self._sent.get(connection, {}).pop(correlation_id, None)
        if sent is None:
            return
        if sent.name == "Produce":
            self._produced(sent, answer)
        elif sent.name == "Fetch":
            self._fetched(sent, answer)
        elif sent.name in ("Metadata", "FindCoordinator"):
            self._looked_up[sent.client, sent.name] = next(self._numbers)
            if sent.name == "Metadata":
                self._learns(sent.client, answer)
            kind = tuple if sent.name == "Metadata" else str
            for each in [one for one in self._refused if one[0] == sent.client and isinstance(one[2], kind)]:
                del self._refused[each]
        if sent.name in _COORDINATED and ErrorCode.NOT_COORDINATOR in _codes(answer):
            for who in _coordinated(sent):
                self._refuse(sent, "FindCoordinator", who)
        if sent.name == "AddPartitionsToTxn":
            self._adds(sent, answer)
        elif sent.name == "EndTxn" and answer.error_code == ErrorCode.NONE:
            self._has_ended(sent)
        elif sent.name == "OffsetFetch":  # whoever begins with a partition anew knows nothing of it any more
            for place in [place for client, place in self._epochs if client == sent.client]:
                del self._epochs[sent.client, place]
        elif sent.name in _SEARCHES:
            self._searched[sent.client] = next(self._numbers)

    def _learns(self, client: Hashable, answer: Any) -> None:
        """A client is told who leads."""
        news = False
        for topic in answer.topics:
            for part in topic.partitions:
                # What it was told by the topic's name it knows by its id, and the other way round.
                places = [(name, part.partition_index) for name in (topic.name, topic.topic_id)]
                told = [self._is_news(client, place, part.leader_epoch, part.leader_id) for place in places]
                news |= all(told)
        self._news_s.pop(client, None)
        if news:
            self._news_s[client] = self._clock()
            if self._waits_for_leader(client):
                self._wants_s.setdefault(client, self._clock() + BACKOFF_S * SPREAD)

    def _waits_for_leader(self, client: Hashable) -> bool:
        """Whether a client has batches to send again to a partition that has no leader, for what it was told."""
        return any(
            self._told.get((client, place), (-1, 0))[1] < 0 and any(not its.in_flight for its in flow.open.values())
            for (producer_id, _, place), flow in self._flows.items()
            if self._owners.get(producer_id) == client
        )

    def closed(self, connection: Hashable) -> None:
        """A connection has ended, for the client."""
        for sent in self._sent.pop(connection, {}).values():
            self._comes_back(sent)
            if sent.name in _TRANSACTIONAL:
                producer_id, epoch = _producer(sent)
                self._unanswered[producer_id] = epoch

    def _comes_back(self, sent: _Sent) -> None:
        """There was no answer for its batches, or for those of them that are left."""
        for flow, first in sent.batches.values():
            if first in flow.open:
                its = flow.open[first]
                its.in_flight, its.maybe_stored = False, True
                its.back, its.refused_s = next(self._numbers), -1.0

    # --- batches

    def _produces(self, sent: _Sent) -> None:
        for place, data in _parts(sent.message.topic_data, "partition_data", "index"):
            self._asks(sent, place)
            header = read_header(data.records)
            if header.producer_id < 0:
                continue
            needs_adding = header.is_transactional and sent.version < _FIRST_WITH_IMPLICIT_PARTITIONS
            if needs_adding and place not in self._added.get(header.producer_id, ()):
                self._wrong(sent, f"{place} was not added to the transaction of producer {header.producer_id}")
            flow = self._flows.setdefault((header.producer_id, header.producer_epoch, place), _Flow())
            flow.searched = self._searched.get(sent.client, -1)
            if not header.is_transactional:
                self._owners[header.producer_id] = sent.client
            if header.is_transactional:
                self._goes_on(sent, header.producer_id, header.producer_epoch)
            old = self._refused_epochs.get((header.producer_id, place))
            problem = self._late(flow, header) or _send(flow, header)
            if old is not None and header.producer_epoch > old:
                problem = f"epoch {header.producer_epoch} follows, where one after {old} is known: it needs another id"
            if problem:
                self._wrong(sent, f"{place}, producer {header.producer_id}: {problem}")
            sent.batches[place] = flow, header.base_sequence

    def _produced(self, sent: _Sent, answer: Any) -> None:
        for place, data in _parts(answer.responses, "partition_responses", "index"):
            self._led(sent, place, data)
            flow, first = sent.batches.pop(place, (None, 0))
            if flow is None or first not in flow.open:
                continue
            if data.error_code in _TAKEN:
                flow.is_known = True
                del flow.open[first]
            else:
                its = flow.open[first]
                its.in_flight, its.back = False, next(self._numbers)
                its.maybe_stored |= data.error_code in _UNKNOWN
                its.is_out_of_order = data.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                its.refusals += 1
                is_counted = data.error_code == ErrorCode.NOT_ENOUGH_REPLICAS and sent.message.transactional_id is None
                its.refused_s = self._clock() if is_counted and not its.maybe_stored else -1.0
            if data.error_code == ErrorCode.INVALID_PRODUCER_EPOCH and sent.message.transactional_id is None:
                for number, epoch, where in self._flows:
                    if self._flows[number, epoch, where] is flow:
                        self._refused_epochs[number, place] = max(epoch, self._refused_epochs.get((number, place), -1))
        self._comes_back(sent)

    def _late(self, flow: _Flow, header: BatchHeader) -> str:
        """What is wrong with when a batch goes again that was refused, as too few replicas were in sync."""
        its = flow.open.get(header.base_sequence)
        if its is None or its.refused_s < 0 or self._calm_since() >= its.refused_s:
            return ""
        waited_s = self._clock() - its.refused_s
        backoff_s = min(BACKOFF_S * 2 ** (its.refusals - 1), LONGEST_BACKOFF_S) * SPREAD
        if waited_s <= backoff_s + LATE_S:
            return ""
        first = header.base_sequence
        return f"batch {first} goes again {waited_s:.3f} s after it was refused, where {backoff_s:g} s at most are due"

    # --- transactions

    def _has_ended(self, sent: _Sent) -> None:
        """A transaction has ended; the next may have to have another epoch."""
        producer_id, epoch = _producer(sent)
        if self._unanswered.pop(producer_id, -1) == epoch:
            self._ended[producer_id] = epoch

    def _goes_on(self, sent: _Sent, producer_id: int, epoch: int) -> None:
        """A request of a transaction."""
        if self._ended.get(producer_id) == epoch:
            self._wrong(
                sent, f"epoch {epoch} of producer {producer_id} goes on, and what was not answered may come late"
            )

    def _adds(self, sent: _Sent, answer: Any) -> None:
        producer_id = sent.message.v3_and_below_producer_id
        for topic in answer.results_by_topic_v3_and_below:
            for its in topic.results_by_partition:
                if its.partition_error_code == ErrorCode.NONE:
                    self._added.setdefault(producer_id, set()).add((topic.name, its.partition_index))

    def _ends(self, sent: _Sent) -> None:
        producer_id = sent.message.producer_id
        self._added.pop(producer_id, None)
        for (number, _, place), flow in self._flows.items():
            if number == producer_id and any(batch.in_flight for batch in flow.open.values()):
                self._wrong(sent, f"batches of producer {number} to {place} are in flight")

    # --- fetching

    def _fetches(self, sent: _Sent) -> None:
        for place, data in _parts(sent.message.topics, "partitions", "partition"):
            self._asks(sent, place)
            epoch = data.current_leader_epoch
            last = self._epochs.get((sent.client, place), -1)
            if 0 <= epoch < last:
                self._wrong(sent, f"leader epoch {epoch} of {place}, after {last}")
            self._epochs[sent.client, place] = max(epoch, last)

    def _fetched(self, sent: _Sent, answer: Any) -> None:
        if answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            self._wrong(sent, f"epoch {sent.message.session_epoch} of session {sent.message.session_id} was wrong")
        for place, data in _parts(answer.responses, "partitions", "partition_index"):
            self._led(sent, place, data)


def _send(flow: _Flow, header: BatchHeader) -> str:
    """A batch is sent, for the first time or again. Returns what is wrong with that, if anything."""
    first = header.base_sequence
    known = flow.open.get(first)
    # One that may be in the log may have been found there, by who looked for it, and is acknowledged then.
    searched = flow.searched
    earlier = [batch for number, batch in flow.open.items() if number < first and not batch.may_be_found(searched)]
    problem = ""
    if known is not None and known.in_flight:
        problem = f"batch {first} is in flight already"
    elif known is not None and known.crc != header.crc and known.maybe_stored:
        problem = f"the number {first} is given to another batch, and the one that had it may be in the log"
    elif known is None and flow.next not in (None, first):
        problem = f"batch {first} is sent where {flow.next} is due"
    elif any(not batch.in_flight for batch in earlier):
        problem = f"batch {first} overtakes one that waits to be sent again"
    elif earlier and not flow.is_known:
        problem = f"batch {first} is sent before the first one was acknowledged"
    elif earlier and flow.sent - earlier[0].ordinal >= REMEMBERED and known is None:
        problem = f"batch {first} is sent when an answer to the fifth before it, or to an earlier one, is not there yet"
    if known is None or known.crc != header.crc:
        # Those behind it get other numbers, if this is another batch.
        flow.open = {number: batch for number, batch in flow.open.items() if number < first or batch.in_flight}
        flow.next = first + header.count
        flow.sent = flow.sent if known is None else known.ordinal
        flow.open[first] = _Batch(flow.sent, header.crc)
        flow.sent += 1
    else:
        known.in_flight = True
    return problem


def _parts(topics: Any, partitions: str, number: str) -> Iterator[tuple[Place, Any]]:
    """The partitions of a message."""
    for topic in topics:
        name = getattr(topic, "name", "") or getattr(topic, "topic", "") or topic.topic_id
        for data in getattr(topic, partitions):
            yield (name, getattr(data, number)), data


def _coordinated(sent: _Sent) -> list[str]:
    """The groups or transactional ids of a request."""
    if sent.name == "OffsetFetch" and sent.message.groups:
        return [f"group {group.group_id}" for group in sent.message.groups]
    if sent.name == "AddPartitionsToTxn":
        return [f"transactions of {sent.message.v3_and_below_transactional_id}"]
    if sent.name in ("EndTxn", "InitProducerId", "AddOffsetsToTxn"):
        identity = sent.message.transactional_id
        return [] if identity is None else [f"transactions of {identity}"]  # without one any broker does
    return [f"group {sent.message.group_id}"]


def _producer(sent: _Sent) -> tuple[int, int]:
    """The producer id and epoch of a transactional request."""
    message = sent.message
    if sent.name == "AddPartitionsToTxn":
        return message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
    return message.producer_id, message.producer_epoch


def _codes(answer: Any) -> set[int]:
    """All error codes of a message."""
    found: set[int] = set()
    waiting = [answer]
    while waiting:
        each = waiting.pop()
        for its in getattr(each, "__fields__", ()):
            value = getattr(each, its.name)
            if its.name.endswith("error_code"):
                found.add(value)
            elif isinstance(value, list):
                waiting += [one for one in value if hasattr(one, "__fields__")]
    return found
