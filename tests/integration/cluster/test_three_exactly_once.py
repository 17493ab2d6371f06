"""The exactly-once sink on three nodes: drivers killed and paused at each step, time-outs, brokers killed.

Each level of `transaction.version`. The drivers are processes without Spark that run the sink's own classes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafwire
from kafwire.cli import main
from kafwire.testing import KafkaCluster
from tests.support.real_topics import all_up
from tests.support.spark.sink_copies import PARTITIONS, Copies

LEVELS = ["2", pytest.param("0", marks=pytest.mark.long), pytest.param("1", marks=pytest.mark.long)]
TIMEOUT_MS = 4_000
SHORT = {"kafka.transaction.timeout.ms": str(TIMEOUT_MS)}


@pytest.fixture(scope="module", params=LEVELS)
def _level(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    if request.param == "2":
        yield request.getfixturevalue("_three")
        return
    properties = {
        "min.insync.replicas": 2,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    }
    features = ("--feature", f"transaction.version={request.param}")
    with KafkaCluster(3, format_options=features, properties=properties, heap="320m") as cluster:
        yield cluster


@pytest.fixture
def nodes(_level: KafkaCluster) -> KafkaCluster:
    """Three nodes, all of them up."""
    return all_up(_level)


def kill_at_steps(copies: Copies, steps: list[int], chance: random.Random) -> None:
    """Kill a driver at each of the steps, and the next one at a random step; a third one commits the batch."""
    for step in steps:
        for place in (step, chance.randrange(1, steps[-1] + 1)):
            with copies.driver(place, batches=1) as driver:
                if driver.has_stopped():
                    driver.kill()
        copies.run(batches=1)
        copies.judge()


def steps_of(copies: Copies) -> int:
    """The number of steps of a batch that nothing disturbs."""
    return sum(line.startswith("step ") for line in copies.run(batches=1).splitlines())


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_driver_killed_at_every_step_loses_and_repeats_nothing(
    nodes: KafkaCluster, tmp_path: Path, seed: int
) -> None:
    copies = Copies(nodes, tmp_path, 3_000)
    kill_at_steps(copies, list(range(1, steps_of(copies) + 1)), random.Random(seed))


@pytest.mark.timeout(300)
def test_a_driver_killed_at_some_steps_loses_and_repeats_nothing(
    three: KafkaCluster, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    copies = Copies(three, tmp_path, 1_000)
    kill_at_steps(copies, sorted(chance.sample(range(1, steps_of(copies) + 1), 2)), chance)


def pause_at_steps(copies: Copies, steps: list[int]) -> None:
    """Pause a driver at each of the steps until another one has committed the batch."""
    for step in steps:
        with copies.driver(step, batches=1) as old:
            if not old.has_stopped():
                continue
            copies.run(batches=1)
            copied, decisions = copies.copied, copies.decisions()
            old.resume()
        assert copies.copied == copied, f"the driver that was paused at step {step} changed rows: {old.output}"
        assert [each for each in copies.decisions() if not each.is_done] == [
            each for each in decisions if not each.is_done
        ]
        copies.judge()


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_driver_paused_at_every_step_changes_nothing(nodes: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(nodes, tmp_path, 3_000)
    pause_at_steps(copies, list(range(1, steps_of(copies) + 1)))


@pytest.mark.timeout(300)
def test_a_driver_paused_before_its_decision_changes_nothing(three: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(three, tmp_path, 100)
    with copies.driver("commit the decision", batches=1) as old:
        assert old.has_stopped()
        copies.run(batches=1)
        copied = copies.copied
        assert old.resume() == 1
    assert copies.copied == copied
    copies.judge()


@pytest.mark.timeout(300)
def test_a_time_out_after_the_decision_stops_the_sink_with_the_partitions_named(
    nodes: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = Copies(nodes, tmp_path, 60, **SHORT)
    copies.run(batches=1)
    with copies.driver("commit transaction 1", batches=1) as driver:
        assert driver.has_stopped()
        driver.kill()
    copies.wait_for_time_outs()
    before = copies.copied
    for _ in range(2):
        said = copies.run(expected=1)
        assert f"HalfCommittedError: batch 1 of query {copies.topic} was decided, and then not committed" in said
        assert f"6 records were aborted in {copies.topic}-copy-1, {copies.topic}-copy-2." in said, said
        assert copies.copied == before
    with pytest.raises(SystemExit):
        main(["spark", "recover", copies.sink, "-b", nodes.direct, "--accept-loss"])
    assert "aborted" in capsys.readouterr().out
    copies.run()
    lost = Counter(copies.source) - Counter(copies.copied)
    assert not Counter(copies.copied) - Counter(copies.source)
    assert sorted(lost) == sorted(number for number in range(9, 18) if number % PARTITIONS)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_time_out_before_the_decision_aborts_the_batch(nodes: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(nodes, tmp_path, 60, **SHORT)
    with copies.driver("task 2 is prepared") as driver:
        assert driver.has_stopped()
        copies.wait_for_time_outs()
        assert driver.resume() == 1
        assert "BatchAbortedError: batch 0 was aborted before its commit" in driver.output
    assert copies.copied == []
    copies.run()
    copies.judge()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_restart_with_another_number_of_tasks_repeats_nothing(nodes: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(nodes, tmp_path, 100)
    for step, cuts in (("write the decision", 2), ("commit transaction 1", 3), ("task 1 is prepared", 1)):
        with copies.driver(step, cuts=cuts, rows=6 // cuts) as driver:
            assert driver.has_stopped()
            driver.kill()
    copies.run(cuts=2, rows=3)
    copies.judge()
    assert copies.source == list(range(100))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_killed_attempt_of_a_task_leaves_no_visible_row(nodes: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(nodes, tmp_path, 18)
    copies.run(lost_attempt=True)
    copies.judge()
    with kafwire.scan(nodes.direct, f"{copies.topic}-copy", isolation_level="read_uncommitted") as scan:
        written = sorted(int(record.value) for batch in scan.batches() for record in batch)
    assert Counter(written) - Counter(copies.copied) == Counter([0, 9]), written


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "step", ["write the decision", "commit the decision", "commit transaction 1", "commit the done"]
)
def test_a_failed_commit_never_commits_half(nodes: KafkaCluster, tmp_path: Path, step: str) -> None:
    """Two of three nodes are killed in the commit, and so no coordinator can write. Spark then calls abort."""
    limits = {f"kafka.{name}.ms": "3000" for name in ("max.block", "default.api.timeout", "request.timeout")}
    copies = Copies(nodes, tmp_path, 60, **limits, **{"kafka.delivery.timeout.ms": "3500"})
    copies.run(batches=1)
    with copies.driver(step, batches=1) as driver:
        assert driver.has_stopped()
        for node in nodes.nodes[:2]:
            node.kill()
        assert driver.resume() == 1
        assert "the commit of batch 1 failed" in driver.output
    all_up(nodes)
    copies.run(batches=1)
    assert copies.batches == 2
    copies.judge()
    copies.run()
    copies.judge()


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_broker_killed_at_any_step_loses_and_repeats_nothing(nodes: KafkaCluster, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    copies = Copies(nodes, tmp_path, 3_000)
    for step in chance.sample(range(1, steps_of(copies) + 1), 10):
        node = chance.choice(nodes.nodes)
        with copies.driver(step, batches=1) as driver:
            assert driver.has_stopped()
            node.kill()
            driver.resume()
        copies.run(batches=1)
        all_up(nodes)
        copies.judge()
