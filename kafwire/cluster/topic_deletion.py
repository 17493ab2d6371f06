"""Deletion of topics on brokers that know topics by their names alone: DeleteTopics before version 6 (KIP-516)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafwire import protocol
from kafwire.errors import ProtocolError


async def delete_topics(call: Callable[[Any], Awaitable[Any]], message: Any) -> Any:
    """Send a DeleteTopicsRequest that has its topics in both forms, and return the response.

    A version has one of the forms. A request with a topic id fits version 6 and newer only.

    Args:
        call: sends a request to a broker.
        message: the request, with `topics`, and with the names of those without an id in `topic_names`.

    Raises:
        ProtocolError: the broker lacks the API, or the request has a topic id and the broker knows names only.
    """
    request: Any = protocol.DeleteTopicsRequest
    try:
        return await call(message)
    except ProtocolError as error:
        if error.api != request.__name__:
            raise
        if any(topic.name is None for topic in message.topics):
            text = f"deleting a topic by its id needs Kafka 2.8 or newer: {error.message}"
            raise ProtocolError(text, api=error.api, version=error.version) from None
    return await call(request(topic_names=message.topic_names, timeout_ms=message.timeout_ms))
