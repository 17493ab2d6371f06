"""Options: one frozen dataclass per client; names are Kafka's with underscores, units come last in the name.

An option has one owner, a unit, a default, and a check. `build` takes keyword arguments; `from_dotted` translates
Kafka's own spelling (`{"bootstrap.servers": ...}`) first. A mistake raises a `ConfigError` with the option, the value
and the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, fields, replace
from typing import Any, Self

from kafwire.config.bootstrap import parse_servers, protocols_of, shown_servers
from kafwire.config.checks import (
    OneOf,
    any_text,
    flag,
    function,
    maybe,
    number,
    option,
    or_default,
    silence,
    some_text,
    whole_up,
)
from kafwire.config.pairs import yielding
from kafwire.config.security import SecurityConfig
from kafwire.errors import ConfigError
from kafwire.integers import PollOnly
from kafwire.lazy_dataclass import dataclass
from kafwire.serialization import Codec, deserializer, serializer

MIB = 1 << 20
_NO_SERVERS = 'option bootstrap_servers is missing: give "host:port" of one broker or more'
_A_DICT = (
    "option bootstrap_servers is a dict of options: with underscores they are keyword arguments, "
    'kafwire.{kind}("localhost:9092", client_id="billing")'
)
_DOTTED = '; in Kafka\'s spelling they go to from_config, kafwire.{kind}.from_config({{"bootstrap.servers": ...}})'
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# `producer/buffer/partitioner.py` implements them.
PARTITIONERS = (
    *("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"),
    *("random", "round_robin"),
)

# `consumer/group/assignors` implements them. The Java client names them by their classes.
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
_ASSIGNOR_CLASSES = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": own
    for name, own in zip(("Range", "RoundRobin", "Sticky", "CooperativeSticky"), ASSIGNORS, strict=True)
}

# The levels of each codec: those of zstd and gzip are Java's too; lz4's above 12 are the same as 12.
_LEVELS = {"gzip": (-1, 9), "lz4": (0, 17), "zstd": (-131_072, 22)}


def _acks(value: Any) -> int:
    known: dict[Any, int] = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}
    if isinstance(value, bool) or not isinstance(value, Hashable) or value not in known:
        raise ValueError('allowed: "all", 1, 0')
    return known[value]


def _partitioner(value: Any) -> Any:
    if value in PARTITIONERS or (callable(value) and not isinstance(value, type)):
        return value
    raise ValueError(
        f"allowed: {', '.join(PARTITIONERS)}, or a function (topic, key, partitions, available) -> partition"
    )


def _reset(value: Any) -> str:
    """Check the reset policy for offsets that do not exist (KIP-1106 for `by_duration`)."""
    if isinstance(value, str) and (value in ("earliest", "latest", "error", "none") or duration_ms(value) is not None):
        return "error" if value == "none" else value
    raise ValueError("allowed: earliest, latest, error, by_duration:<ISO 8601 duration> (by_duration:PT1H)")


def _new_reset(value: Any) -> str:
    """Check the reset policy of new partitions."""
    try:
        return "auto" if value == "auto" else _reset(value)
    except ValueError as error:
        raise ValueError(str(error).replace("allowed: ", "allowed: auto, ")) from None


def _assignors(value: Any) -> tuple[str, ...]:
    """Check the names of assignors, in order: a list of them, or Kafka's text with commas."""
    names = value.split(",") if isinstance(value, str) else list(value)
    found = tuple(_ASSIGNOR_CLASSES.get(str(name).strip(), str(name).strip()) for name in names)
    if not found or any(name not in ASSIGNORS for name in found) or len(set(found)) < len(found):
        raise ValueError(f"allowed: {', '.join(ASSIGNORS)}, each once")
    return found


def _records_at_once(value: Any) -> int:
    """Check a number of records; keep the type `PollOnly`: Java's `max.poll.records` limits only `poll`."""
    checked = number(1)(value)
    return PollOnly(checked) if isinstance(value, PollOnly) else checked


