"""The soak's script and its matrix of workloads: pure functions of the seed that leave nothing out."""

from __future__ import annotations

import itertools
import json
from collections import Counter

from kafwire.config import ConsumerConfig, ProducerConfig
from kafwire.testing.faults import BlackHole, Refuse, Throttle
from tests.soak import matrix, script
from tests.soak.matrix import CONTROL, KAFWIRE, Reading, Workload
from tests.soak.script import Episode, episodes
from tests.support import seeds

SEEDS = 20


def some(seed: int, count: int = 120, first: int = 0) -> list[Episode]:
    return list(itertools.islice(episodes(seed), first, first + count))


def test_a_seed_says_everything() -> None:
    assert some(1) == some(1)
    assert [episode.name for episode in some(1)] != [episode.name for episode in some(2)]
    struck = {next(episode.name for episode in some(seed) if not episode.rules) for seed in range(SEEDS)}
    assert len(struck) > 1  # shuffled
    assert some(1, 5, first=40) == some(1)[40:45]
    assert [episode.number for episode in some(1)] == list(range(120))


@seeds.several(SEEDS)
def test_every_kind_comes_before_any_comes_twice(seed: int) -> None:
    """Half of the episodes strike nodes."""
    parts = [name for episode in some(seed) for name in episode.name.split(", ")]
    for kinds in (script._NETWORK, script._NODES):
        dealt = [name for name in parts if name in kinds]
        for start in range(0, len(dealt) - len(kinds), len(kinds)):
            assert Counter(dealt[start : start + len(kinds)]) == Counter(dict.fromkeys(kinds, 1))
    assert set(parts) == {*script._NETWORK, *script._NODES}
    struck = sum(bool(episode.strikes) for episode in some(seed))
    assert struck == 60


@seeds.several(SEEDS)
def test_nothing_is_so_much_that_nothing_can_be_acknowledged(seed: int) -> None:
    for episode in some(seed):
        assert bool(episode.rules) == (episode.seconds > 0)
        assert episode.rules or episode.strikes
        assert episode.rest >= 2
        for rule in episode.rules:
            assert rule.probability <= 0.6
            assert rule.count is not None
            if isinstance(rule.fault, BlackHole | Throttle | Refuse):
                assert rule.fault.seconds is not None
                assert rule.fault.seconds <= 8
        assert all(0 <= strike.seconds <= 20 for strike in episode.strikes)


@seeds.several(SEEDS)
def test_a_segment_is_a_function_of_seed_and_number(seed: int) -> None:
    one = matrix.segment(seed, 3)
    assert one == matrix.segment(seed, 3)
    assert one != matrix.segment(seed, 4)
    assert one != matrix.segment(seed + 1, 3)
    drawn = [[workload.options["compression_type"] for workload in matrix.segment(seed, n).workloads] for n in range(5)]
    assert any(codecs != drawn[0] for codecs in drawn)
    names = {topic.name for topic in (*one.topics, *one.control_topics)}
    assert not names & {topic.name for topic in matrix.segment(seed, 4).topics}


@seeds.several(SEEDS)
def test_a_segment_has_all_kinds_and_codecs(seed: int) -> None:
    one = matrix.segment(seed, 0)
    own = [workload for workload in one.workloads if workload.client == KAFWIRE]
    assert {workload.kind for workload in own} == set(matrix.KINDS)
    assert {workload.options["compression_type"] for workload in one.workloads} == set(matrix.CODECS)
    for name, workloads in one.processes.items():
        assert {workload.client for workload in workloads} == {CONTROL if name == CONTROL else KAFWIRE}
    for group in (own, one.processes[CONTROL]):
        numbers = [workload.producer for workload in group]
        assert len(set(numbers)) == len(numbers)
    known = {*one.topics, *one.control_topics}
    for workload in one.workloads:
        assert {*workload.topics, *filter(None, [workload.source])} <= known
        ProducerConfig.build({"bootstrap_servers": "localhost:9092", **workload.options})


@seeds.several(SEEDS)
def test_readers_are_of_each_strategy_flavour_and_level(seed: int) -> None:
    readings = matrix.segment(seed, 0).readings
    assert {one.strategy for one in readings} == set(matrix.STRATEGIES)
    assert {(one.flavour, one.isolation_level) for one in readings} == set(
        itertools.product(matrix.FLAVOURS, matrix.LEVELS)
    )
    assert sorted(one.commits for one in readings) == ["", "", matrix.AUTO, matrix.MANUAL]
    for one in readings:
        assert one.topics == matrix.segment(seed, 0).topics
        ConsumerConfig.build({"bootstrap_servers": "localhost:9092", **one.options})
        assert Reading.from_json(json.loads(json.dumps(one.as_json()))) == one


def test_all_ways_of_reading_come() -> None:
    ways = {(one.flavour, one.way) for seed in range(SEEDS) for one in matrix.segment(seed, 0).readings}
    both = itertools.product(matrix.FLAVOURS, ("poll", "batches", "streams"))
    assert ways == {*both, ("blocking", "arrow"), ("async", "records")}


def test_workloads_survive_json() -> None:
    for workload in matrix.segment(1, 0).workloads:
        assert Workload.from_json(json.loads(json.dumps(workload.as_json()))) == workload
