"""`benchmarks.topics`: what the harness reads back from the broker."""

from __future__ import annotations

from typing import Any

import pytest

confluent_kafka = pytest.importorskip("confluent_kafka")

from benchmarks import topics  # noqa: E402


class LateConsumer:
    """A consumer that does not know the partition in its first responses."""

    def __init__(self, unknown: int) -> None:
        self.unknown = unknown

    def get_watermark_offsets(self, *_: Any) -> tuple[int, int]:
        if self.unknown:
            self.unknown -= 1
            raise confluent_kafka.KafkaException(
                confluent_kafka.KafkaError(confluent_kafka.KafkaError._UNKNOWN_PARTITION)
            )
        return 0, 7


def test_a_partition_that_metadata_do_not_show_yet_is_looked_up_again() -> None:
    consumer: Any = LateConsumer(unknown=2)
    assert topics._end_of(consumer, "t") == 7
    assert consumer.unknown == 0
