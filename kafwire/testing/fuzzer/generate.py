"""Valid requests of any API and version, from a random source and the survey of the server.

The declarations have the fields. `_STRINGS`, `_NUMBERS` and `_OTHERS` have sensible values by a field's name; `_FINISH`
has the other needs of an API. A field in no table gets a plain value of its type.
"""

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafwire.protocol import (
    ConsumerGroupHeartbeatRequest,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CreateTopicsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ProduceRequest,
)
from kafwire.protocol.spec import Field, Request, Struct
from kafwire.records import encode_batch
from kafwire.testing.fuzzer.old_message import old_message
from kafwire.testing.fuzzer.safety import CLASS_OF, PREFIX, request_class
from kafwire.testing.fuzzer.world import Topic, World

FRESH = "~" * 8
"""A placeholder for eight characters that are drawn again each time a case is sent, so that groups never meet."""

GROUP = f"{PREFIX}{FRESH}"
TRANSACTION = f"{PREFIX}x-{FRESH}"
UNKNOWN_TOPIC = f"{PREFIX}no-such-topic"
SCRATCH = [f"{PREFIX}scratch-{index}" for index in range(4)]
_ON_SCRATCH = {"CreateTopics", "DeleteTopics", "CreatePartitions", "AlterPartitionReassignments"}
_TOPIC_FIELDS = {"topic", "topic_name"}
_TOPIC_LISTS = {"topic_names", "subscribed_topic_names"}
_NO_TOPIC = Topic(UNKNOWN_TOPIC, UUID(int=0x5EED), {})


