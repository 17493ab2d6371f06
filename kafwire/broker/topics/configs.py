"""The options of brokers that this broker heeds, with Kafka's names, and Kafka's defaults except where noted.

A topic's option that is not in `topic_configs.py` is refused with INVALID_CONFIG. The defaults of topics' options are
options of brokers, too. `config_store.py` has the options that are set while brokers run.
"""

from __future__ import annotations

from dataclasses import replace

from kafwire.broker.topics.config_def import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigDef,
    by_name,
    from_table,
)
from kafwire.broker.topics.topic_configs import TOPIC_CONFIGS
from kafwire.broker.topics.unheeded_configs import UNHEEDED_CONFIGS

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


# Options without a default in Kafka: if unset, these coarser options hold. The numbers are milliseconds per unit.
COARSER = {
    "log.retention.ms": {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
    "log.roll.ms": {"log.roll.hours": 3_600_000},
    "log.roll.jitter.ms": {"log.roll.jitter.hours": 3_600_000},
}
OF_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
_WITHOUT_DEFAULT = {*COARSER, "log.flush.interval.ms"}
_TABLE = """
auto.create.topics.enable boolean fixed true whether a request that names a missing topic creates it
connection.failed.authentication.delay.ms int fixed,0.. 100 delay of the response to a failed authentication
connections.max.idle.ms long fixed 600000 how long a connection may be idle
connections.max.reauth.ms long fixed,0.. 0 how long a session of SASL lasts; 0: for ever
default.replication.factor int fixed,1.. 1 replicas of a topic that is made without a number
delegation.token.expiry.check.interval.ms long fixed,1.. 3600000 time between checks for expired delegation tokens
delegation.token.expiry.time.ms long fixed,1.. 86400000 how long a delegation token is valid unless it is renewed
delegation.token.max.lifetime.ms long fixed,1.. 604800000 the time after which a delegation token cannot be renewed
delegation.token.secret.key password fixed - the key of delegation tokens; unset: no tokens
delete.topic.enable boolean fixed true whether topics may be deleted
fetch.max.bytes int fixed,1024.. 57671680 the largest response to a Fetch
group.consumer.assignment.interval.ms int dynamic,0.. 1000 time between two assignments of a consumer group
group.consumer.assignors list fixed uniform,range assignors of consumer groups, the default one first
group.consumer.heartbeat.interval.ms int fixed,1.. 5000 time between heartbeats of a consumer group's member
group.consumer.max.assignment.interval.ms int fixed,0.. 15000 the largest value of a group's option
group.consumer.max.heartbeat.interval.ms int fixed,1.. 15000 the largest value of a group's option
group.consumer.max.session.timeout.ms int fixed,1.. 60000 the largest value of a group's option
group.consumer.max.size int fixed,1.. 2147483647 members of a consumer group
group.consumer.min.assignment.interval.ms int fixed,0.. 0 the smallest value of a group's option
group.consumer.min.heartbeat.interval.ms int fixed,1.. 5000 the smallest value of a group's option
group.consumer.min.session.timeout.ms int fixed,1.. 45000 the smallest value of a group's option
group.consumer.regex.refresh.interval.ms int fixed,internal,10000.. 600000 time between checks for topics that match patterns
group.consumer.session.timeout.ms int fixed,1.. 45000 the session of a consumer group's member
group.max.session.timeout.ms int fixed,1.. 1800000 the longest session of a member
group.max.size int fixed,1.. 2147483647 members of a group
group.min.session.timeout.ms int fixed,1.. 6000 the shortest session of a member
group.share.assignment.interval.ms int dynamic,0.. 1000 time between two assignments of a share group
group.share.delivery.count.limit int fixed,2.. 5 how often a share group gets a record
group.share.heartbeat.interval.ms int fixed,1.. 5000 time between heartbeats of a share group's member
group.share.max.assignment.interval.ms int fixed,0.. 15000 the largest value of a group's option
group.share.max.delivery.count.limit int fixed,2.. 10 the largest value of a group's option
group.share.max.heartbeat.interval.ms int fixed,1.. 15000 the largest value of a group's option
group.share.max.partition.max.record.locks int fixed,100.. 4000 the largest value of a group's option
group.share.max.record.lock.duration.ms int fixed,30000.. 60000 the largest value of a group's option
group.share.max.session.timeout.ms int fixed,1.. 60000 the largest value of a group's option
group.share.max.share.sessions int fixed,1.. 2000 share sessions of a broker
group.share.max.size int fixed,1.. 200 members of a share group
group.share.min.assignment.interval.ms int fixed,0.. 0 the smallest value of a group's option
group.share.min.delivery.count.limit int fixed,2.. 2 the smallest value of a group's option
group.share.min.heartbeat.interval.ms int fixed,1.. 5000 the smallest value of a group's option
group.share.min.partition.max.record.locks int fixed,100.. 100 the smallest value of a group's option
group.share.min.record.lock.duration.ms int fixed,1000.. 15000 the smallest value of a group's option
group.share.min.session.timeout.ms int fixed,1.. 45000 the smallest value of a group's option
group.share.partition.max.record.locks int fixed,100.. 2000 records of a partition in flight in a share group
group.share.record.lock.duration.ms int fixed,1000.. 30000 how long a record stays acquired by a share group's member
group.share.session.timeout.ms int fixed,1.. 45000 the session of a share group's member
group.streams.acceptable.recovery.lag long fixed,internal,0.. 10000 how far a warm task's state may be behind
group.streams.assignment.interval.ms int dynamic,0.. 1000 time between two assignments of a streams group
group.streams.heartbeat.interval.ms int fixed,1.. 5000 time between heartbeats of a streams group's member
group.streams.initial.rebalance.delay.ms int fixed,0.. 3000 how long a new streams group waits for more members
group.streams.max.assignment.interval.ms int fixed,0.. 15000 the largest value of a group's option
group.streams.max.heartbeat.interval.ms int fixed,1.. 15000 the largest value of a group's option
group.streams.max.session.timeout.ms int fixed,1.. 60000 the largest value of a group's option
group.streams.max.size int fixed,1.. 2147483647 members of a streams group
group.streams.max.standby.replicas int fixed,0.. 2 the largest value of a group's option
group.streams.max.warmup.replicas int fixed,internal,0.. 20 the largest value of a group's option
group.streams.min.assignment.interval.ms int fixed,0.. 0 the smallest value of a group's option
group.streams.min.heartbeat.interval.ms int fixed,1.. 5000 the smallest value of a group's option
group.streams.min.session.timeout.ms int fixed,1.. 45000 the smallest value of a group's option
group.streams.min.task.offset.interval.ms int fixed,internal,1.. 15000 the smallest value of a group's option
group.streams.num.standby.replicas int fixed,0.. 0 standby replicas of each task with a state
group.streams.num.warmup.replicas int fixed,internal,0.. 2 warm-up replicas of tasks
group.streams.rack.aware.assignment.tags list fixed "" tags that standby replicas are spread by
group.streams.session.timeout.ms int fixed,1.. 45000 the session of a streams group's member
group.streams.task.offset.interval.ms int fixed,internal,1.. 60000 time between reports of tasks' offsets
log.cleaner.backoff.ms long dynamic,0.. 15000 time between checks for logs to compact
log.cleaner.enable boolean fixed true whether logs are compacted
log.dirs list fixed - names of the log directories of each broker; none: one
log.retention.check.interval.ms long fixed,1.. 300000 time between checks for records that are too old
log.retention.hours int fixed 168 hours that records are kept, where log.retention.ms is not set
log.retention.minutes int fixed - minutes that records are kept, where log.retention.ms is not set
log.roll.hours int fixed,1.. 168 hours that a segment is written to, without log.roll.ms
log.roll.jitter.hours int fixed,0.. 0 hours that segments are rolled earlier, without log.roll.jitter.ms
max.incremental.fetch.session.cache.slots int fixed,0.. 1000 fetch sessions
num.partitions int fixed,1.. 1 partitions of a topic that is made without a number
offset.metadata.max.bytes int fixed 4096 the longest metadata of a committed offset
offsets.retention.check.interval.ms long fixed,1.. 600000 time between checks for offsets that are too old
offsets.retention.minutes int fixed,1.. 10080 how long offsets of an empty group are kept
offsets.topic.num.partitions int fixed,1.. 50 partitions that groups are spread over, of which transactions are part
producer.id.expiration.check.interval.ms int fixed,internal,1.. 600000 time between checks for producers that are too old
producer.id.expiration.ms int dynamic,1.. 86400000 how long a producer is remembered
replica.lag.time.max.ms long fixed 30000 how long a follower may lag and be in sync
socket.request.max.bytes int fixed,1.. 104857600 the largest request
transaction.abort.timed.out.transaction.cleanup.interval.ms int fixed,1.. 10000 time between checks for transactions that take too long
transaction.max.timeout.ms int fixed,1.. 900000 the longest transaction
transaction.remove.expired.transaction.cleanup.interval.ms int fixed,1.. 3600000 time between checks for transactional ids that are too old
transactional.id.expiration.ms int fixed,1.. 604800000 how long a transactional id is remembered
"""  # noqa: E501 - a row of the table is a line


def _default_of_topics(topic: ConfigDef) -> ConfigDef:
    least = None if topic.name == "retention.ms" else topic.least  # Kafka checks the bound only for topics
    name = topic.broker_name
    has_default = name not in _WITHOUT_DEFAULT
    return replace(topic, name=name, broker_name="", least=least, is_dynamic=True, has_default=has_default)


BROKER_CONFIGS = by_name(
    *(_default_of_topics(config) for config in TOPIC_CONFIGS.values() if config.broker_name),
    *from_table(_TABLE),
    ConfigDef(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        "false",
        "whether all principals may use a resource without ACLs",
        has_default=False,
        is_internal=True,
    ),
    ConfigDef(
        "authorizer.class.name",
        STRING,
        "",
        "the authorizer, which enforces ACLs; empty: none",
        choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ),
    ConfigDef(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "whether classic groups become groups of both protocols, and back",
        choices=("BIDIRECTIONAL", "DOWNGRADE", "UPGRADE", "DISABLED"),
    ),
    ConfigDef(
        "group.initial.rebalance.delay.ms",
        INT,
        "0",
        "how long a new group waits for more members",
        least=0,
        kafka_default="3000",
    ),
    ConfigDef("group.streams.assignors", LIST, "sticky", "assignors of streams groups", choices=("sticky",)),
    ConfigDef(
        "super.users",
        STRING,
        "",
        "principals that may do everything, separated by ;",
        has_default=False,
        is_internal=True,
    ),
)
DESCRIBED_CONFIGS = {**BROKER_CONFIGS, **UNHEEDED_CONFIGS}  # all that Kafka lists
