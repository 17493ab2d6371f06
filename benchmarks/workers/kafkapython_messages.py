"""kafka-python on a message in memory."""

from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

from benchmarks import responses
from benchmarks.workers.common import Options, Pass, Stopwatch, work

TIMES = 5


def decode_metadata(_options: Options) -> Callable[[], Pass]:
    """Decode a Metadata response."""
    cls = import_module("kafka.protocol.metadata").MetadataResponse
    return _repeat(cls, responses.metadata(), responses.METADATA_VERSION, lambda message: len(message.topics) == 1_000)


def decode_fetch(_options: Options) -> Callable[[], Pass]:
    """Decode a Fetch response."""
    cls = import_module("kafka.protocol.consumer.fetch").FetchResponse
    return _repeat(cls, responses.fetch(), responses.FETCH_VERSION, lambda message: len(message.responses) == 100)


def _repeat(cls: Any, data: bytes, version: int, is_right: Callable[[Any], bool]) -> Callable[[], Pass]:
    if not is_right(cls.decode(data, version=version)):
        raise ValueError("kafka-python reads another message")

    def once() -> Pass:
        clock = Stopwatch()
        for _ in range(TIMES):
            cls.decode(data, version=version)
        return Pass(clock.seconds(), TIMES, TIMES * len(data))

    return once


if __name__ == "__main__":
    work({"metadata": decode_metadata, "fetch": decode_fetch}, metadata.version("kafka-python"))
