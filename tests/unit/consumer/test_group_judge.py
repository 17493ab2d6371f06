"""The judge of simulated groups, on made histories: correct ones pass, and each seeded mistake is found by its kind."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support import seeds
from tests.support.group.history import (
    Commit,
    Delivery,
    Ended,
    Excuse,
    GroupHistory,
    Guarantee,
    Hold,
    Input,
    Overlap,
    Result,
    Settled,
    Warned,
    Where,
)
from tests.support.group.judge import judge

PARTITIONS, RECORDS, HANDLED_S = 3, 12, 0.5
GUARANTEES: tuple[Guarantee, ...] = ("exactly_once", "at_least_once", "at_most_once")


def made(guarantee: Guarantee, seed: int) -> GroupHistory:
    """A correct history: two members share the partitions, and one of them leaves half-way."""
    chance = random.Random(seed)
    history = GroupHistory(guarantee, until_s=500.0)
    number = 0
    for partition in range(PARTITIONS):
        where: Where = ("in", partition)
        at_s = 10.0
        for offset in range(RECORDS):
            at_s += chance.random()
            member = "m0" if partition == 0 or offset > RECORDS / 2 else "m1"
            history.inputs.append(Input(number, where, offset, at_s, b"k%d" % chance.randrange(2)))
            done_s = at_s + HANDLED_S
            history.deliveries.append(Delivery(done_s, member, number, owns=True))
            history.settled.append(Settled(done_s, member, number))
            history.results.append(Result(done_s, number))
            history.commits.append(Commit(done_s, member, where, offset + 1, frozenset({member})))
            number += 1
    return history


def found(history: GroupHistory) -> set[str]:
    """The kinds of a history's findings."""
    return {finding.kind for finding in judge(history)}


@seeds.several(5)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_correct_history_has_no_findings(guarantee: Guarantee, seed: int) -> None:
    assert judge(made(guarantee, seed)) == []


# --- one mistake each


def repeat_a_result(history: GroupHistory, at: int) -> None:
    history.results.insert(at, history.results[at])


def lose_a_result(history: GroupHistory, at: int) -> None:
    del history.results[at]


def invent_a_result(history: GroupHistory, at: int) -> None:
    history.results.insert(at, Result(20.0, 10_000))


def process_an_old_record(history: GroupHistory, at: int) -> None:
    history.inputs[at].wanted = "no"


def write_a_stale_result_last(history: GroupHistory, at: int) -> None:
    history.inputs[at].key = history.inputs[at + 1].key  # of one key, then: at is never a partition's last
    history.results.append(history.results[at])


def commit_for_another_member(history: GroupHistory, at: int) -> None:
    history.commits[at] = history.commits[at]._replace(owners=frozenset({"m7"}))


def set_an_offset_back(history: GroupHistory, at: int) -> None:
    history.commits.insert(at + 1, history.commits[at]._replace(offset=0))


def commit_before_processing(history: GroupHistory, at: int) -> None:
    history.settled[at] = history.settled[at]._replace(at_s=history.commits[at].at_s + 1.0)


def deliver_after_the_loss(history: GroupHistory, at: int) -> None:
    history.deliveries[at] = history.deliveries[at]._replace(owns=False)


def process_late(history: GroupHistory, at: int) -> None:
    late_s = history.inputs[at].at_s + 100.0
    history.settled[at] = history.settled[at]._replace(at_s=late_s)
    history.results[at] = history.results[at]._replace(at_s=late_s)
    history.commits = [each._replace(at_s=each.at_s + 200.0) for each in history.commits]


def hang_in_silence(history: GroupHistory, at: int) -> None:
    history.hung[at] = history.inputs[at].at_s


def hold_a_rebalance_up(history: GroupHistory, at: int) -> None:
    history.holds.append(Hold(float(at), "m0", 9.0, 3.5))


def read_a_partition_of_another(history: GroupHistory, at: int) -> None:
    history.overlaps.append(Overlap(float(at), ("in", 0), "m0", "m1", 20.0))


def end_by_an_error(history: GroupHistory, at: int) -> None:
    history.ended.append(Ended(float(at), "m0", "KafkaError: no"))


Mistake = Callable[[GroupHistory, int], None]
ALL, NOT_AT_MOST = GUARANTEES, GUARANTEES[:2]
MISTAKES: list[tuple[Mistake, str, tuple[Guarantee, ...]]] = [
    (repeat_a_result, "result twice", ("exactly_once", "at_most_once")),
    (lose_a_result, "no result", NOT_AT_MOST),
    (invent_a_result, "unknown result", ALL),
    (process_an_old_record, "old record", ALL),
    (write_a_stale_result_last, "stale result last", ("at_least_once",)),
    (commit_for_another_member, "commit for another", ALL),
    (set_an_offset_back, "commit goes back", ALL),
    (commit_before_processing, "commit passes", NOT_AT_MOST),
    (deliver_after_the_loss, "delivered after loss", ("at_least_once",)),
    (process_late, "too late", ALL),
    (hang_in_silence, "hung in silence", ALL),
    (hold_a_rebalance_up, "rebalance held up", NOT_AT_MOST),
    (read_a_partition_of_another, "lasting zombie", ALL),
    (end_by_an_error, "ended by an error", ALL),
]


@seeds.several(5)
@pytest.mark.parametrize(
    ("mistake", "kind", "guarantee"),
    [(mistake, kind, guarantee) for mistake, kind, guarantees in MISTAKES for guarantee in guarantees],
)
def test_a_planted_mistake_is_found(mistake: Mistake, kind: str, guarantee: Guarantee, seed: int) -> None:
    history = made(guarantee, seed)
    partition, offset = random.Random(seed).randrange(PARTITIONS), random.Random(seed).randrange(RECORDS - 1)
    mistake(history, partition * RECORDS + offset)
    assert found(history) == {kind}


# --- reasons to wait


def test_an_excuse_covers_a_wait_and_overlapping_ones_count_once() -> None:
    history = made("at_least_once", 1)
    first = history.inputs[0]
    process_late(history, 0)
    history.commits.clear()
    history.excuses += [Excuse(first.at_s, first.at_s + 30.0, "a"), Excuse(first.at_s + 10.0, first.at_s + 35.0, "b")]
    assert found(history) == {"too late"}
    history.excuses.append(Excuse(first.at_s + 60.0, first.at_s + 70.0, "c"))
    assert found(history) == set()


def test_an_excuse_after_the_wait_does_not_lengthen_it() -> None:
    history = made("at_least_once", 1)
    history.excuses.append(Excuse(history.until_s, history.until_s + 100.0, "later"))
    assert history.excused_s(10.0, 20.0) == 0.0
    assert judge(history) == []


def test_a_warning_names_the_partition_of_a_hung_handler() -> None:
    history = made("at_least_once", 1)
    hang_in_silence(history, 0)
    history.warnings.append(Warned(history.inputs[0].at_s + 60.0, "the record at offset 0 of in-0 is stuck"))
    assert judge(history) == []


def test_a_recreated_topic_begins_at_offset_0_again() -> None:
    history = made("at_least_once", 1)
    history.commits.append(Commit(400.0, "m0", ("in", 0), 0, frozenset({"m0"}), incarnation=1))
    assert judge(history) == []
