"""kafwire on a message in memory: decoded; and decoded with every field read, so that nothing is put off."""

from collections.abc import Callable
from typing import Any

import kafwire
from benchmarks import responses
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire.consumer.fetch._fetch import parse_response
from kafwire.memory._buffer import Buffer
from kafwire.protocol import FetchResponse, MetadataResponse

TIMES = 200


def metadata(_options: Options) -> Callable[[], Pass]:
    """Decode a Metadata response."""
    return _repeat(MetadataResponse, responses.metadata(), responses.METADATA_VERSION, _nothing)


def metadata_read(_options: Options) -> Callable[[], Pass]:
    """Decode a Metadata response and look at each partition's arrays."""
    return _repeat(MetadataResponse, responses.metadata(), responses.METADATA_VERSION, _read_metadata)


def fetch(_options: Options) -> Callable[[], Pass]:
    """Decode a Fetch response."""
    return _repeat(FetchResponse, responses.fetch(), responses.FETCH_VERSION, _nothing)


def fetch_read(_options: Options) -> Callable[[], Pass]:
    """Decode a Fetch response and look at each partition."""
    return _repeat(FetchResponse, responses.fetch(), responses.FETCH_VERSION, _read_fetch)


def fetch_engine(_options: Options) -> Callable[[], Pass]:
    """Read a Fetch response as the fetcher of a scan does: every partition, its records as slices of the frame."""
    body = responses.fetch()
    frame = Buffer(b"\0\0\0\1\0" + body)
    if len(parse_response(frame, responses.FETCH_VERSION).partitions) != 1_000:
        raise ValueError("the response has 1,000 partitions")

    def once() -> Pass:
        clock = Stopwatch()
        for _ in range(TIMES):
            parse_response(frame, responses.FETCH_VERSION)
        return Pass(clock.seconds(), TIMES, TIMES * len(body))

    return once


def _nothing(_message: Any) -> int:
    return 0


def _read_metadata(message: Any) -> int:
    return sum(len(topic.partitions) for topic in message.topics)


def _read_fetch(message: Any) -> int:
    return sum(len(topic.partitions) for topic in message.responses)


def _repeat(cls: Any, data: bytes, version: int, read: Callable[[Any], int]) -> Callable[[], Pass]:
    if cls.decode(data, version).encode(version) != data:
        raise ValueError("decoding and encoding changes the message")

    def once() -> Pass:
        clock = Stopwatch()
        for _ in range(TIMES):
            read(cls.decode(data, version))
        return Pass(clock.seconds(), TIMES, TIMES * len(data))

    return once


if __name__ == "__main__":
    work(
        {
            "metadata": metadata,
            "metadata_read": metadata_read,
            "fetch": fetch,
            "fetch_read": fetch_read,
            "fetch_engine": fetch_engine,
        },
        kafwire.__version__,
    )
