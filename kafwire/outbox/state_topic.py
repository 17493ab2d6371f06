"""The compacted topic in which relays write down their progress: made if it is missing, and read at the start."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, ConfigError
from kafwire.outbox.progress import Progress
from kafwire.types import Tail, TopicPartition

if TYPE_CHECKING:
    from kafwire.sync.client import Client

log = logging.getLogger("kafwire")

# However many the topic has: a relay's progress stays in one partition when others are added.
PARTITION = 0
# A relay writes a record for each transaction. Small segments are compacted soon.
CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A relay's last record is near the end, unless others write much more often; then more is read, and at last everything.
TAILS = (256, 16_384, 1 << 40)


def ensure_topic(client: Client, topic: str, replication_factor: int) -> None:
    """See that the topic is there, and that nothing but compaction deletes its records.

    Raises:
        ConfigError: it is there, and its `cleanup.policy` is not "compact".
        KafkaError: it is not there and cannot be made.
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
        log.info("whether topic %r is compacted is not known: %s", topic, error)
        return
    if policy != "compact":
        raise ConfigError(
            f"topic {topic!r} has cleanup.policy={policy}: rows whose progress is deleted from it could be relayed "
            "again; set it to compact, or give another state_topic"
        )


def _is_there(client: Client, topic: str) -> bool:
    try:
        return bool(client.partitions_for(topic))
    except BrokerError:
        return False


def last_progress(client: Client, topic: str, transactional_id: str) -> Progress | None:
    """What the relay of this transactional id has last committed; None if it has never.

    No transaction of this id may be open: its last one has ended when another producer has taken the id over.
    """
    where = TopicPartition(topic, PARTITION)
    end = client.offsets([where])[where]
    for tail in TAILS if end > 0 else ():
        # The end is named: what other relays have open in the partition is waited for, and not taken for its end.
        with client.scan(topic, start={where: Tail(tail)}, end={where: end}, isolation_level="read_committed") as scan:
            values = [
                record.value
                for batch in scan.batches()
                for record in batch
                if record.key == transactional_id.encode() and record.value is not None
            ]
        if values:
            return Progress.decode(values[-1])
    return None
