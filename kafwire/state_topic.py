"""A compacted topic for the progress of programs: created if missing, written in their transactions, read at the start.

The key is the transactional id of a program. The outbox's relay and copies of topics have their progress in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, ConfigError
from kafwire.runtime.log import log
from kafwire.types import Tail, TopicPartition

if TYPE_CHECKING:
    from kafwire.sync.client import Client


# Always this one: a program's progress stays in one partition when others are added.
PARTITION = 0
# A program writes a record for each transaction. Small segments are soon compacted.
CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A program's last record is near the end, unless others write much more often; then more is read, at last everything.
TAILS = (256, 16_384, 1 << 40)


def ensure_topic(client: Client, topic: str, replication_factor: int, remedy: str) -> None:
    """Create the topic if missing, and check that only compaction deletes its records.

    Raises:
        ConfigError: it exists, and its `cleanup.policy` is not "compact"; `remedy` ends the text.
        KafkaError: it does not exist and cannot be created.
    """
    try:
        client.create_topic(topic, partitions=1, replication_factor=replication_factor, config=CONFIG)
        return
    except BrokerError as error:
        may_be_there = error.code == ErrorCode.TOPIC_ALREADY_EXISTS or isinstance(error, AuthorizationError)
        if not may_be_there or not _is_there(client, topic):
            raise
    try:
        policy = client.topic_config(topic).get("cleanup.policy")
    except AuthorizationError as error:
        log.info("cannot check whether topic %r is compacted: %s", topic, error, topic=topic, error=error)
        return
    if policy != "compact":
        raise ConfigError(f"topic {topic!r} has cleanup.policy={policy}: {remedy}")


def _is_there(client: Client, topic: str) -> bool:
    try:
        return bool(client.partitions_for(topic))
    except BrokerError:
        return False


def last_value(client: Client, topic: str, transactional_id: str) -> bytes | None:
    """Return the last progress that the program of this transactional id committed; None if it never did.

    No transaction of this id may be open: its last one has ended once another producer has claimed the id.
    """
    where = TopicPartition(topic, PARTITION)
    end = client.offsets([where])[where]
    for tail in TAILS if end > 0 else ():
        # With a named end, the scan waits for others' open transactions instead of stopping at them.
        with client.scan(topic, start={where: Tail(tail)}, end={where: end}, isolation_level="read_committed") as scan:
            values: list[bytes] = [
                record.value
                for batch in scan.batches()
                for record in batch
                if record.key == transactional_id.encode() and record.value is not None
            ]
        if values:
            return values[-1]
    return None