class Generator:
    """Creates requests of one version of an API. Its choices depend only on `rng` and `world`."""

    def __init__(self, rng: random.Random, world: World, api: str, version: int) -> None:
        self.rng = rng
        self.world = world
        self.api = api
        self.version = version
        self.topic = self._some_topic()
        self.partition = 0
        self.step_topics: list[Topic] = []

    def request(self) -> Request[Any]:
        """Return a valid request."""
        message = self.struct(request_class(self.api))
        finish = _FINISH.get(self.api)
        if finish is not None:
            finish(self, message)
        assert isinstance(message, Request)
        return message

    # -- from declarations to values

    def struct(self, cls: type[Struct]) -> Struct:
        """Return an instance with every field of the version set."""
        values = {}
        for field in cls.__fields__:
            if self.version in field.versions:
                values[field.name] = self.field(field, cls)
        return cls(**values)

    def field(self, field: Field, owner: type[Struct]) -> Any:
        """Return a value for `field` of `owner`."""
        # Where null is the default, it means "all" or "none given". Elsewhere `oddities` uses it.
        default_is_null = field.default is None and not field.fresh and field.kind != "records"
        if default_is_null and self.version in field.nullable and self.rng.random() < 0.25:
            return None
        if self.version in field.nullable and self.rng.random() < 0.15 and field.array:
            return None
        if field.array:
            return self._array(field)
        return self._value(field, owner)

    def _array(self, field: Field) -> list[Any]:
        count = self.rng.choice((0, 1, 1, 1, 2, 2, 3))
        if field.struct is not None:
            if _topic_like(field.struct):
                return [self._about(topic, field.struct) for topic in self._some_topics(count)]
            if _partition_like(field.struct):
                return [self._in_partition(index, field.struct) for index in self._some_partitions(count)]
            return [self.struct(field.struct) for _ in range(min(count, 2))]
        if field.name in ("partitions", "partition_indexes"):
            return list(self._some_partitions(count))
        if field.name in _TOPIC_LISTS:
            return [topic.name for topic in self._some_topics(count)]
        if field.kind in ("string", "uuid") or field.name in _NUMBERS:
            found: list[Any] = []
            for _ in range(count):
                value = self._value(field, None)
                if value not in found:
                    found.append(value)
            return found
        return [self._value(field, None) for _ in range(count)]

    def _about(self, topic: Topic, cls: type[Struct]) -> Struct:
        self.topic = topic
        return self.struct(cls)

    def _in_partition(self, index: int, cls: type[Struct]) -> Struct:
        self.partition = index
        return self.struct(cls)

    def _value(self, field: Field, owner: type[Struct] | None) -> Any:
        name, rng = field.name, self.rng
        if field.struct is not None:
            return self.struct(field.struct)
        if field.kind == "string":
            if name in _TOPIC_FIELDS or (owner is not None and name == "name" and _topic_like(owner)):
                return self.topic.name
            make = _STRINGS.get((self.api, name)) or _STRINGS.get(("", name))
            return make(self) if make is not None else rng.choice(("", "fuzz", "a-string", "\u00e9\u4e16"))
        if field.kind in ("bytes", "records", "uuid", "bool"):
            other = _OTHERS.get((self.api, name)) or _OTHERS.get(("", name)) or _OTHERS["", field.kind]
            return other(self)
        number = _NUMBERS.get(f"{self.api}.{name}") or _NUMBERS.get(name)
        if number is not None:
            return number(self)
        if field.kind == "float64":
            return rng.choice((0.0, 1.0, 1e9))
        return rng.choice((field.default if isinstance(field.default, int) else 0, 0, 1, rng.randrange(100)))

    # -- topics, partitions and offsets of the server

    def _some_topic(self) -> Topic:
        return self.rng.choice(list(self.world.topics.values()) or [_NO_TOPIC])

    def _some_topics(self, count: int) -> list[Topic]:
        if self.api in _ON_SCRATCH:
            names = self.rng.sample(SCRATCH, min(count, len(SCRATCH)))
            return [Topic(name, UUID(int=0), {}) for name in names]
        known = list(self.world.topics.values())
        found = self.rng.sample(known, min(count, len(known)))
        if self.rng.random() < 0.15:
            found.append(_NO_TOPIC)
        return found

    def _some_partitions(self, count: int) -> list[int]:
        known = list(self.topic.partitions) or [0]
        found = self.rng.sample(known, min(count, len(known)))
        if self.rng.random() < 0.1:
            found.append(max(known) + 5)
        return found

    def offset(self) -> int:
        """Return an offset of the current partition, mostly an existing one."""
        partition = self.topic.partitions.get(self.partition)
        if partition is None:
            return 0
        inside = self.rng.randint(partition.start, max(partition.start, partition.end))
        return self.rng.choice((partition.start, partition.end, inside, partition.end + 1))

    def batch(self) -> bytes:
        """Return a record batch as a producer makes it."""
        rng = self.rng
        records = [
            (
                rng.choice((None, b"", b"key")),
                rng.choice((None, b"", b"value", rng.randbytes(rng.randrange(200)))),
                rng.choice((None, 1_700_000_000_000)),
                rng.choice((None, [("h", b"v")], [("", None), ("h", b"")])),
            )
            for _ in range(rng.choice((1, 1, 2, 5)))
        ]
        return encode_batch(records, compression=rng.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")))


def _topic_like(cls: type[Struct]) -> bool:
    fields = {field.name for field in cls.__fields__}
    return (
        bool(fields & _TOPIC_FIELDS)
        or "topic_id" in fields
        or ("name" in fields and ("Topic" in cls.__name__ or "StateData" in cls.__name__))
    )


def _partition_like(cls: type[Struct]) -> bool:
    return bool({field.name for field in cls.__fields__} & {"partition", "partition_index", "index"})


Make = Callable[[Generator], Any]


def _one_of(*values: Any) -> Make:
    return lambda generator: generator.rng.choice(values)


_STRINGS: dict[tuple[str, str], Make] = {
    ("", "group_id"): _one_of(GROUP),
    ("", "groups"): _one_of(GROUP, f"{GROUP}-b"),
    ("", "group_ids"): _one_of(GROUP, f"{GROUP}-b"),
    ("", "groups_names"): _one_of(GROUP, f"{GROUP}-b"),
    ("FindCoordinator", "key"): _one_of(GROUP, TRANSACTION),
    ("FindCoordinator", "coordinator_keys"): _one_of(GROUP, TRANSACTION, f"{GROUP}-b"),
    ("", "transactional_id"): _one_of(TRANSACTION),
    ("", "v3_and_below_transactional_id"): _one_of(TRANSACTION),
    ("", "transactional_ids"): _one_of(TRANSACTION, f"{TRANSACTION}-b"),
    ("", "member_id"): _one_of("", f"member-{FRESH}"),
    ("", "group_instance_id"): _one_of(f"instance-{FRESH}"),
    ("", "instance_id"): _one_of(f"instance-{FRESH}"),
    ("", "protocol_type"): _one_of("consumer"),
    ("", "protocol_name"): _one_of("range"),
    ("JoinGroup", "name"): _one_of("range"),
    ("", "mechanism"): _one_of("PLAIN", "SCRAM-SHA-256", "GSSAPI"),
    ("", "client_software_name"): _one_of("kafwire-fuzz"),
    ("", "client_software_version"): _one_of("1.0", "0"),
    ("", "resource_name"): lambda generator: generator.topic.name,
    ("AlterConfigs", "resource_name"): _one_of(*SCRATCH),
    ("IncrementalAlterConfigs", "resource_name"): _one_of(*SCRATCH),
    ("", "resource_name_filter"): lambda generator: generator.topic.name,
    ("", "principal"): _one_of("User:kafwire-fuzz"),
    ("", "principal_filter"): _one_of("User:kafwire-fuzz"),
    ("", "host"): _one_of("*", "127.0.0.1"),
    ("", "host_filter"): _one_of("*"),
    ("", "configuration_keys"): _one_of("retention.ms", "cleanup.policy", "no.such.key"),
    ("CreateTopics", "name"): _one_of("retention.ms", "segment.bytes"),
    ("CreateTopics", "value"): _one_of("86400000"),
    ("AlterConfigs", "name"): _one_of("retention.ms"),
    ("AlterConfigs", "value"): _one_of("86400000"),
    ("IncrementalAlterConfigs", "name"): _one_of("retention.ms", "cleanup.policy"),
    ("IncrementalAlterConfigs", "value"): _one_of("86400000", "delete"),
    ("", "entity_type"): _one_of("client-id", "user"),
    # Never this connection's own client id: a quota would slow the fuzzer down.
    ("", "entity_name"): _one_of("kafwire-fuzz-quota"),
    ("AlterClientQuotas", "key"): _one_of("producer_byte_rate", "consumer_byte_rate"),
    ("", "feature"): _one_of("kafwire.fuzz"),
    ("", "cluster_id"): lambda generator: generator.world.cluster_id or "",
    ("", "states_filter"): _one_of("Stable", "Empty", "PreparingRebalance"),
    ("", "types_filter"): _one_of("classic", "consumer", "share"),
    ("", "state_filters"): _one_of("Ongoing", "Empty"),
    ("", "transactional_id_pattern"): _one_of("kafwire.*", ""),
    ("", "server_assignor"): _one_of("uniform", "range"),
    ("", "subscribed_topic_regex"): _one_of("kafwire-fuzz-.*", ""),
    ("", "path"): _one_of("no-such-directory"),
    ("", "principal_type"): _one_of("User"),
    ("", "owner_principal_type"): _one_of("User"),
    ("", "subtopology_id"): _one_of("0"),
}

_NUMBERS: dict[str, Make] = {
    "partition": lambda generator: generator.partition,
    "partition_index": lambda generator: generator.partition,
    "index": lambda generator: generator.partition,
    "fetch_offset": Generator.offset,
    "committed_offset": Generator.offset,
    "DeleteRecords.offset": lambda generator: generator.rng.choice((0, -1, generator.offset())),
    "start_offset": Generator.offset,
    "first_offset": Generator.offset,
    "last_offset": Generator.offset,
    "timestamp": _one_of(-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
    "current_leader_epoch": _one_of(-1, -1, 0),
    "leader_epoch": _one_of(-1, 0, 1),
    "committed_leader_epoch": _one_of(-1, 0),
    "last_fetched_epoch": _one_of(-1, -1, 0),
    "log_start_offset": _one_of(-1),
    "replica_id": _one_of(-1),
    "replica_epoch": _one_of(-1),
    "max_wait_ms": _one_of(0, 1, 20),
    "min_bytes": _one_of(0, 1),
    "max_bytes": _one_of(1 << 20, 1 << 10, 0x7FFFFFFF),
    "partition_max_bytes": _one_of(1 << 20, 1, 0),
    "max_records": _one_of(1, 10, 500),
    "batch_size": _one_of(1, 10, 500),
    "isolation_level": _one_of(0, 1),
    "session_id": _one_of(0),
    "session_epoch": _one_of(-1, 0),
    "session_timeout_ms": _one_of(6000, 10000),
    "rebalance_timeout_ms": _one_of(500, 1000),
    "timeout_ms": _one_of(500, 1000, 3000),
    "transaction_timeout_ms": _one_of(1000, 60000),
    "acks": _one_of(-1, -1, 1, 1, 0),
    "key_type": _one_of(0, 1),
    "num_partitions": _one_of(1, 2, -1),
    "replication_factor": _one_of(1, -1),
    "count": _one_of(2, 3, 4),
    "generation_id": _one_of(-1, 0, 1),
    "generation_id_or_member_epoch": _one_of(-1, 0),
    "member_epoch": _one_of(0, -1, 1),
    "retention_time_ms": _one_of(-1),
    "resource_type": _one_of(2, 4),
    "resource_type_filter": _one_of(1, 2, 3, 4),
    "resource_types": _one_of(2, 4, 16, 32),
    "resource_pattern_type": _one_of(3, 4),
    "pattern_type_filter": _one_of(1, 2, 3, 4),
    "operation": _one_of(2, 3, 4),
    "permission_type": _one_of(2, 3),
    "config_operation": _one_of(0, 1),
    "producer_id": _one_of(-1, 0, 1000),
    "producer_epoch": _one_of(-1, 0),
    "InitProducerId.producer_id": _one_of(-1),
    "InitProducerId.producer_epoch": _one_of(-1),
    "producer_id_filters": _one_of(0, 1000),
    "duration_filter": _one_of(-1, 0, 1000),
    "election_type": _one_of(0, 1),
    "broker_id": lambda generator: max(generator.world.brokers, default=0) + 50,
    "broker_ids": lambda generator: generator.rng.choice(generator.world.brokers or [0]),
    "replicas": lambda generator: generator.rng.choice(generator.world.brokers or [0]),
    "match_type": _one_of(0, 1, 2),
    "value": _one_of(1e9, 1e12),
    "max_lifetime_ms": _one_of(-1, 1000),
    "upgrade_type": _one_of(1, 2),
    "endpoint_type": _one_of(1),
    "response_partition_limit": _one_of(1, 2, 2000),
    "share_session_epoch": _one_of(0, -1, 1),
    "acknowledge_types": _one_of(1, 2, 3),
    "share_acquire_mode": _one_of(0, 1),
    "AlterUserScramCredentials.mechanism": _one_of(1, 2),
    "iterations": _one_of(4096, 8192),
    "compression_type": _one_of(0),
    "subscription_id": _one_of(0, 1),
}

_OTHERS: dict[tuple[str, str], Make] = {
    ("", "records"): Generator.batch,
    ("", "topic_id"): lambda generator: generator.topic.id,
    ("", "uuid"): lambda generator: UUID(int=generator.rng.getrandbits(128)),
    ("", "replica_directory_id"): _one_of(UUID(int=0)),
    ("", "bytes"): _one_of(b"", b"fuzz", b"\0" * 16),
    ("", "metadata"): lambda generator: b"\0\0" + ConsumerProtocolSubscription(topics=[generator.topic.name]).encode(0),
    ("", "assignment"): lambda _: b"\0\0" + ConsumerProtocolAssignment().encode(0),
    ("", "bool"): _one_of(False, True),
    ("CreateTopics", "validate_only"): _one_of(False, False, True),
    # A terminating push ends the client instance for good; clean-up of two-phase transactions needs operators.
    ("", "enable2_pc"): _one_of(False),
    ("", "keep_prepared_txn"): _one_of(False),
    ("", "shutdown_application"): _one_of(False),
}


# -- needs of an API beyond sensible fields


def _finish_metadata(generator: Generator, message: Any) -> None:
    if not generator.world.destructive:
        message.allow_auto_topic_creation = generator.version < MetadataRequest.ALLOWS_CREATION
        if message.allow_auto_topic_creation:
            message.topics = [] if generator.version == 0 else generator.rng.choice(([], None))
    for topic in message.topics or ():
        by_id = generator.version >= MetadataRequest.BY_TOPIC_ID and topic.topic_id.int and generator.rng.random() < 0.5
        if by_id:
            topic.name = None
        else:
            topic.topic_id = UUID(int=0)


def _finish_delete_topics(generator: Generator, message: Any) -> None:
    for topic in message.topics:
        topic.topic_id = UUID(int=0)
        if generator.rng.random() < 0.2:
            topic.name, topic.topic_id = None, UUID(int=generator.rng.getrandbits(128))


def _finish_create_topics(generator: Generator, message: Any) -> None:
    for topic in message.topics:
        topic.assignments = []
        if generator.version < CreateTopicsRequest.DEFAULTS:
            topic.num_partitions, topic.replication_factor = 1, 1


def _finish_create_partitions(_: Generator, message: Any) -> None:
    for topic in message.topics:
        topic.assignments = None


def _finish_fetch(generator: Generator, message: Any) -> None:
    if generator.version >= FetchRequest.SESSIONS:
        message.session_epoch = generator.rng.choice((-1, -1, 0))
    message.forgotten_topics_data = []
    message.cluster_id = None


def _finish_offset_fetch(_: Generator, message: Any) -> None:
    for group in message.groups:
        group.member_id, group.member_epoch = None, -1
    unique = {group.group_id: group for group in message.groups}
    message.groups = list(unique.values())


def _finish_offset_commit(_: Generator, message: Any) -> None:
    message.generation_id_or_member_epoch, message.member_id, message.group_instance_id = -1, "", None


def _finish_join(generator: Generator, message: Any) -> None:
    message.protocols = message.protocols[:1] or [generator.struct(type(message).JoinGroupRequestProtocol)]
    message.member_id = ""


def _finish_produce(generator: Generator, message: Any) -> None:
    message.transactional_id = None
    for part in (part for topic in message.topic_data for part in topic.partition_data):
        if generator.version < ProduceRequest.min_version:
            part.records = old_message(b"value", magic=generator.version // 2)
        elif generator.version < ProduceRequest.ZSTD:
            part.records = encode_batch([b"value"], compression=generator.rng.choice(("none", "gzip", "lz4")))


def _finish_find_coordinator(generator: Generator, message: Any) -> None:
    wanted = TRANSACTION if message.key_type == 1 else GROUP
    if generator.version >= FindCoordinatorRequest.KEY_LISTS:
        message.coordinator_keys = [wanted, f"{wanted}-b"][: generator.rng.choice((1, 1, 2))]
    else:
        message.key = GROUP if generator.version == 0 else wanted


def _finish_consumer_heartbeat(generator: Generator, message: Any) -> None:
    message.member_epoch = 0
    message.instance_id = None
    message.topic_partitions = []
    message.rebalance_timeout_ms = 5000
    message.subscribed_topic_names = [generator.topic.name]
    message.subscribed_topic_regex = None
    message.member_id = f"member-{FRESH}" if generator.version >= ConsumerGroupHeartbeatRequest.OWN_ID else ""


def _finish_share_heartbeat(generator: Generator, message: Any) -> None:
    message.member_epoch = 0
    message.member_id = f"member-{FRESH}"
    message.subscribed_topic_names = [generator.topic.name]


def _finish_streams_heartbeat(generator: Generator, message: Any) -> None:
    if message.topology is not None:
        for part in message.topology.subtopologies:
            part.source_topics, part.source_topic_regex, part.copartition_groups = [generator.topic.name], [], []
            part.state_changelog_topics, part.repartition_sink_topics, part.repartition_source_topics = [], [], []
        message.topology.subtopologies = message.topology.subtopologies[:1]
        message.active_tasks, message.standby_tasks, message.warmup_tasks = [], [], []
        message.member_epoch = 0
    message.member_id = f"member-{FRESH}"


def _finish_add_partitions(_: Generator, message: Any) -> None:
    unique = {transaction.transactional_id: transaction for transaction in message.transactions}
    message.transactions = list(unique.values())


def _finish_quotas(generator: Generator, message: Any) -> None:
    for component in message.components:
        component.match = None if component.match_type != 0 else "kafwire-fuzz-quota"
    del message.components[1:]
    del generator


def _finish_alter_quotas(_: Generator, message: Any) -> None:
    for entry in message.entries:
        entry.entity = entry.entity[:1]
        entry.ops = entry.ops[:1]
        for entity in entry.entity:
            entity.entity_name = "kafwire-fuzz-quota"
    del message.entries[1:]


def _finish_configs(_: Generator, message: Any) -> None:
    seen = set()
    kept = []
    for resource in message.resources:
        if hasattr(resource, "configs"):
            resource.configs = resource.configs[:1]
            resource.resource_type = 2
        if (resource.resource_type, resource.resource_name) not in seen:
            seen.add((resource.resource_type, resource.resource_name))
            kept.append(resource)
    message.resources = kept


def _finish_elect(_: Generator, message: Any) -> None:
    if message.topic_partitions is None:
        message.election_type = 0


def _finish_telemetry(_: Generator, message: Any) -> None:
    message.terminating = False


def _finish_share_fetch(generator: Generator, message: Any) -> None:
    if hasattr(message, "forgotten_topics_data"):
        message.forgotten_topics_data = []
    message.member_id = str(UUID(int=generator.rng.getrandbits(128)))
    for topic in message.topics:
        for part in topic.partitions:
            part.acknowledgement_batches = []
    if hasattr(message, "is_renew_ack"):
        message.is_renew_ack = False


def _finish_cursor(_: Generator, message: Any) -> None:
    if message.cursor is not None:
        message.cursor.partition_index = 0


_FINISH: dict[str, Callable[[Generator, Any], None]] = {
    "Metadata": _finish_metadata,
    "DeleteTopics": _finish_delete_topics,
    "CreateTopics": _finish_create_topics,
    "CreatePartitions": _finish_create_partitions,
    "Fetch": _finish_fetch,
    "OffsetFetch": _finish_offset_fetch,
    "OffsetCommit": _finish_offset_commit,
    "JoinGroup": _finish_join,
    "Produce": _finish_produce,
    "FindCoordinator": _finish_find_coordinator,
    "ConsumerGroupHeartbeat": _finish_consumer_heartbeat,
    "ShareGroupHeartbeat": _finish_share_heartbeat,
    "StreamsGroupHeartbeat": _finish_streams_heartbeat,
    "AddPartitionsToTxn": _finish_add_partitions,
    "DescribeClientQuotas": _finish_quotas,
    "AlterClientQuotas": _finish_alter_quotas,
    "DescribeConfigs": _finish_configs,
    "AlterConfigs": _finish_configs,
    "IncrementalAlterConfigs": _finish_configs,
    "ElectLeaders": _finish_elect,
    "PushTelemetry": _finish_telemetry,
    "ShareFetch": _finish_share_fetch,
    "ShareAcknowledge": _finish_share_fetch,
    "DescribeTopicPartitions": _finish_cursor,
}
assert set(_FINISH) <= set(CLASS_OF)
