"""The options of brokers and topics that this broker heeds, by Kafka's names, with Kafka's defaults where it has reasons.

An option that is not here is refused with INVALID_CONFIG, as Kafka refuses one that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INT, LONG, BOOLEAN, STRING, LIST, DOUBLE = "int", "long", "boolean", "string", "list", "double"


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One option. `broker_name`: the broker's option that a topic's falls back to."""

    name: str
    kind: str
    default: str
    doc: str
    broker_name: str = ""
    least: float | None = None
    choices: tuple[str, ...] = ()

    def problem(self, value: str | None) -> str | None:
        """What is wrong with a value, in words; None: nothing."""
        if value is None:
            return f"Null value not supported for {self.name}"
        where = f"Invalid value {value} for configuration {self.name}"
        if self.kind in (INT, LONG, DOUBLE):
            try:
                number = float(value) if self.kind == DOUBLE else int(value)
            except ValueError:
                return f"{where}: Not a number of type {self.kind.upper()}"
            if self.kind == INT and not -(2**31) <= number < 2**31:
                return f"{where}: Not a number of type INT"
            if self.least is not None and number < self.least:
                return f"{where}: Value must be at least {self.least:g}"
        if self.kind == BOOLEAN and value.strip().lower() not in ("true", "false"):
            return f"{where}: Expected value to be either true or false"
        if self.choices:
            wrong = [each for each in (value.split(",") if self.kind == LIST else [value]) if each not in self.choices]
            if wrong:
                return f"{where}: String must be one of: {', '.join(self.choices)}"
        return None


def _by_name(*configs: ConfigDef) -> Mapping[str, ConfigDef]:
    return {config.name: config for config in configs}


TOPIC_CONFIGS = _by_name(
    ConfigDef("cleanup.policy", LIST, "delete", "delete, compact, or both", "log.cleanup.policy", choices=("delete", "compact")),
    ConfigDef("compression.type", STRING, "producer", "the codec that batches are stored with", "compression.type",
              choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    ConfigDef("delete.retention.ms", LONG, "86400000", "how long compaction keeps tombstones", "log.cleaner.delete.retention.ms", 0),
    ConfigDef("file.delete.delay.ms", LONG, "60000", "how long deleted segments stay", "log.segment.delete.delay.ms", 0),
    ConfigDef("flush.messages", LONG, "9223372036854775807", "records between two fsyncs", "log.flush.interval.messages", 1),
    ConfigDef("flush.ms", LONG, "9223372036854775807", "time between two fsyncs", "log.flush.interval.ms", 0),
    ConfigDef("index.interval.bytes", INT, "4096", "bytes between two entries of an index", "log.index.interval.bytes", 0),
    ConfigDef("max.compaction.lag.ms", LONG, "9223372036854775807", "how long records stay uncompacted at most", "log.cleaner.max.compaction.lag.ms", 1),
    ConfigDef("max.message.bytes", INT, "1048588", "the largest batch", "message.max.bytes", 0),
    ConfigDef("message.timestamp.after.max.ms", LONG, "3600000", "how far a record may be ahead of the broker's time", "log.message.timestamp.after.max.ms", 0),
    ConfigDef("message.timestamp.before.max.ms", LONG, "9223372036854775807", "how old a record may be", "log.message.timestamp.before.max.ms", 0),
    ConfigDef("message.timestamp.type", STRING, "CreateTime", "whose time records have", "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")),
    ConfigDef("min.cleanable.dirty.ratio", DOUBLE, "0.5", "how much of a log is uncompacted before it is compacted", "log.cleaner.min.cleanable.ratio", 0),
    ConfigDef("min.compaction.lag.ms", LONG, "0", "how long records stay uncompacted at least", "log.cleaner.min.compaction.lag.ms", 0),
    ConfigDef("min.insync.replicas", INT, "1", "replicas that must be in sync for acks=all", "min.insync.replicas", 1),
    ConfigDef("preallocate", BOOLEAN, "false", "whether segments are made in their full size", "log.preallocate"),
    ConfigDef("retention.bytes", LONG, "-1", "bytes of a partition that are kept; -1: all", "log.retention.bytes"),
    ConfigDef("retention.ms", LONG, "604800000", "how long records are kept; -1: for ever", "log.retention.ms", -1),
    ConfigDef("segment.bytes", INT, "1073741824", "the size of a segment", "log.segment.bytes", 14),
    ConfigDef("segment.index.bytes", INT, "10485760", "the size of an index", "log.index.size.max.bytes", 4),
    ConfigDef("segment.jitter.ms", LONG, "0", "by how much segments are rolled earlier", "log.roll.jitter.ms", 0),
    ConfigDef("segment.ms", LONG, "604800000", "how long a segment is written to", "log.roll.ms", 1),
    ConfigDef("unclean.leader.election.enable", BOOLEAN, "false", "whether a replica that is not in sync may lead", "unclean.leader.election.enable"),
)  # fmt: skip

