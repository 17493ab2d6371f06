"""`ConsumerConfig`, `ShareConsumerConfig` and `ScanConfig`: the options of clients that read."""

from __future__ import annotations

import re
from typing import Any

from kafwire.config.checks import (
    Number,
    OneOf,
    any_text,
    described_by,
    flag,
    function,
    maybe,
    option,
    silence,
    some_text,
)
from kafwire.config.client import (
    FORMAT,
    METRICS_HOOK,
    METRICS_HOOK_TYPE,
    METRICS_INTERVAL,
    METRICS_PUSH,
    MIB,
    ClientConfig,
)
from kafwire.errors import ConfigError
from kafwire.integers import PollOnly
from kafwire.lazy_dataclass import dataclass
from kafwire.serialization import Codec, deserializer

# `consumer/group/assignors` implements them. The Java client names them by their classes.
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
_ASSIGNOR_CLASSES = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": own
    for name, own in zip(("Range", "RoundRobin", "Sticky", "CooperativeSticky"), ASSIGNORS, strict=True)
}

_MEMORY = "Limit of the fetched bytes that are not decoded yet. A single larger batch may exceed it."
_MEMORY_NAMES = "librdkafka=queued.max.messages.kbytes"
_MIN_BYTES = "A broker with fewer bytes waits for more, up to fetch_max_wait_ms."
_DESERIALIZER = (
    'Deserializer of {} that are not null: `str`, "json", a type of msgspec or pydantic, a function, or a '
    "`Deserializer`. None: they stay bytes."
)
_CLASSIC = 'With group_protocol="consumer" the option is an error: the group or the broker sets this time.'


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
    checked = Number(1)(value)
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


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig(ClientConfig):
    """Options of clients that read."""

    isolation_level: str = option(
        "read_uncommitted",
        OneOf("read_uncommitted", "read_committed"),
        'With "read_committed", reads skip the records of aborted transactions and stop before those of open ones.',
    )
    fetch_memory: int = option(32 * MIB, Number(1, 1 << 40), _MEMORY, names=_MEMORY_NAMES, unit="bytes")
    fetch_max_bytes: int = option(
        8 * MIB,
        Number(1),
        "Limit of one response. A consumer uses the largest power of two up to it, as its buffers have such sizes.",
    )
    fetch_max_wait_ms: int = option(
        500,
        Number(0),
        "A broker without new records parks a fetch request for this time at most.",
        names="Java librdkafka=fetch.wait.max.ms",
    )
    chunk_bytes: int = option(
        4 * MIB,
        Number(1, 1 << 30),
        "Approximate decoded size of a `Batch`: it ends with the wire batch that reaches this size.",
        names="",
    )
    max_decompressed: int = option(
        256 * MIB,
        Number(1, 1 << 40),
        "Limit of one decompressed wire batch. A larger one is an error.",
        names="",
        unit="bytes",
    )
    check_crcs: bool = option(True, flag, "The decoder compares the checksum of each batch with its bytes.")
    on_corrupt: str = option(
        "error",
        OneOf("error", "skip"),
        'A batch with a wrong checksum or contradictory bytes raises `CorruptBatchError`. With "skip", the client logs '
        "the batch and skips it.",
        names="",
    )
    key_deserializer: Codec | None = option(
        None, deserializer, _DESERIALIZER.format("keys"), names="Java", typed="Deserializes"
    )
    value_deserializer: Codec | None = option(
        None, deserializer, _DESERIALIZER.format("values"), names="Java", typed="Deserializes"
    )
    key: Codec | None = option(
        None, deserializer, FORMAT.format("keys", "key_deserializer"), names="", typed="Deserializes"
    )
    value: Codec | None = option(
        None, deserializer, FORMAT.format("values", "value_deserializer"), names="", typed="Deserializes"
    )
    enable_metrics_push: bool = option(True, flag, METRICS_PUSH)


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanConfig(FetchConfig):
    """Options of `scan`."""


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(FetchConfig):
    """Options of `Consumer` and `AsyncConsumer`."""

    fetch_memory: int = option(64 * MIB, Number(1, 1 << 40), _MEMORY, names=_MEMORY_NAMES, unit="bytes")
    fetch_min_bytes: int = option(1, Number(0), _MIN_BYTES)
    max_partition_fetch_bytes: int = option(
        8 * MIB,
        Number(1),
        "Limit of one partition in a response. Only the first batch of a response may exceed it, so keep the limit "
        "above a usual batch.",
        names="Java librdkafka librdkafka=fetch.message.max.bytes",
    )
    max_prefetch_batches: int = option(
        4,
        Number(1),
        "The consumer stops fetching a partition whose buffer has this number of responses.",
        names="",
    )
    max_poll_records: int | None = option(
        None,
        maybe(_records_at_once),
        "Most records of `poll`, and of a batch of a loop or a stream; None: no limit. As `max.poll.records` of "
        "`from_config` it limits `poll` alone, as in the Java client.",
        names="Java",
        accepts="at least 1, or None",
    )
    fetch_strategy: str = option(
        "hybrid",
        OneOf("hybrid", "per_partition", "per_node"),
        'Connections of fetch requests. "hybrid": partitions of a broker share one, and a second one serves partitions '
        'that need records at once. "per_partition": each partition has its own. "per_node": each request names all '
        "partitions of a broker.",
        names="",
    )
    single_socket: bool = option(
        False,
        flag,
        "One connection per broker carries all requests. A broker then parks a fetch for at most 100 ms, as other "
        "requests wait behind it.",
        names="",
    )
    auto_offset_reset: str = option(
        "latest",
        _reset,
        'Start of a partition without a committed offset, or whose offset is out of range. "by_duration:PT1H" is an '
        'hour ago (KIP-1106). "error", in Kafka "none", raises.',
        accepts='"earliest", "latest", "by_duration:<ISO 8601 duration>", "error"',
    )
    auto_offset_reset_new_partitions: str = option(
        "auto",
        _new_reset,
        'Start of partitions that are new to a running consumer. "auto": added partitions and recreated topics from '
        'their beginning; a topic that the consumer first sees, where "latest" would apply, from the last metadata '
        "without it.",
        names="",
        accepts='"auto", and the values of auto_offset_reset',
    )
    group_id: str | None = option(
        None,
        maybe(any_text),
        "Group of the consumer: it divides `topics` among its members, and keeps offsets. None: no group.",
    )
    group_instance_id: str | None = option(
        None,
        maybe(some_text),
        "Id of a static member, which keeps its partitions while it is away for less than its session (KIP-345).",
    )
    group_protocol: str = option(
        "auto",
        OneOf("auto", "classic", "consumer"),
        'Assigns partitions: the broker with "consumer" (KIP-848), a member with "classic", the default of other '
        'clients. "auto" is "consumer" if the cluster supports it, unless a partition_assignment_strategy is given or '
        "the group has classic members.",
    )
    group_remote_assignor: str | None = option(
        None,
        maybe(some_text),
        'Assignor of the broker in the "consumer" protocol, "uniform" or "range". None: the choice of the broker.',
    )
    partition_assignment_strategy: tuple[str, ...] = option(
        DEFAULT_ASSIGNORS,
        _assignors,
        'Assignors of the "classic" protocol, preferred ones first. Members agree on one that all support.',
        accepts='"range", "roundrobin", "sticky", "cooperative-sticky" or classes of Java, as a list or with commas',
        typed="str | Iterable[str]",
    )
    session_timeout_ms: int = option(
        45_000, Number(1), f"The coordinator removes a member after this time without a heartbeat. {_CLASSIC}"
    )
    heartbeat_interval_ms: int = option(3_000, Number(1), f"Time between two heartbeats of a member. {_CLASSIC}")
    rebalance_timeout_ms: int = option(
        300_000,
        Number(1),
        "The coordinator removes a member that does not give up revoked partitions within this time. In other clients, "
        "max.poll.interval.ms limits that too.",
        names="",
    )
    on_revocation: str = option(
        "finish",
        OneOf("finish", "discard"),
        'A revocation waits until records in hand are processed, and commits them. With "discard", it does not wait.',
        names="",
    )
    revocation_timeout_ms: int | None = option(
        None,
        maybe(Number(0)),
        "Longest wait of a revocation for records in hand. None: nine tenths of rebalance_timeout_ms.",
        names="",
    )
    max_poll_interval_ms: int | None = option(
        None,
        maybe(Number(1)),
        "The member leaves its group after this time without a read. None: never. The default of other clients is "
        "300,000.",
    )
    consumer_timeout_ms: int | None = option(
        None,
        silence,
        "`for record in consumer` ends after this time without records, as in kafka-python, and a new loop continues; "
        "None and -1: never. `AsyncConsumer` logs that the option has no effect: in aiokafka it has another meaning.",
        names="",
        accepts="at least 0 ms, -1 or None",
        typed="float | None",
    )
    enable_auto_commit: bool = option(
        True,
        flag,
        "The consumer commits processed offsets, every auto_commit_interval_ms. Other clients commit delivered ones.",
        names="Java librdkafka librdkafka=auto.commit.enable",
    )
    auto_commit_interval_ms: int = option(5_000, Number(1), "Time between two automatic commits.")
    max_uncommitted: int = option(
        10_000,
        Number(1),
        "An explicit stream delivers this number of offsets at most beyond the first one that is not completed.",
        names="",
    )
    allow_auto_create_topics: bool = option(
        False, flag, "The broker creates topics that do not exist when this consumer first requests them (KIP-361)."
    )
    metrics_hook: Any = option(None, maybe(function), METRICS_HOOK, names="", typed=METRICS_HOOK_TYPE)
    metrics_interval_ms: int = option(30_000, Number(1), METRICS_INTERVAL, names="")

    def check_together(self, given: frozenset[str]) -> None:
        """Check the options of a member, and that `single_socket` and `fetch_strategy` do not contradict each other."""
        _check_member(self, given)
        if self.single_socket and self.fetch_strategy == "per_partition":
            raise ConfigError(
                'single_socket=True is one connection per broker, fetch_strategy="per_partition" is one per partition: '
                "leave one of the two out"
            )


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(FetchConfig):
    """Options of `ShareConsumer` and `AsyncShareConsumer`."""

    group_id: str = option("", any_text, "Share group of the consumer, which is required.")
    fetch_min_bytes: int = option(1, Number(0), _MIN_BYTES)
    max_poll_records: int = option(
        500,
        Number(1),
        'Approximate number of records that each broker acquires at once. With share_acquire_mode="record_limit", the '
        "limit of all brokers together.",
    )
    share_acknowledgement_mode: str = option(
        "implicit",
        OneOf("implicit", "explicit"),
        'With "implicit", the next read accepts the delivered records; with "explicit", the user acknowledges each.',
    )
    share_acquire_mode: str = option(
        "batch_optimized",
        OneOf("batch_optimized", "record_limit"),
        "Brokers acquire whole batches as producers made them, or at most max_poll_records records (KIP-1206).",
        names="Java",
    )
    max_deliveries: int | None = option(
        None,
        maybe(Number(1)),
        "The consumer rejects records that were delivered more often, instead of delivering them. None: no limit.",
        names="",
    )

    def check_together(self, given: frozenset[str]) -> None:  # noqa: ARG002
        """Check that there is a group: a share consumer needs one."""
        if not self.group_id:
            raise ConfigError("option group_id is missing: give the share group to be a member of")


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
