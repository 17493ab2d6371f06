"""The soak on one node without faults: nothing is found in kafwire's producers, and every planted mistake is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafwire.testing.cluster import KafkaCluster
from tests.soak import hop, matrix
from tests.soak.evidence import keep
from tests.soak.matrix import KAFWIRE, SEND, Segment
from tests.soak.mistakes import MISTAKES, READERS, TRANSACTIONAL
from tests.soak.script import Episode
from tests.soak.segment import Outcome, SegmentRun
from tests.support import seeds

FOUND_AS = {
    "resend": {"duplicated"},
    "drop": {"lost"},
    "early": {"lost"},
    "overtake": {"misordered"},
    "tear": {"torn"},
    "outside": {"dirty"},
    "behind": {"torn"},
    "skip": {"lost"},
    "rekey": {"altered"},
    "misplace": {"altered"},
    "deny": {"phantom"},
    "leap": {"skipped"},
    "again": {"repeated"},
    "dirty": {"dirty"},
    # By the chain, which has a judge of its own.
    "forget": set(),
    "twice": set(),
}
# One of a sender in transactions, and one of a live reader.
EVERY_RUN = ("tear", "again")
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def proxied() -> Iterator[KafkaCluster]:
    with KafkaCluster(proxies=True, properties={"transaction.state.log.min.isr": 1}) as running:
        yield running


def quiet() -> Iterator[Episode]:
    return (Episode(number, "nothing", 0, 0.0, 0.5, (), ()) for number in itertools.count())


def run(segment: Segment, cluster: KafkaCluster, folder: Path, mistake: str | None = None) -> Outcome:
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:.1f} s  {line}")

    return SegmentRun(segment, 1, cluster, folder, tell=tell, mistake=mistake).run(quiet(), 1.0)


@pytest.mark.long  # CI has a soak besides
def test_a_correct_run_has_no_finding(proxied: KafkaCluster, tmp_path: Path) -> None:
    seed = seeds.of_test()
    segment = matrix.segment(seed, next(NUMBERS))
    outcome = run(segment, proxied, tmp_path / "segment")
    assert outcome.violations == []
    assert outcome.kafwire.counts["acked"] > 500
    assert outcome.kafwire.counts["committed"] > 0
    assert outcome.control.counts["acked"] > 0
    assert outcome.control.counts["committed"] > 0
    assert not any((outcome.kafwire.found + outcome.control.found).values())
    assert outcome.kafwire.counts["views"] == outcome.control.counts["views"] == 4
    assert outcome.kafwire.counts["live"] == 4
    assert outcome.kafwire.counts["followed"] > 1_000
    assert outcome.kafwire.counts["chain"] > 50


@pytest.mark.parametrize("mistake", seeds.sampled(MISTAKES, *EVERY_RUN))
def test_a_mistake_is_found(proxied: KafkaCluster, tmp_path: Path, mistake: str) -> None:
    number = next(NUMBERS)
    segment = matrix.segment(1, number)
    while any(topic.partitions == 1 for topic in segment.topics):
        number += 1_000
        segment = matrix.segment(1, number)
    if mistake in TRANSACTIONAL or mistake == "dirty":
        alone = tuple(
            replace(one, rate=2_000.0, rows=20, aborts=0.5) for one in segment.processes["kafwire-transactions"]
        )
    else:
        sender = next(one for one in segment.workloads if one.kind == SEND)
        alone = (replace(sender, rate=2_000.0, rows=20, keys=7, placement="partition"),)
    readings = segment.readings if mistake in (*READERS, "dirty") else ()
    hops = segment.hops if mistake in hop.MISTAKES else ()
    if hops:
        alone = tuple(replace(one, rate=1_000.0) for one in segment.workloads if one.topics == (hops[0].source,))
    segment = replace(segment, processes={KAFWIRE: alone}, control_topics=(), readings=readings, hops=hops)
    folder = tmp_path / "segment"
    outcome = run(segment, proxied, folder, mistake)
    assert outcome.violations
    assert {kind for kind, count in outcome.kafwire.found.items() if count} >= FOUND_AS[mistake]
    (report,) = outcome.reports.values()
    if mistake in hop.MISTAKES:
        assert all("the chain" in violation for violation in outcome.violations)
        return
    assert report.findings
    keep(folder, proxied, outcome.reports, segment.topics)
    listed = [file.read_text() for file in (folder / "segments" / "node-1").glob("soak-*.txt")]
    assert listed
    assert mistake == "early" or any("Head(base_offset=0" in text for text in listed)
    assert (folder / "node-1.log").stat().st_size
