"""The same valid requests for two clusters, and the differences of their responses.

A request is made once, by the fuzzer's generator, from topics that both clusters have; only topic ids are exchanged for
each cluster's own. A response becomes a tree of plain values in which all that may differ by right is left out or has a
name that is the same everywhere. A difference is reported by its place, as in `topics[].error_code`.
"""

from __future__ import annotations

import copy
import random
import struct
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafwire import protocol
from kafwire.broker.dispatch import served
from kafwire.errors import KafkaConnectionError, KafkaTimeoutError, ProtocolError
from kafwire.protocol.spec import Struct
from kafwire.testing.fuzzer.campaign import resolve
from kafwire.testing.fuzzer.connection import TargetConnection
from kafwire.testing.fuzzer.generate import FRESH, Generator
from kafwire.testing.fuzzer.safety import PREFIX, request_class
from kafwire.testing.fuzzer.world import Partition, Topic, World
from tests.support.deadlines import until

NO_ID = uuid.UUID(int=0)
RECORDS = 4  # in each partition before anything is asked
TOPICS = {f"{PREFIX}one": 1, f"{PREFIX}three": 3}
STAND_INS = {name: uuid.UUID(int=0xD1FF + number) for number, name in enumerate(TOPICS)}
# Of a `KafkaCluster`: the records of the generator are old.
CONFIGS = {"log.retention.ms": -1, "group.streams.initial.rebalance.delay.ms": 0}
PATIENCE = 4.0

# APIs that are never sent: they change what other tests of the cluster see, or wait for other members.
LEFT_OUT = {
    "SaslAuthenticate": "no listener here has users",
    "SyncGroup": "its response waits for a leader; tests/support/group/walk.py",
    "AlterUserScramCredentials": "users are there for all of the cluster",
    "AlterClientQuotas": "quotas are there for all of the cluster",
    "AddRaftVoter": "a listener without a name ends a real node; tests/integration/admin",
    "DescribeQuorum": "offsets, times and endpoints are a cluster's own; tests/integration/admin",
    "GetTelemetrySubscriptions": "offered only with subscriptions; tests/integration/client/test_metrics_push.py",
    "PushTelemetry": "offered only with subscriptions; tests/integration/client/test_metrics_push.py",
    "UnregisterBroker": "the cluster loses its broker; tests/integration/admin",
    "UpdateFeatures": "levels are there for all of the cluster; tests/integration/admin",
    "WriteTxnMarkers": "it writes to logs as the cluster's own brokers do; tests/scenarios",
}
VALIDATED_ONLY = {"CreateTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"}
# Fields of durations, places, identities and times: true of one cluster alone, or wording.
OWN = {
    "throttle_time_ms", "host", "port", "cluster_id", "error_message", "member_id", "client_host", "log_dir",
    "total_bytes", "usable_bytes", "size", "coordinator_epoch", "documentation", "log_append_time_ms", "last_timestamp",
    "acquisition_lock_timeout_ms", "leader", "message", "rack",
}  # fmt: skip
LISTINGS = {
    "Metadata", "ListGroups", "ListTransactions", "DescribeLogDirs", "ListConfigResources",
    "ListPartitionReassignments", "ElectLeaders", "DescribeTopicPartitions",
}  # fmt: skip
NAMES = {"name", "topic", "group_id", "transactional_id", "resource_name"}
NUMBERED = {"producer_id": 0, "session_id": 1}  # from where on they stand for one that there is


def apis() -> list[tuple[str, int]]:
    """All that is compared: APIs and their versions."""
    found = []
    for its in served().values():
        if its.name not in LEFT_OUT:
            highest = min(its.versions[1], its.request_class.max_stable_version)
            found += [(its.name, version) for version in range(its.versions[0], highest + 1)]
    return found


