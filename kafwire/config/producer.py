"""`ProducerConfig`: the options of producers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kafwire.config.checks import (
    Number,
    OneOf,
    OrDefault,
    WholeUp,
    described_by,
    flag,
    function,
    maybe,
    option,
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
from kafwire.lazy_dataclass import dataclass
from kafwire.serialization import Codec, serializer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# `producer/buffer/partitioner.py` implements them.
PARTITIONERS = (
    *("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"),
    *("random", "round_robin"),
)

_NAMED = ", ".join(f'"{name}"' for name in PARTITIONERS)
_SERIALIZER = (
    'Serializer of {} that are not None: `str`, "json", a type of msgspec or pydantic, a function, or a `Serializer`. '
    "None: they are bytes."
)


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


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of `Producer` and `AsyncProducer`."""

    acks: int = option(
        -1,
        _acks,
        'Replicas that must have a record before the broker confirms it: all in-sync ones ("all"), the leader (1) or '
        "none (0).",
        names="Java librdkafka librdkafka=request.required.acks",
        accepts='"all", 1, 0',
        typed='Literal["all"] | int',
        default_text='"all"',
    )
    enable_idempotence: bool | None = option(
        None,
        maybe(flag),
        "Retries store no record twice. None: True, unless acks or max_in_flight_requests_per_connection forbid it; "
        "with True, that is an error.",
    )
    compression_type: str = option(
        "none",
        OrDefault("none", OneOf(*CODECS)),
        'Codec of the batches. None is "none".',
        names="Java librdkafka librdkafka=compression.codec",
    )
    compression_level: int | None = option(
        None,
        maybe(Number(-(2**31))),
        "Level of the codec: gzip 1 to 9, lz4 0 to 17 (above 12 as 12), zstd -131,072 to 22; other codecs have none. "
        "None: the default of the codec. Java has an option for each codec: compression.gzip.level and so on.",
        names="librdkafka",
        accepts="the levels of compression_type, or None",
    )
    linger_ms: int = option(
        5,
        WholeUp(0),
        "Time that a batch waits for more records. A fraction counts as the next whole millisecond: 0.5 lingers, 0 "
        "does not.",
        names="Java librdkafka librdkafka=queue.buffering.max.ms",
        typed="float",
    )
    batch_size: int = option(
        MIB,
        Number(1, 1 << 30),
        "Uncompressed size at which a batch is full, at most max_request_size. The default is larger than in other "
        "clients: each batch costs a few switches of the interpreter, whatever its size.",
        names="Java librdkafka aiokafka=max_batch_size",
        unit="bytes",
    )
    max_request_size: int = option(
        MIB,
        Number(1, 1 << 30),
        "Limit of a record. A request of this size gets no more batches.",
        names="Java librdkafka=message.max.bytes",
        unit="bytes",
    )
    buffer_memory: int = option(
        32 * MIB,
        Number(1, 1 << 40),
        "Limit of all records that are not acknowledged. `send` waits for room.",
        names="Java librdkafka=queue.buffering.max.kbytes",
        unit="bytes",
    )
    max_block_ms: int = option(
        60_000,
        Number(0),
        "Time limit of `send`, which waits for metadata and room, and of a transactional call.",
        names="Java",
    )
    metadata_max_idle_ms: int = option(
        300_000,
        Number(5_000),
        "The producer drops the metadata of a topic after this time without a record for it. The next record requests "
        "it again.",
        names="Java",
    )
    delivery_timeout_ms: int = option(
        120_000,
        Number(1),
        "Time from `send` to the outcome. The producer awaits a request in flight first.",
        names="Java librdkafka librdkafka=message.timeout.ms",
    )
    max_in_flight_requests_per_connection: int = option(
        5,
        Number(1),
        "Batches of a partition in flight at one time.",
        names="Java librdkafka librdkafka=max.in.flight",
    )
    transactional_id: str | None = option(
        None,
        maybe(some_text),
        "Id of a transactional producer, which sends records in transactions only. One producer at a time has the id "
        "(KIP-98). None: no transactions.",
    )
    transaction_timeout_ms: int = option(
        60_000,
        Number(1),
        "The coordinator aborts a transaction that is open for longer, and fences the producer.",
    )
    transaction_two_phase_commit_enable: bool = option(
        False,
        flag,
        "Transactions never time out (KIP-939). An abandoned transaction stays open, and readers of committed records "
        "wait behind it. Brokers need `unstable.api.versions.enable` and `transaction.two.phase.commit.enable`, the "
        "principal TWO_PHASE_COMMIT on the TransactionalId.",
        names="Java",
    )
    partitioner: Any = option(
        "murmur2_random",
        OrDefault("murmur2_random", _partitioner),
        "Partitioner of records without `partition=`: one of librdkafka's, round_robin, or a function (topic, key, "
        "partitions, available) -> partition. The default places keys as Java does. None is the default.",
        names="librdkafka",
        accepts=f"{_NAMED}, a function, or None",
        typed=f"Literal[{_NAMED}] | Callable[..., int] | None",
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        True,
        flag,
        "Records without a key prefer partitions with fewer waiting batches (KIP-794).",
        names="Java",
    )
    partitioner_availability_timeout_ms: int = option(
        0,
        Number(0),
        "Records without a key avoid partitions of brokers that accept no request for this time; 0: they avoid none.",
        names="Java",
    )
    partitioner_ignore_keys: bool = option(
        False, flag, "The partitioner treats all records as if they had no key.", names="Java"
    )
    allow_auto_create_topics: bool = option(
        True, flag, "The broker creates a topic that this producer first sends to.", names=""
    )
    key_serializer: Codec | None = option(
        None, serializer, _SERIALIZER.format("keys"), names="Java", typed="Serializes"
    )
    value_serializer: Codec | None = option(
        None, serializer, _SERIALIZER.format("values"), names="Java", typed="Serializes"
    )
    key: Codec | None = option(None, serializer, FORMAT.format("keys", "key_serializer"), names="", typed="Serializes")
    value: Codec | None = option(
        None, serializer, FORMAT.format("values", "value_serializer"), names="", typed="Serializes"
    )
    metrics_hook: Any = option(None, maybe(function), METRICS_HOOK, names="", typed=METRICS_HOOK_TYPE)
    metrics_interval_ms: int = option(30_000, Number(1), METRICS_INTERVAL, names="")
    enable_metrics_push: bool = option(True, flag, METRICS_PUSH)

    def check_together(self, given: frozenset[str]) -> None:  # noqa: ARG002
        """Check acks, batches in flight, partitioner and compression level.

        Idempotence and transactions need acks=all and at most 5 batches in flight, as the broker remembers 5 per
        partition. Keys can be ignored only by a partitioner that spreads records without a key.
        """
        if self.compression_level is not None:
            from kafwire.config.compression_levels import check_level  # here, as few producers set a level

            check_level(self.compression_type, self.compression_level)
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
