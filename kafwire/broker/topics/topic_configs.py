"""The options of topics: all of Kafka 4.4's, with its defaults and bounds.

These options are kept and described but have no effect: those of throttled replication, tiered storage, indexes,
preallocation and dead letters, and `max.decompressed.message.bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafwire.broker.topics.config_def import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING, ConfigDef, by_name
from kafwire.config.compression_levels import GZIP_DEFAULT, LEVELS

TOPIC_CONFIGS = by_name(
    ConfigDef(
        "cleanup.policy",
        LIST,
        "delete",
        "delete, compact, or both",
        "log.cleanup.policy",
        choices=("compact", "delete"),
    ),
    ConfigDef(
        "compression.gzip.level",
        INT,
        "-1",
        "the level of gzip",
        "compression.gzip.level",
        least=LEVELS["gzip"][0],
        most=LEVELS["gzip"][1],
        special=GZIP_DEFAULT,
    ),
    ConfigDef(
        "compression.lz4.level", INT, "9", "the level of lz4", "compression.lz4.level", least=1, most=LEVELS["lz4"][1]
    ),
    ConfigDef(
        "compression.type",
        STRING,
        "producer",
        "the codec that batches are stored with",
        "compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigDef(
        "compression.zstd.level",
        INT,
        "3",
        "the level of zstd",
        "compression.zstd.level",
        least=LEVELS["zstd"][0],
        most=LEVELS["zstd"][1],
    ),
    ConfigDef(
        "delete.retention.ms",
        LONG,
        "86400000",
        "how long compaction keeps tombstones",
        "log.cleaner.delete.retention.ms",
        least=0,
    ),
    ConfigDef(
        "errors.deadletterqueue.group.enable", BOOLEAN, "false", "whether share groups may write dead letters to it"
    ),
    ConfigDef(
        "file.delete.delay.ms", LONG, "60000", "how long deleted segments stay", "log.segment.delete.delay.ms", least=0
    ),
    ConfigDef(
        "flush.messages",
        LONG,
        "9223372036854775807",
        "records between two fsyncs",
        "log.flush.interval.messages",
        least=1,
    ),
    ConfigDef(
        "flush.ms",
        LONG,
        "9223372036854775807",
        "time between two fsyncs",
        "log.flush.interval.ms",
        least=0,
        is_listed=False,
    ),
    ConfigDef("follower.replication.throttled.replicas", LIST, "", "followers whose replication is throttled"),
    ConfigDef(
        "index.interval.bytes",
        INT,
        "4096",
        "bytes between two entries of an index",
        "log.index.interval.bytes",
        least=0,
    ),
    ConfigDef("leader.replication.throttled.replicas", LIST, "", "leaders whose replication is throttled"),
    ConfigDef(
        "local.retention.bytes",
        LONG,
        "-2",
        "bytes that are kept here with tiered storage",
        "log.local.retention.bytes",
        least=-2,
    ),
    ConfigDef(
        "local.retention.ms",
        LONG,
        "-2",
        "how long records are kept here with tiered storage",
        "log.local.retention.ms",
        least=-2,
    ),
    ConfigDef(
        "max.compaction.lag.ms",
        LONG,
        "9223372036854775807",
        "how long records stay uncompacted at most",
        "log.cleaner.max.compaction.lag.ms",
        least=1,
    ),
    ConfigDef(
        "max.decompressed.message.bytes",
        INT,
        "2147483639",
        "the largest batch once it is decompressed",
        "max.decompressed.message.bytes",
        least=1,
        most=2147483639,
    ),
    ConfigDef("max.message.bytes", INT, "1048588", "the largest batch", "message.max.bytes", least=0),
    ConfigDef(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        "how far a record may be ahead of the broker's time",
        "log.message.timestamp.after.max.ms",
        least=0,
    ),
    ConfigDef(
        "message.timestamp.before.max.ms",
        LONG,
        "9223372036854775807",
        "how old a record may be",
        "log.message.timestamp.before.max.ms",
        least=0,
    ),
    ConfigDef(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "the source of records' timestamps",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        "how much of a log is uncompacted before it is compacted",
        "log.cleaner.min.cleanable.ratio",
        least=0,
        most=1,
    ),
    ConfigDef(
        "min.compaction.lag.ms",
        LONG,
        "0",
        "how long records stay uncompacted at least",
        "log.cleaner.min.compaction.lag.ms",
        least=0,
    ),
    ConfigDef(
        "min.insync.replicas", INT, "1", "replicas that must be in sync for acks=all", "min.insync.replicas", least=1
    ),
    ConfigDef("preallocate", BOOLEAN, "false", "whether segments are made in their full size", "log.preallocate"),
    ConfigDef(
        "remote.copy.lag.bytes",
        LONG,
        "-1",
        "bytes of closed segments that are not copied to tiered storage yet",
        "log.remote.copy.lag.bytes",
        least=-1,
    ),
    ConfigDef(
        "remote.copy.lag.ms",
        LONG,
        "0",
        "how long closed segments are not copied to tiered storage",
        "log.remote.copy.lag.ms",
        least=-1,
    ),
    ConfigDef("remote.log.copy.disable", BOOLEAN, "false", "whether nothing new goes to tiered storage"),
    ConfigDef("remote.log.delete.on.disable", BOOLEAN, "false", "whether tiered storage is emptied when it ends"),
    ConfigDef(
        "remote.storage.enable", BOOLEAN, "false", "whether old segments go to tiered storage; there is none here"
    ),
    ConfigDef("retention.bytes", LONG, "-1", "bytes of a partition that are kept; -1: all", "log.retention.bytes"),
    ConfigDef(
        "retention.ms", LONG, "604800000", "how long records are kept; -1: for ever", "log.retention.ms", least=-1
    ),
    ConfigDef("segment.bytes", INT, "1073741824", "the size of a segment", "log.segment.bytes", least=1 << 20),
    ConfigDef("segment.index.bytes", INT, "10485760", "the size of an index", "log.index.size.max.bytes", least=4),
    ConfigDef(
        "segment.jitter.ms",
        LONG,
        "0",
        "by how much segments are rolled earlier",
        "log.roll.jitter.ms",
        least=0,
        is_listed=False,
    ),
    ConfigDef(
        "segment.ms", LONG, "604800000", "how long a segment is written to", "log.roll.ms", least=1, is_listed=False
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "whether a replica that is not in sync may lead",
        "unclean.leader.election.enable",
    ),
)

_THROTTLED = re.compile(r"\d+:\d+")


def topic_problem(configs: Mapping[str, str], effective: Mapping[str, str]) -> str | None:
    """Return the fault that Kafka finds in a topic's options; None: no fault. `effective`: with the brokers' values."""
    for name in configs:
        if name not in TOPIC_CONFIGS:
            return f"Unknown topic config name: {name}"
    for name, value in configs.items():
        problem = TOPIC_CONFIGS[name].problem(value) or _throttled_problem(name, value)
        if problem:
            return problem
    least, most = (int(effective[name]) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if least > most:
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    if effective["remote.storage.enable"].strip().lower() == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def _throttled_problem(name: str, value: str) -> str | None:
    if not name.endswith(".replication.throttled.replicas") or value.strip() in ("", "*"):
        return None
    parts = [each.strip() for each in value.split(",")]
    if all(_THROTTLED.fullmatch(part) for part in parts):
        return None
    return (
        f"Invalid value [{', '.join(parts)}] for configuration {name}: {name} must be the literal '*' or a list of "
        "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )
