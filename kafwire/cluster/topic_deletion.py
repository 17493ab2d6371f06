"""DeleteTopics for brokers of all versions: topics have ids from version 6 on, and names before (KIP-516)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafwire import protocol
from kafwire.cluster.requirements import is_lacking, newer_needed
from kafwire.errors import ProtocolError


async def delete_topics(call: Callable[[Any], Awaitable[Any]], message: Any) -> Any:
    """Send a DeleteTopicsRequest, and return the response.

    Args:
        call: sends a request to a broker.
        message: the request, with all topics in `topics`.

    Raises:
        ProtocolError: the broker lacks the API, or the request has a topic id, and the broker deletes by names only.
    """
    request: Any = protocol.DeleteTopicsRequest
    try:
        return await call(message)
    except ProtocolError as error:
        if not is_lacking(error, request):
            raise
        if any(topic.name is None for topic in message.topics):
            raise newer_needed(error, "deleting a topic by its id", "2.8") from None
    return await call(request(topic_names=[topic.name for topic in message.topics], timeout_ms=message.timeout_ms))
