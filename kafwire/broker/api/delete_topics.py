"""DeleteTopics (20): deletes topics by their names, or by their ids. See KIP-4, KIP-516."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.topics import NO_TOPIC_ID
from kafwire.errors import ErrorCode
from kafwire.protocol import DeleteTopicsRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


UNKNOWN_NAME = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."


def handle(state: ClusterState, request: Request) -> Response:
    """Delete each existing topic that the request names once."""
    message = request.message
    asked = _asked(request)
    if not state.config_is("delete.topic.enable"):
        code = (
            ErrorCode.TOPIC_DELETION_DISABLED
            if request.version >= DeleteTopicsRequest.DELETION_DISABLED
            else ErrorCode.INVALID_REQUEST
        )
        return _response([(name, topic_id, code, None) for name, topic_id in asked])
    if message.timeout_ms <= 0:
        return _response([(name, topic_id, ErrorCode.REQUEST_TIMED_OUT, None) for name, topic_id in asked])
    return _response(_delete(state, asked))


Result = tuple[str | None, uuid.UUID, int, str | None]


def _asked(request: Request) -> list[tuple[str | None, uuid.UUID]]:
    if request.version >= DeleteTopicsRequest.BY_TOPIC_ID:
        return [(topic.name, topic.topic_id) for topic in request.message.topics]
    return [(name, NO_TOPIC_ID) for name in request.message.topic_names]


def _response(results: list[Result]) -> Any:
    response = protocol.DeleteTopicsResponse
    return response(
        responses=[
            response.DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=text)
            for name, topic_id, code, text in results
        ]
    )


def _delete(state: ClusterState, asked: list[tuple[str | None, uuid.UUID]]) -> list[Result]:
    invalid, times = ErrorCode.INVALID_REQUEST, Counter(asked)
    results: list[Result] = []
    found: dict[uuid.UUID, str] = {}
    for name, topic_id in times:
        if name is None and topic_id == NO_TOPIC_ID:
            results.extend(
                [(name, topic_id, invalid, "Neither topic name nor id were specified.")] * times[name, topic_id]
            )
        elif name is not None and topic_id != NO_TOPIC_ID:
            results.extend(
                [(name, topic_id, invalid, "You may not specify both topic name and topic id.")] * times[name, topic_id]
            )
        elif times[name, topic_id] > 1:
            results.append((name, topic_id, invalid, f"Duplicate topic {'id' if name is None else 'name'}."))
        elif name is None:
            topic = state.topics.by_id.get(topic_id)
            if topic is None:
                results.append((None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_ID))
            else:
                found[topic_id] = topic.name
    for name, topic_id in times:
        if name is None or topic_id != NO_TOPIC_ID or times[name, topic_id] > 1:
            continue
        topic = state.topics.by_name.get(name)
        if topic is None:
            results.append((name, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_NAME))
        elif topic.topic_id in found or times[None, topic.topic_id] > 1:
            found.pop(topic.topic_id, None)
            text = "The provided topic name maps to an ID that was already supplied."
            results.append((name, topic.topic_id, invalid, text))
        else:
            found[topic.topic_id] = name
    for topic_id, name in found.items():
        state.topics.delete(state.topics.by_id[topic_id])
        results.append((name, topic_id, 0, None))
    return results
