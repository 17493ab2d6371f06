"""Background compaction of the embedded broker and of a real one: the same records are left of the same segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.deadlines import until

CONFIGS = {"log.cleaner.backoff.ms": 100, "log.retention.ms": -1}
HOUR_MS = 3_600_000
Written = list[tuple[int, bytes, bytes | None]]
Left = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[str, str]]:
    with EmbeddedKafka(configs=CONFIGS) as embedded, KafkaCluster(properties=CONFIGS) as cluster:
        yield embedded.bootstrap, cluster.bootstrap


def write(bootstrap: str, topic: str, records: Written) -> None:
    """Write records of so many hours ago, each a batch: an hour is more than a segment has."""
    now_ms = int(time.time() * 1000)
    with kafwire.Producer(bootstrap, linger_ms=0) as producer:
        for hours, key, value in records:
            producer.send(topic, value, key=key, timestamp_ms=now_ms - hours * HOUR_MS, partition=0).result(30)


def left(bootstrap: str, topic: str) -> Left:
    with kafwire.scan(bootstrap, topic) as scan:
        return [(record.offset, record.key, record.value) for batch in scan.batches() for record in batch]


def has_offsets(now: Callable[[], Left], offsets: list[int]) -> bool:
    return [offset for offset, _, _ in now()] == offsets


# A cleaner that comes between two writes cleans less: the records left in the end are the same with any ratio.
ANY_RATIO = {"min.cleanable.dirty.ratio": "0.01"}
CASES: dict[str, tuple[dict[str, str], Written, list[int]]] = {
    "closed segments alone": (
        {**ANY_RATIO, "segment.ms": f"{HOUR_MS // 2}"},
        [(9, b"a", b"1"), (8, b"b", b"1"), (7, b"a", b"2"), (6, b"c", None), (5, b"a", b"3")],
        [1, 2, 3, 4],
    ),
    "none that is young": (
        {**ANY_RATIO, "segment.ms": f"{HOUR_MS // 2}", "min.compaction.lag.ms": f"{5 * HOUR_MS + HOUR_MS // 2}"},
        [(9, b"a", b"1"), (8, b"a", b"2"), (5, b"a", b"3"), (4, b"a", b"4"), (3, b"a", b"5")],
        [1, 2, 3, 4],
    ),
    "those that are too old whatever the ratio is": (
        {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": f"{HOUR_MS // 2}"},
        [(9, b"a", b"1"), (8, b"a", b"2"), (7, b"a", b"3"), (6, b"a", b"4")],
        [2, 3],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_is_left(both: tuple[str, str], topic_name: str, case: str) -> None:
    configs, records, offsets = CASES[case]
    for bootstrap in both:
        with kafwire.Client(bootstrap) as client:
            client.create_topic(topic_name, partitions=1, config={"cleanup.policy": "compact", **configs})
        write(bootstrap, topic_name, records)
    found: list[Left] = []
    for bootstrap in both:
        now = partial(left, bootstrap, topic_name)
        until(partial(has_offsets, now, offsets), f"{offsets} of {bootstrap}", 40)
        found.append(now())
    assert found[0] == found[1]