def drawn(api: str, version: int, seed: int) -> Any:
    """A request: the same one for the same seed."""
    rng = random.Random(f"{api} {version} {seed}")
    topics = {
        name: Topic(name, STAND_INS[name], {index: Partition(1, 0, RECORDS) for index in range(count)})
        for name, count in TOPICS.items()
    }
    generator = Generator(rng, World(node_id=1, brokers=[1], topics=topics), api, version)
    message: Any = generator.request()
    if api in VALIDATED_ONLY and version >= {"CreateTopics": 1}.get(api, 0):
        message.validate_only = True
    if api == "JoinGroup":
        message.session_timeout_ms = message.rebalance_timeout_ms = 600_000
    if api == "DescribeShareGroupOffsets":  # a real broker looks 30 s for partitions that do not exist
        for topic in [each for group in message.groups for each in group.topics or ()]:
            topic.partitions = [index for index in topic.partitions if 0 <= index < TOPICS.get(topic.topic_name, 0)]
    if api == "ListTransactions":
        message.producer_id_filters = [1 << 40 for _ in message.producer_id_filters]
    if api == "DescribeTopicPartitions" and not message.topics:
        message.response_partition_limit, message.cursor = 2000, None
    if api == "AddPartitionsToTxn" and version >= 4 and not message.transactions:
        return drawn(api, version, seed + 1_000_000)  # a real broker never responds to it
    if api == "DeleteRecords":  # deleted records are gone here, and there when their segment is
        for topic in message.topics:
            for part in topic.partitions:
                part.offset = rng.choice((0, 1 << 40))
    if api == "Produce":
        message.acks = rng.choice((1, -1))
    if api == "Metadata":
        message.allow_auto_topic_creation = False
    return message


