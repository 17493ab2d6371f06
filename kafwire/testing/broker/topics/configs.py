"""The options of brokers that this broker heeds, by Kafka's names, with Kafka's defaults where it has reasons.

A topic's option that is not in `topic_configs.py` is refused with INVALID_CONFIG. What the brokers of a topic have by
default is an option of brokers, too. See `config_store.py` for those that are set while brokers run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafwire.testing.broker.topics.config_def import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING, ConfigDef, by_name
from kafwire.testing.broker.topics.topic_configs import TOPIC_CONFIGS
from kafwire.testing.broker.topics.unheeded_configs import UNHEEDED_CONFIGS

__all__ = [
    "BOOLEAN",
    "BROKER_CONFIGS",
    "COARSER",
    "DESCRIBED_CONFIGS",
    "DOUBLE",
    "INT",
    "LIST",
    "LONG",
    "OF_AUTHORIZER",
    "STRING",
    "TOPIC_CONFIGS",
    "ConfigDef",
]


# Options that Kafka has no default for: others hold where these are not set. Each of those with its milliseconds.
COARSER = {
    "log.retention.ms": {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
    "log.roll.ms": {"log.roll.hours": 3_600_000},
    "log.roll.jitter.ms": {"log.roll.jitter.hours": 3_600_000},
}
OF_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
_WITHOUT_DEFAULT = {*COARSER, "log.flush.interval.ms"}
_INTERNAL = {
    "group.consumer.regex.refresh.interval.ms",
    "group.streams.acceptable.recovery.lag",
    "group.streams.max.warmup.replicas",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.num.warmup.replicas",
    "group.streams.task.offset.interval.ms",
    "producer.id.expiration.check.interval.ms",
    *OF_AUTHORIZER,
}


def _default_of_topics(topic: ConfigDef) -> ConfigDef:
    least = None if topic.name == "retention.ms" else topic.least  # Kafka checks only the topic's
    name = topic.broker_name
    has_default = name not in _WITHOUT_DEFAULT
    return replace(topic, name=name, broker_name="", least=least, is_dynamic=True, has_default=has_default)


def _marked(*configs: ConfigDef) -> Iterator[ConfigDef]:
    for config in configs:
        has_default = config.has_default and config.name not in OF_AUTHORIZER
        yield replace(config, is_internal=config.name in _INTERNAL, has_default=has_default)


BROKER_CONFIGS = by_name(
    *(_default_of_topics(config) for config in TOPIC_CONFIGS.values() if config.broker_name),
    *_marked(
        ConfigDef("auto.create.topics.enable", BOOLEAN, "true", "whether a topic is made when it is asked for"),
        ConfigDef(
            "connection.failed.authentication.delay.ms",
            INT,
            "100",
            "how much later a client is told that it has failed to authenticate",
            least=0,
        ),
        ConfigDef("connections.max.idle.ms", LONG, "600000", "how long a connection may be idle"),
        ConfigDef("connections.max.reauth.ms", LONG, "0", "how long a session of SASL lasts; 0: for ever", least=0),
        ConfigDef("default.replication.factor", INT, "1", "replicas of a topic that is made without a number", least=1),
        ConfigDef("delete.topic.enable", BOOLEAN, "true", "whether topics may be deleted"),
        ConfigDef("fetch.max.bytes", INT, "57671680", "the largest answer to a Fetch", least=1024),
        ConfigDef(
            "group.consumer.assignment.interval.ms",
            INT,
            "1000",
            "time between two assignments of a consumer group",
            least=0,
            is_dynamic=True,
        ),
        ConfigDef(
            "group.consumer.assignors", LIST, "uniform,range", "assignors of consumer groups, the default one first"
        ),
        ConfigDef(
            "group.consumer.heartbeat.interval.ms",
            INT,
            "5000",
            "time between heartbeats of a consumer group's member",
            least=1,
        ),
        ConfigDef(
            "group.consumer.max.assignment.interval.ms", INT, "15000", "the longest that a group may have", least=0
        ),
        ConfigDef(
            "group.consumer.max.heartbeat.interval.ms", INT, "15000", "the longest that a group may have", least=1
        ),
        ConfigDef("group.consumer.max.session.timeout.ms", INT, "60000", "the longest that a group may have", least=1),
        ConfigDef("group.consumer.max.size", INT, "2147483647", "members of a consumer group", least=1),
        ConfigDef(
            "group.consumer.migration.policy",
            STRING,
            "bidirectional",
            "whether groups with members of both protocols are made from classic ones, and made classic again",
            choices=("BIDIRECTIONAL", "DOWNGRADE", "UPGRADE", "DISABLED"),
        ),
        ConfigDef("group.consumer.min.assignment.interval.ms", INT, "0", "the shortest that a group may have", least=0),
        ConfigDef(
            "group.consumer.min.heartbeat.interval.ms", INT, "5000", "the shortest that a group may have", least=1
        ),
        ConfigDef("group.consumer.min.session.timeout.ms", INT, "45000", "the shortest that a group may have", least=1),
        ConfigDef(
            "group.consumer.regex.refresh.interval.ms",
            INT,
            "600000",
            "time between two looks for topics that match patterns",
            least=10000,
        ),
        ConfigDef(
            "group.consumer.session.timeout.ms",
            INT,
            "45000",
            "the session of a consumer group's member",
            least=1,
        ),
        ConfigDef(
            "group.initial.rebalance.delay.ms",
            INT,
            "0",
            "how long a new group waits for more members",
            least=0,
            kafka_default="3000",
        ),
        ConfigDef("group.max.session.timeout.ms", INT, "1800000", "the longest session of a member", least=1),
        ConfigDef("group.max.size", INT, "2147483647", "members of a group", least=1),
        ConfigDef("group.min.session.timeout.ms", INT, "6000", "the shortest session of a member", least=1),
        ConfigDef(
            "group.share.assignment.interval.ms",
            INT,
            "1000",
            "time between two assignments of a share group",
            least=0,
            is_dynamic=True,
        ),
        ConfigDef("group.share.delivery.count.limit", INT, "5", "how often a share group gets a record", least=2),
        ConfigDef(
            "group.share.heartbeat.interval.ms",
            INT,
            "5000",
            "time between heartbeats of a share group's member",
            least=1,
        ),
        ConfigDef("group.share.max.assignment.interval.ms", INT, "15000", "the longest that a group may have", least=0),
        ConfigDef("group.share.max.delivery.count.limit", INT, "10", "the most that a group may have", least=2),
        ConfigDef("group.share.max.heartbeat.interval.ms", INT, "15000", "the longest that a group may have", least=1),
        ConfigDef(
            "group.share.max.partition.max.record.locks", INT, "4000", "the most that a group may have", least=100
        ),
        ConfigDef(
            "group.share.max.record.lock.duration.ms", INT, "60000", "the longest that a group may have", least=30000
        ),
        ConfigDef("group.share.max.session.timeout.ms", INT, "60000", "the longest that a group may have", least=1),
        ConfigDef("group.share.max.share.sessions", INT, "2000", "share sessions of a broker", least=1),
        ConfigDef("group.share.max.size", INT, "200", "members of a share group", least=1),
        ConfigDef("group.share.min.assignment.interval.ms", INT, "0", "the shortest that a group may have", least=0),
        ConfigDef("group.share.min.delivery.count.limit", INT, "2", "the least that a group may have", least=2),
        ConfigDef("group.share.min.heartbeat.interval.ms", INT, "5000", "the shortest that a group may have", least=1),
        ConfigDef(
            "group.share.min.partition.max.record.locks", INT, "100", "the least that a group may have", least=100
        ),
        ConfigDef(
            "group.share.min.record.lock.duration.ms", INT, "15000", "the shortest that a group may have", least=1000
        ),
        ConfigDef("group.share.min.session.timeout.ms", INT, "45000", "the shortest that a group may have", least=1),
        ConfigDef(
            "group.share.partition.max.record.locks",
            INT,
            "2000",
            "records of a partition in flight in a share group",
            least=100,
        ),
        ConfigDef(
            "group.share.record.lock.duration.ms",
            INT,
            "30000",
            "how long a share group's member has a record",
            least=1000,
        ),
        ConfigDef("group.share.session.timeout.ms", INT, "45000", "the session of a share group's member", least=1),
        ConfigDef(
            "group.streams.acceptable.recovery.lag", LONG, "10000", "how far a warm task's state may be behind", least=0
        ),
        ConfigDef(
            "group.streams.assignment.interval.ms",
            INT,
            "1000",
            "time between two assignments of a streams group",
            least=0,
            is_dynamic=True,
        ),
        ConfigDef("group.streams.assignors", LIST, "sticky", "assignors of streams groups", choices=("sticky",)),
        ConfigDef(
            "group.streams.heartbeat.interval.ms",
            INT,
            "5000",
            "time between heartbeats of a streams group's member",
            least=1,
        ),
        ConfigDef(
            "group.streams.initial.rebalance.delay.ms",
            INT,
            "3000",
            "how long a new streams group waits for more members",
            least=0,
        ),
        ConfigDef(
            "group.streams.max.assignment.interval.ms", INT, "15000", "the longest that a group may have", least=0
        ),
        ConfigDef(
            "group.streams.max.heartbeat.interval.ms", INT, "15000", "the longest that a group may have", least=1
        ),
        ConfigDef("group.streams.max.session.timeout.ms", INT, "60000", "the longest that a group may have", least=1),
        ConfigDef("group.streams.max.size", INT, "2147483647", "members of a streams group", least=1),
        ConfigDef("group.streams.max.standby.replicas", INT, "2", "the most that a group may have", least=0),
        ConfigDef("group.streams.max.warmup.replicas", INT, "20", "the most that a group may have", least=0),
        ConfigDef("group.streams.min.assignment.interval.ms", INT, "0", "the shortest that a group may have", least=0),
        ConfigDef(
            "group.streams.min.heartbeat.interval.ms", INT, "5000", "the shortest that a group may have", least=1
        ),
        ConfigDef("group.streams.min.session.timeout.ms", INT, "45000", "the shortest that a group may have", least=1),
        ConfigDef(
            "group.streams.min.task.offset.interval.ms", INT, "15000", "the shortest that a group may have", least=1
        ),
        ConfigDef(
            "group.streams.num.standby.replicas", INT, "0", "standby replicas of each task with a state", least=0
        ),
        ConfigDef("group.streams.num.warmup.replicas", INT, "2", "warm-up replicas of tasks", least=0),
        ConfigDef("group.streams.rack.aware.assignment.tags", LIST, "", "tags that standby replicas are spread by"),
        ConfigDef("group.streams.session.timeout.ms", INT, "45000", "the session of a streams group's member", least=1),
        ConfigDef(
            "group.streams.task.offset.interval.ms", INT, "60000", "time between reports of tasks' offsets", least=1
        ),
        ConfigDef(
            "log.cleaner.backoff.ms",
            LONG,
            "15000",
            "time between two looks for logs to compact",
            least=0,
            is_dynamic=True,
        ),
        ConfigDef("log.cleaner.enable", BOOLEAN, "true", "whether logs are compacted"),
        ConfigDef("log.retention.hours", INT, "168", "hours that records are kept, where log.retention.ms is not set"),
        ConfigDef(
            "log.retention.minutes",
            INT,
            "",
            "minutes that records are kept, where log.retention.ms is not set",
            has_default=False,
        ),
        ConfigDef("log.roll.hours", INT, "168", "hours that a segment is written to, without log.roll.ms", least=1),
        ConfigDef(
            "log.roll.jitter.hours",
            INT,
            "0",
            "hours that segments are rolled earlier, without log.roll.jitter.ms",
            least=0,
        ),
        ConfigDef(
            "log.retention.check.interval.ms", LONG, "300000", "time between two looks for what is too old", least=1
        ),
        ConfigDef("max.incremental.fetch.session.cache.slots", INT, "1000", "fetch sessions", least=0),
        ConfigDef("num.partitions", INT, "1", "partitions of a topic that is made without a number", least=1),
        ConfigDef("offset.metadata.max.bytes", INT, "4096", "the longest metadata of a committed offset"),
        ConfigDef(
            "offsets.retention.check.interval.ms",
            LONG,
            "600000",
            "time between two looks for offsets that are too old",
            least=1,
        ),
        ConfigDef("offsets.retention.minutes", INT, "10080", "how long offsets of an empty group are kept", least=1),
        ConfigDef(
            "offsets.topic.num.partitions",
            INT,
            "50",
            "partitions that groups are spread over, of which transactions are part",
            least=1,
        ),
        ConfigDef(
            "producer.id.expiration.check.interval.ms",
            INT,
            "600000",
            "time between two looks for producers that are too old",
            least=1,
        ),
        ConfigDef(
            "producer.id.expiration.ms", INT, "86400000", "how long a producer is remembered", least=1, is_dynamic=True
        ),
        ConfigDef("replica.lag.time.max.ms", LONG, "30000", "how long a follower may lag and be in sync"),
        ConfigDef("socket.request.max.bytes", INT, "104857600", "the largest request", least=1),
        ConfigDef("super.users", STRING, "", "principals that no ACL denies anything, separated by ;"),
        ConfigDef(
            "allow.everyone.if.no.acl.found", BOOLEAN, "false", "whether a resource without ACLs is for everybody"
        ),
        ConfigDef(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            INT,
            "10000",
            "time between two looks for transactions that take too long",
            least=1,
        ),
        ConfigDef("transaction.max.timeout.ms", INT, "900000", "the longest transaction", least=1),
        ConfigDef(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            INT,
            "3600000",
            "time between two looks for transactional ids that are too old",
            least=1,
        ),
        ConfigDef(
            "transactional.id.expiration.ms", INT, "604800000", "how long a transactional id is remembered", least=1
        ),
    ),
)
DESCRIBED_CONFIGS = {**BROKER_CONFIGS, **UNHEEDED_CONFIGS}  # all that Kafka lists
