"""Libraries that consume Arrow streams, old and new: each reads a scan and a consumer's stream within a time limit.

Most of them are downloaded, so this belongs to the long run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka
from tests.support.arrow_consumers import CONSUMERS, ROWS, ArrowConsumer, build_probe, read

TOPIC = "flights"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedKafka() as kafka:
        with kafwire.Producer(kafka.bootstrap, batch_size=10_000) as producer:
            for number in range(ROWS):
                producer.send(TOPIC, b"EWR-IAH", key=b"%d" % number)
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_probe(tmp_path_factory.mktemp("probe"))


@pytest.mark.parametrize("way", ["scan", "consumer"])
@pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda each: " ".join((each.name, *each.requirements)))
def test_a_library_reads_a_stream(consumer: ArrowConsumer, way: str, bootstrap: str, probe: Path) -> None:
    found = read(consumer, bootstrap, TOPIC, way, probe)
    print(f"{consumer.name} {found.version} {way}: {found.with_gil} with the GIL, {found.without_gil} without")
    assert found.rows == ROWS if consumer.keeps_all else 0 < found.rows < ROWS
    assert found.with_gil + found.without_gil > 5, "the engine fetches while the library reads"