class Side:
    """One of the clusters, by the address of its only broker; `token` is in the names of all that is made."""

    def __init__(self, bootstrap: str, token: str) -> None:
        self.target = resolve(bootstrap, allow_remote=False, timeout=PATIENCE)
        self.own = f"kafwire-diff-{token}-"
        self.ids: dict[uuid.UUID, uuid.UUID] = {}
        self._api = self._fresh = ""
        self._connection: TargetConnection | None = None

    def prepare(self) -> None:
        """Make the topics and their records, and wait until groups and transactions are coordinated."""
        kind = protocol.CreateTopicsRequest
        wanted = [
            kind.CreatableTopic(name=self._named(name), num_partitions=count, replication_factor=1)
            for name, count in TOPICS.items()
        ]
        response = self.ask(kind(topics=wanted, timeout_ms=10_000), 7)
        for made in response.topics:
            assert not made.error_code, made
            self.ids[STAND_INS[self._renamed(made.name)]] = made.topic_id
        for key_type in (0, 1):
            find = protocol.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[self.own])
            until(partial(self._finds, find))
        transaction = protocol.InitProducerIdRequest(transactional_id=self.own, transaction_timeout_ms=60_000)
        until(lambda: not self.ask(transaction, 4).error_code)  # the coordinator may be loading yet
        from kafwire.records import encode_batch

        produce = protocol.ProduceRequest
        for name, count in TOPICS.items():
            for index in range(count):
                values = [(None, b"%d" % number, 1_700_000_000_000 + number, None) for number in range(RECORDS)]
                part = produce.PartitionProduceData(index=index, records=encode_batch(values))
                topic = produce.TopicProduceData(name=self._named(name), partition_data=[part])
                request = produce(acks=-1, timeout_ms=5000, topic_data=[topic])
                until(partial(self._takes, request))

    def _finds(self, find: Any) -> bool:
        return not self.ask(find, 4).coordinators[0].error_code

    def _takes(self, produce: Any) -> bool:
        return not self.ask(produce, 9).responses[0].partition_responses[0].error_code

    def ask(self, message: Any, version: int) -> Any:
        """The response, or the end of the connection in words."""
        if self._connection is None:
            self._connection = TargetConnection(self.target)
        try:
            return self._connection.call(message, version)
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
            self.close()
            return "closed" if isinstance(error, KafkaConnectionError) else type(error).__name__

    def response_to(self, message: Any, version: int, fresh: str) -> Any:
        """The comparable part of the response to a request as it was drawn; `fresh` is in the names of its groups."""
        mine = copy.deepcopy(message)
        self._api, self._fresh = type(message).__name__.removesuffix("Request"), fresh
        self._replace(mine, self._named, lambda value: self.ids.get(value, value))
        return self._plain(self.ask(mine, version), version)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _named(self, text: str) -> str:
        return text.replace(PREFIX, self.own).replace(FRESH, self._fresh)

    def _renamed(self, text: str) -> str:
        return text.replace(self.own, PREFIX)

    def _replace(self, message: Any, text: Callable[[str], str], ident: Callable[[uuid.UUID], uuid.UUID]) -> None:
        def changed(value: Any) -> Any:
            if isinstance(value, Struct):
                self._replace(value, text, ident)
            elif isinstance(value, list):
                return [changed(each) for each in value]
            elif isinstance(value, str):
                return text(value)
            elif isinstance(value, uuid.UUID):
                return ident(value)
            elif isinstance(value, bytes) and PREFIX.encode() in value:
                return _with_names(value, text)
            return value

        for field in message.__fields__:
            setattr(message, field.name, changed(getattr(message, field.name)))

    def _plain(self, value: Any, version: int, name: str = "") -> Any:
        if isinstance(value, Struct):
            kind: Any = type(value)
            fields = [each for each in kind.__fields__ if version in each.versions and each.name not in OWN]
            return {each.name: self._plain(getattr(value, each.name), version, each.name) for each in fields}
        if isinstance(value, list):
            plain = [self._plain(each, version, name) for each in value]
            return sorted(filter(self._is_ours, plain), key=repr)
        if isinstance(value, str):
            return self._renamed(value)
        if isinstance(value, uuid.UUID):
            known = {mine: stand_in for stand_in, mine in self.ids.items()}
            return str(known.get(value, value)) if value in known or value.int < 1 << 64 or value.int == 0 else "id"
        if name in NUMBERED and value >= NUMBERED[name]:
            return name
        if isinstance(value, (bytes, memoryview)):
            return _without_epochs(bytes(value)) if name == "records" else self._renamed(bytes(value).decode("latin-1"))
        return value

    def _is_ours(self, element: Any) -> bool:
        """True if a list of all objects has this because of us, not because of other tests of the cluster."""
        if not isinstance(element, dict) or self._api not in LISTINGS:
            return True
        return all(element[key].startswith(PREFIX) for key in NAMES & element.keys() if element[key])


def _with_names(value: bytes, text: Callable[[str], str]) -> bytes:
    """Metadata of a group's protocol, in which topics have other names."""
    version, rest = value[:2], value[2:]
    kind = protocol.ConsumerProtocolSubscription
    message = kind.decode(rest, int.from_bytes(version))
    message.topics = [text(each) for each in message.topics]
    return version + bytes(message.encode(int.from_bytes(version)))


def _without_epochs(data: bytes) -> str:
    """Record batches, whose leader epochs and times of appending are the cluster's own."""
    shown, at = bytearray(data), 0
    while at + 16 <= len(shown):
        struct.pack_into(">i", shown, at + 12, 0)
        at += 12 + struct.unpack_from(">i", shown, at + 8)[0]
    return shown.hex()


def differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two trees differ: the path without indexes, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one:
            yield from differences(one[key], other.get(key), f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{path}[]", one, other
        else:
            for mine, its in zip(one, other, strict=True):
                yield from differences(mine, its, f"{path}[]")
    elif one != other:
        yield path, one, other


def compared(real: Side, own: Side, api: str, version: int, seed: int) -> list[tuple[str, Any, Any]]:
    """The differences of the responses to a request."""
    message = drawn(api, version, seed)
    fresh = f"{api}-{version}-{seed}"
    return list(differences(real.response_to(message, version, fresh), own.response_to(message, version, fresh)))


assert all(request_class(api) for api in LEFT_OUT)