_DURATION = (
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?"
)
_PART_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def duration_ms(policy: str) -> int | None:
    """Return the milliseconds of a `by_duration:` policy, as Java's Duration parses them; None for anything else."""
    found = re.fullmatch(_DURATION, policy.removeprefix("by_duration:")) if policy.startswith("by_duration:") else None
    if found is None or not any(found.groups()):
        return None
    return round(sum(float(found[part]) * factor for part, factor in _PART_MS.items() if found[part]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(SecurityConfig):
    """The options of every client. Times in milliseconds, sizes in bytes."""

    bootstrap_servers: tuple[tuple[str, int], ...] = field(metadata={"check": parse_servers, "shown": shown_servers})
    client_id: str = option("kafwire", or_default("kafwire", any_text))
    # From the send of a request to its response; after this time the connection is closed.
    request_timeout_ms: int = option(30_000, number(1))
    # One call of the user, with all its retries.
    default_api_timeout_ms: int = option(60_000, number(1))
    socket_connection_setup_timeout_ms: int = option(10_000, number(1))
    retry_backoff_ms: int = option(100, number(0))
    retry_backoff_max_ms: int = option(1_000, number(0))
    reconnect_backoff_ms: int = option(50, number(0))
    reconnect_backoff_max_ms: int = option(1_000, number(0))
    # A connection is closed after this time without a request, unless a response is due, and opened again when needed;
    # 0 and -1: never. Below the brokers' own limit, 10 minutes, so that no request meets a closed connection.
    connections_max_idle_ms: int = option(540_000, number(-1))
    metadata_max_age_ms: int = option(300_000, number(1))
    # When no known broker can be reached, connect to the bootstrap servers again (KIP-899). "none": never.
    metadata_recovery_strategy: str = option("rebootstrap", OneOf("rebootstrap", "none"))
    # After this time without metadata from known brokers, connect to the bootstrap servers (KIP-1102).
    metadata_recovery_rebootstrap_trigger_ms: int = option(300_000, number(0))
    # Name cluster and node to each known broker, so that another broker at its address refuses the connection
    # (KIP-1242, Kafka 4.4); without effect if metadata_recovery_strategy is "none".
    metadata_cluster_check_enable: bool = option(True, flag)
    # The rack of this client: brokers may name a nearby replica to read from (KIP-392).
    client_rack: str = option("", or_default("", any_text))
    # A longer frame closes the connection.
    max_frame_bytes: int = option(100 * MIB, number(1024))

    @classmethod
    def build(cls, options: Mapping[str, Any], *, others: Iterable[str] = ()) -> Self:
        """Check `options` and return the configuration; raises `ConfigError` for an unknown name or a bad value.

        `others` are names of arguments beside the options: a misspelt name may stand for one of them.
        """
        if isinstance(options.get("bootstrap_servers"), Mapping):
            # Without the dict's text, in which a password may stand.
            kind = cls.__name__.removesuffix("Config")
            text = _A_DICT.format(kind="scan") if kind == "Scan" else (_A_DICT + _DOTTED).format(kind=kind)
            raise ConfigError(text)
        known = {item.name: item for item in fields(cls)}
        checked = {}
        for name, value in options.items():
            if name not in known:
                from kafwire.config.names import hint  # names of other clients, for errors and configuration files

                raise ConfigError(f"unknown option {name!r}{hint(name, [*known, *others], as_keyword=True)}")
            try:
                checked[name] = known[name].metadata["check"](value)
            except (TypeError, ValueError, AttributeError) as error:
                metadata = known[name].metadata
                shown = "" if metadata.get("hidden") else f"={metadata.get('shown', repr)(value)}"
                raise ConfigError(f"option {name}{shown}: {error}") from None
        if "bootstrap_servers" not in checked:
            raise ConfigError(_NO_SERVERS)
        config = cls(**checked)
        for protocol in sorted(protocols_of(options["bootstrap_servers"]) - {config.security_protocol}):
            raise ConfigError(
                f"option bootstrap_servers has {protocol}:// before an address, and security_protocol is "
                f"{config.security_protocol!r}: set security_protocol={protocol!r}, or leave {protocol}:// out"
            )
        values = {name: getattr(config, name) for name in known}
        yielded: dict[str, Any] = {**yielding(values, frozenset(checked))}
        config = replace(config, **yielded)
        config.check_security(frozenset(checked))
        config.check_together(frozenset(checked))
        return config

    def check_together(self, given: frozenset[str]) -> None:
        """Check options that depend on each other; `given` names those that the user set.

        `option_pairs` has the options that limit each other.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of `Producer`."""

    acks: int = option(-1, _acks)
    # None: on, unless acks forbids it.
    enable_idempotence: bool | None = option(None, maybe(flag))
    compression_type: str = option("none", or_default("none", OneOf(*CODECS)))
    compression_level: int | None = option(None, maybe(number(-(2**31))))
    # A fraction counts as the next whole millisecond: 0.5 lingers, 0 does not.
    linger_ms: int = option(5, whole_up(0))
    # Larger than in other clients: each batch costs a few switches of the interpreter, whatever its size.
    batch_size: int = option(MIB, number(1, 1 << 30))
    max_request_size: int = option(MIB, number(1, 1 << 30))
    buffer_memory: int = option(32 * MIB, number(1, 1 << 40))
    max_block_ms: int = option(60_000, number(0))
    # After this time without a record, a topic's metadata is dropped; the next record looks it up again.
    metadata_max_idle_ms: int = option(300_000, number(5_000))
    delivery_timeout_ms: int = option(120_000, number(1))
    max_in_flight_requests_per_connection: int = option(5, number(1))
    # With it, records are sent in transactions only; one producer at a time has the id (KIP-98).
    transactional_id: str | None = option(None, maybe(some_text))
    # The coordinator aborts a transaction that is open for longer, and fences the producer.
    transaction_timeout_ms: int = option(60_000, number(1))
    # Transactions that never time out (KIP-939), with a transactional_id. A transaction that no process ends stays
    # open, and blocks readers of committed records.
    transaction_two_phase_commit_enable: bool = option(False, flag)
    # One of PARTITIONERS, librdkafka's names and round_robin; or a function. The default is Java's.
    partitioner: Any = option("murmur2_random", or_default("murmur2_random", _partitioner))
    # Prefer partitions with shorter queues for records without a key (KIP-794).
    partitioner_adaptive_partitioning_enable: bool = option(True, flag)
    # Avoid partitions of brokers that accept no request for this time; 0: never avoid any.
    partitioner_availability_timeout_ms: int = option(0, number(0))
    # Choose partitions as if records had no keys.
    partitioner_ignore_keys: bool = option(False, flag)
    # Let the broker create a topic that this producer first sends to.
    allow_auto_create_topics: bool = option(True, flag)
    # The serializers of keys and values that are not None; None: keys and values are bytes.
    key_serializer: Codec | None = option(None, serializer)
    value_serializer: Codec | None = option(None, serializer)
    # Called with the result of `Producer.metrics()`, every metrics_interval_ms, in a separate thread.
    metrics_hook: Any = option(None, maybe(function))
    metrics_interval_ms: int = option(30_000, number(1))

    def check_together(self, given: frozenset[str]) -> None:  # noqa: ARG002
        """Check acks, batches in flight, partitioner and compression level.

        Idempotence and transactions need acks=all and at most 5 batches in flight, as the broker remembers 5 per
        partition. Keys can be ignored only by a partitioner that spreads records without a key.
        """
        _check_level(self.compression_type, self.compression_level)
        if self.partitioner_ignore_keys and self.partitioner in ("murmur2", "consistent", "fnv1a"):
            raise ConfigError(
                f"partitioner_ignore_keys=True with partitioner={self.partitioner!r} sends everything to one "
                f'partition: take "{self.partitioner}_random", or leave it out'
            )
        if self.partitioner_ignore_keys and callable(self.partitioner):
            raise ConfigError("partitioner_ignore_keys=True has no effect on a function: leave it out")
        if self.transactional_id is not None and (self.enable_idempotence is False or not self.idempotent):
            raise ConfigError(
                'transactional_id needs enable_idempotence=True, acks="all" and '
                "max_in_flight_requests_per_connection <= 5: leave them out"
            )
        if self.enable_idempotence:
            if self.acks != -1:
                raise ConfigError('enable_idempotence=True needs acks="all"; leave one of the two out')
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError("enable_idempotence=True needs max_in_flight_requests_per_connection <= 5")

    @property
    def idempotent(self) -> bool:
        """True if batches have a producer id and sequence numbers."""
        if self.enable_idempotence is None:
            return self.acks == -1 and self.max_in_flight_requests_per_connection <= 5
        return self.enable_idempotence


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig(ClientConfig):
    """The options of consumers and scans."""

    # "read_committed": no records of transactions that were aborted, or are not decided yet.
    isolation_level: str = option("read_uncommitted", OneOf("read_uncommitted", "read_committed"))
    # Bounds the buffers of fetched records that are not decoded yet. A single larger batch may exceed it.
    fetch_memory: int = option(32 * MIB, number(1, 1 << 40))
    # Bytes of one response. A consumer uses the largest power of two up to it, as its buffers have such sizes.
    fetch_max_bytes: int = option(8 * MIB, number(1))
    # How long a broker without new records parks a request.
    fetch_max_wait_ms: int = option(500, number(0))
    # Decoded bytes per Arrow batch, about: a chunk ends with the wire batch that reaches it.
    chunk_bytes: int = option(4 * MIB, number(1, 1 << 30))
    # Decompressed bytes of one wire batch; a larger batch is an error.
    max_decompressed: int = option(256 * MIB, number(1, 1 << 40))
    check_crcs: bool = option(True, flag)
    # A batch with a wrong checksum, or contradictory bytes: raise `CorruptBatchError`, or log the batch and skip it.
    on_corrupt: str = option("error", OneOf("error", "skip"))
    # The deserializers of keys and values that are not null; None: keys and values stay bytes.
    key_deserializer: Codec | None = option(None, deserializer)
    value_deserializer: Codec | None = option(None, deserializer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanConfig(FetchConfig):
    """Options of `scan`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(FetchConfig):
    """Options of `Consumer` and `AsyncConsumer`."""

    fetch_memory: int = option(64 * MIB, number(1, 1 << 40))
    # A broker with fewer bytes waits for more, up to fetch_max_wait_ms.
    fetch_min_bytes: int = option(1, number(0))
    # Bytes of one partition in a response. Only the first one may exceed it, so do not set it below a usual batch.
    max_partition_fetch_bytes: int = option(8 * MIB, number(1))
    # Responses in a partition's buffer at which its fetching stops.
    max_prefetch_batches: int = option(4, number(1))
    # Most records of `poll`, or of one batch of a loop or a stream; None: no limit. As `max.poll.records` of
    # `from_config` it limits `poll` alone, as in the Java client.
    max_poll_records: int | None = option(None, maybe(_records_at_once))
    fetch_strategy: str = option("hybrid", OneOf("hybrid", "per_partition", "per_node"))
    # One connection per broker for all requests. A fetch is then parked for at most 100 ms, as all others wait for it.
    single_socket: bool = option(False, flag)
    # The position without a committed offset, or if the offset is out of range: "earliest", "latest",
    # "by_duration:PT1H" (KIP-1106), or "error" (Kafka's "none").
    auto_offset_reset: str = option("latest", _reset)
    # The start of partitions that are new to a running consumer. "auto": added partitions and recreated topics from the
    # beginning; a topic that it first sees, where "latest" would apply, from the last metadata that lacked the topic.
    auto_offset_reset_new_partitions: str = option("auto", _new_reset)
    group_id: str | None = option(None, maybe(any_text))
    # A static member: it keeps its partitions while it is away for less than its session (KIP-345).
    group_instance_id: str | None = option(None, maybe(some_text))
    # In the "consumer" protocol the broker assigns (KIP-848), in the "classic" one a member does. "auto" is "consumer"
    # if the cluster supports it, unless a partition_assignment_strategy is given, or the group has classic members.
    group_protocol: str = option("auto", OneOf("auto", "classic", "consumer"))
    # The broker's assignor, "uniform" or "range"; None: the broker's own choice.
    group_remote_assignor: str | None = option(None, maybe(some_text))
    # Assignors of the classic protocol, preferred ones first; members agree on one that all support.
    partition_assignment_strategy: tuple[str, ...] = option(DEFAULT_ASSIGNORS, _assignors)
    # The coordinator removes a member after this time without heartbeats. The consumer protocol's broker sets both.
    session_timeout_ms: int = option(45_000, number(1))
    heartbeat_interval_ms: int = option(3_000, number(1))
    # The coordinator removes a member that has not given up revoked partitions within this time.
    rebalance_timeout_ms: int = option(300_000, number(1))
    # Records in hand of a revoked partition: "finish" waits for them, and commits; "discard" does not.
    on_revocation: str = option("finish", OneOf("finish", "discard"))
    # The longest such wait; None: nine tenths of rebalance_timeout_ms.
    revocation_timeout_ms: int | None = option(None, maybe(number(0)))
    # Leave the group after this time without a read of the consumer; None: never.
    max_poll_interval_ms: int | None = option(None, maybe(number(1)))
    # A loop over the records of the blocking consumer ends after this time without records, as in kafka-python; None:
    # never. Without effect in the async consumer: in aiokafka the option has another meaning.
    consumer_timeout_ms: int | None = option(None, silence)
    enable_auto_commit: bool = option(True, flag)
    auto_commit_interval_ms: int = option(5_000, number(1))
    # In an explicit stream: most offsets that are delivered beyond the first one that is not completed.
    max_uncommitted: int = option(10_000, number(1))
    # Let the broker create topics that do not exist when this consumer first looks for them (KIP-361).
    allow_auto_create_topics: bool = option(False, flag)
    # Called with the result of `Consumer.metrics()`, every metrics_interval_ms, in a separate thread.
    metrics_hook: Any = option(None, maybe(function))
    metrics_interval_ms: int = option(30_000, number(1))

    def check_together(self, given: frozenset[str]) -> None:
        """Check the options of a member, and that `single_socket` and `fetch_strategy` do not contradict each other."""
        _check_member(self, given)
        if self.single_socket and self.fetch_strategy == "per_partition":
            raise ConfigError(
                'single_socket=True is one connection per broker, fetch_strategy="per_partition" is one per partition: '
                "leave one of the two out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(FetchConfig):
    """Options of `ShareConsumer` and `AsyncShareConsumer`."""

    group_id: str = option("", any_text)
    fetch_min_bytes: int = option(1, number(0))
    # Records that are acquired at once from a broker, about; with share_acquire_mode="record_limit" at most.
    max_poll_records: int = option(500, number(1))
    # "implicit": the next read accepts the delivered records. "explicit": the user acknowledges them.
    share_acknowledgement_mode: str = option("implicit", OneOf("implicit", "explicit"))
    # "batch_optimized": whole batches as producers made them. "record_limit": at most max_poll_records (KIP-1206).
    share_acquire_mode: str = option("batch_optimized", OneOf("batch_optimized", "record_limit"))
    # Records that were delivered more often are rejected instead of being delivered; None: no limit.
    max_deliveries: int | None = option(None, maybe(number(1)))

    def check_together(self, given: frozenset[str]) -> None:  # noqa: ARG002
        """Check that there is a group: a share consumer needs one."""
        if not self.group_id:
            raise ConfigError("option group_id is missing: give the share group to be a member of")


def from_dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Kafka's spelling (`linger.ms`) to kafwire's (`linger_ms`); `ConfigError` without bootstrap servers."""
    translated = {str(name).replace(".", "_"): value for name, value in options.items()}
    if "bootstrap_servers" not in translated:
        raise ConfigError(_NO_SERVERS)
    return translated


def from_config(
    config: type[ClientConfig], options: Mapping[str, Any], *, arguments: Iterable[str] = ()
) -> dict[str, Any]:
    """Return keyword arguments for a client of `config`, from option names of the Java client, librdkafka or kafwire.

    `arguments` are names beside the options. Raises `ConfigError` in the user's own spelling; one warning names the
    options without effect.
    """
    from kafwire.config.names import respell, translate

    own = {item.name for item in fields(config)}.union(arguments)
    others = {item.name for kind in (ProducerConfig, ConsumerConfig) for item in fields(kind)} - own
    found, names = translate(options, own, others)
    try:
        config.build({name: value for name, value in found.items() if name not in arguments})
    except ConfigError as error:
        raise ConfigError(respell(str(error), names, own)) from None
    return found


# Options that a classic member sets. In the consumer protocol, the group, or the broker for all groups, sets them.
OF_CLASSIC_MEMBERS = {
    "heartbeat_interval_ms": "consumer.heartbeat.interval.ms",
    "session_timeout_ms": "consumer.session.timeout.ms",
}


def no_effect(name: str) -> str:
    """Return the text that an option of `OF_CLASSIC_MEMBERS` has no effect in the consumer protocol."""
    theirs = OF_CLASSIC_MEMBERS[name]
    rule = f"where the group's {theirs} or the broker's group.{theirs} holds"
    return f"{name} has no effect in the consumer protocol, {rule}"


def _check_member(config: ConsumerConfig, given: frozenset[str]) -> None:
    """Raise `ConfigError` for options of a group's member that contradict each other."""
    if config.group_id is None:
        alone = sorted(given & {"group_instance_id", "group_remote_assignor", "partition_assignment_strategy"})
        if alone:
            raise ConfigError(f"{alone[0]} is for a member of a group: give group_id")
    if config.group_protocol == "consumer" and "partition_assignment_strategy" in given:
        raise ConfigError(
            'partition_assignment_strategy has no effect with group_protocol="consumer", where the broker assigns: '
            "leave it out, or take group_remote_assignor"
        )
    classic = sorted(given & OF_CLASSIC_MEMBERS.keys())
    if config.group_protocol == "consumer" and classic:
        raise ConfigError(f'{no_effect(classic[0])}: leave it out, or take group_protocol="classic"')
    if config.group_protocol == "classic" and config.group_remote_assignor is not None:
        raise ConfigError(
            'group_remote_assignor has no effect with group_protocol="classic": take partition_assignment_strategy'
        )


def _check_level(codec: str, level: int | None) -> None:
    """Raise `ConfigError` for a compression level that `codec` does not have."""
    if level is None:
        return
    if codec not in _LEVELS:
        raise ConfigError(
            f"option compression_level={level}: compression_type={codec!r} has no levels: leave it out"
            + (f", or choose {', '.join(_LEVELS)}" if codec == "none" else "")
        )
    low, high = _LEVELS[codec]
    if not low <= level <= high or (codec == "gzip" and level == 0):
        allowed = "1 to 9, or -1 for the default" if codec == "gzip" else f"{low} to {high}"
        raise ConfigError(f"option compression_level={level}: allowed with compression_type={codec!r}: {allowed}")