BROKER_CONFIGS = _by_name(
    *(ConfigDef(c.broker_name, c.kind, c.default, c.doc, least=c.least, choices=c.choices) for c in TOPIC_CONFIGS.values()),
    ConfigDef("auto.create.topics.enable", BOOLEAN, "true", "whether a topic is made when it is asked for"),
    ConfigDef("connections.max.idle.ms", LONG, "600000", "how long a connection may be idle"),
    ConfigDef("connections.max.reauth.ms", LONG, "0", "how long a session of SASL lasts; 0: for ever", least=0),
    ConfigDef("default.replication.factor", INT, "1", "replicas of a topic that is made without a number", least=1),
    ConfigDef("delete.topic.enable", BOOLEAN, "true", "whether topics may be deleted"),
    ConfigDef("fetch.max.bytes", INT, "57671680", "the largest answer to a Fetch", least=1024),
    ConfigDef("group.initial.rebalance.delay.ms", INT, "0", "how long a new group waits for more members", least=0),
    ConfigDef("group.max.session.timeout.ms", INT, "1800000", "the longest session of a member", least=1),
    ConfigDef("group.max.size", INT, "2147483647", "members of a group", least=1),
    ConfigDef("group.min.session.timeout.ms", INT, "6000", "the shortest session of a member", least=1),
    ConfigDef("log.retention.check.interval.ms", LONG, "300000", "time between two looks for what is too old", least=1),
    ConfigDef("max.incremental.fetch.session.cache.slots", INT, "1000", "fetch sessions", least=0),
    ConfigDef("num.partitions", INT, "1", "partitions of a topic that is made without a number", least=1),
    ConfigDef("offset.metadata.max.bytes", INT, "4096", "the longest metadata of a committed offset"),
    ConfigDef("offsets.retention.check.interval.ms", LONG, "600000", "time between two looks for offsets that are too old", least=1),
    ConfigDef("offsets.retention.minutes", INT, "10080", "how long offsets of an empty group are kept", least=1),
    ConfigDef("offsets.topic.num.partitions", INT, "50", "partitions that groups are spread over, of which transactions are part", least=1),
    ConfigDef("producer.id.expiration.check.interval.ms", INT, "600000", "time between two looks for producers that are too old", least=1),
    ConfigDef("producer.id.expiration.ms", INT, "86400000", "how long a producer is remembered", least=1),
    ConfigDef("replica.lag.time.max.ms", LONG, "30000", "how long a follower may lag and be in sync"),
    ConfigDef("socket.request.max.bytes", INT, "104857600", "the largest request", least=1),
    ConfigDef("super.users", STRING, "", "principals that no ACL denies anything, separated by ;"),
    ConfigDef("allow.everyone.if.no.acl.found", BOOLEAN, "false", "whether a resource without ACLs is for everybody"),
    ConfigDef("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", "time between two looks for transactions that take too long", least=1),
    ConfigDef("transaction.max.timeout.ms", INT, "900000", "the longest transaction", least=1),
    ConfigDef("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", "time between two looks for transactional ids that are too old", least=1),
    ConfigDef("transactional.id.expiration.ms", INT, "604800000", "how long a transactional id is remembered", least=1),
)  # fmt: skip
