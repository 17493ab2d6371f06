"""The requests of a share consumer: ShareFetch and ShareAcknowledge, and the error codes of a response. Pure."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.config import ShareConsumerConfig
from kafwire.consumer.share.acquired import Place
from kafwire.consumer.share.share_session import ShareTopics

ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": 1}


def fetch_request(
    config: ShareConsumerConfig, member_id: str, topics: ShareTopics, *, wait_ms: int, records: int
) -> Any:
    """Return a ShareFetch that acquires about `records` records; the broker may wait `wait_ms` for them."""
    request: Any = protocol.ShareFetchRequest
    return request(
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=topics.epoch,
        max_wait_ms=wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        max_records=records,
        batch_size=config.max_poll_records,
        share_acquire_mode=ACQUIRE_MODES[config.share_acquire_mode],
        topics=_topics(request.FetchTopic, request.FetchPartition, request.AcknowledgementBatch, topics),
        forgotten_topics_data=[
            request.ForgottenTopic(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in topics.forgotten.items()
        ],
    )


def acknowledge_request(config: ShareConsumerConfig, member_id: str, topics: ShareTopics, *, renews: bool) -> Any:
    """Return a ShareAcknowledge; `renews`: it has renewals of locks."""
    request: Any = protocol.ShareAcknowledgeRequest
    return request(
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=topics.epoch,
        is_renew_ack=renews,
        topics=_topics(request.AcknowledgeTopic, request.AcknowledgePartition, request.AcknowledgementBatch, topics),
    )


def codes_of(response: Any) -> dict[Place, int]:
    """Return the error code of each partition of a ShareAcknowledge response."""
    return {
        (topic.topic_id, part.partition_index): part.error_code
        for topic in response.responses
        for part in topic.partitions
    }


def _topics(topic_kind: Any, partition_kind: Any, batch_kind: Any, said: ShareTopics) -> list[Any]:
    return [
        topic_kind(
            topic_id=topic_id,
            partitions=[
                partition_kind(
                    partition_index=number,
                    acknowledgement_batches=[
                        batch_kind(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
                        for first, last, kinds in batches
                    ],
                )
                for number, batches in partitions.items()
            ],
        )
        for topic_id, partitions in said.topics.items()
    ]
