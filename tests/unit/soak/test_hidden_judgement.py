"""`soak.hidden_judgement`: plans by seed, inputs that members had reported as committed, and the faults of a sink."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.soak.hidden_judgement import READERS, Input, Plan, Verdict, judge, plan, reported

ENDS = {0: 4, 1: 2}
ALL = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
STRICT = [reader for reader in READERS if reader[1] == "read_committed"]


def values(inputs: Iterable[Input]) -> list[bytes]:
    return [b"%d/%d" % one for one in inputs]


def verdict_of(
    claimed: set[Input], offsets: dict[int, int], *, committed: Iterable[Input] = (), uncommitted: Iterable[Input] = ()
) -> Verdict:
    """The verdict if readers see everything but the inputs named for their level."""
    missing = {"read_committed": set(committed), "read_uncommitted": set(uncommitted)}
    seen = {(client, level): values(one for one in ALL if one not in missing[level]) for client, level in READERS}
    return judge(ENDS, claimed, offsets, seen)


def test_the_same_seed_plans_the_same_and_leaders_differ() -> None:
    plans = [plan(7, cycle, 3) for cycle in range(200)]
    assert plans == [plan(7, cycle, 3) for cycle in range(200)]
    assert plans != [plan(8, cycle, 3) for cycle in range(200)]
    assert all(len(set(each.leaders)) == 3 for each in plans)
    assert {each.victim for each in plans} == {"transactions", "offsets"}
    assert {each.order for each in plans} == {"stop first", "kill first", "hold markers"}
    assert {lane.stage for each in plans for lane in each.lanes} == {"written", "flushed", "offsets", "commit"}
    assert {lane.successor for each in plans for lane in each.lanes} == {True, False}


def test_markers_are_held_from_a_transactions_coordinator_before_the_commit() -> None:
    held: list[Plan] = [each for each in (plan(7, cycle, 2) for cycle in range(200)) if each.order == "hold markers"]
    assert held
    assert {each.victim for each in held} == {"transactions"}
    assert {lane.stage for each in held for lane in each.lanes} == {"offsets"}


def test_only_inputs_of_ended_commits_are_reported() -> None:
    lines = """\
A 1 5 0,1
R 2 0 0 2
R 2 1 0 1
C 3 ok
R 4 0 2 3
E 5 TransactionAbortableError the transaction is aborted, begin another
R 6 0 3 4
C 7 ok
R 8 1 1 2
L 9""".splitlines()
    assert reported([lines]) == {(0, 0), (0, 1), (1, 0), (0, 3)}
    assert reported([["R 1 0 0 1"], ["C 2 ok"]]) == set()  # another process's commit says nothing of it
    assert reported([["R 1 0 0 1", "C 2 FencedError", "C 3 ok"]]) == set()


def test_a_whole_sink_is_well() -> None:
    assert verdict_of(set(ALL), ENDS) == Verdict()
    assert verdict_of(set(ALL), ENDS).lines == []


def test_inputs_that_were_neither_reported_nor_passed_by_offsets_may_be_missing() -> None:
    gone = {(0, 3)}
    assert verdict_of({(0, 0)}, {0: 3, 1: 2}, committed=gone, uncommitted=gone) == Verdict()
    assert verdict_of({(0, 0)}, {0: 3, 1: 2}, committed=gone) == Verdict()


@pytest.mark.parametrize(("claimed", "offsets"), [({(0, 2)}, {}), (set(), {0: 3}), ({(0, 2)}, {0: 3})])
def test_owed_inputs_in_the_log_are_hidden_from_committed_readers(claimed: set[Input], offsets: dict[int, int]) -> None:
    found = verdict_of(claimed, offsets, committed={(0, 2)})
    assert found == Verdict(hidden=frozenset({(0, 2)}))
    assert found.lines == ["1 hidden from a reader of committed records, as 0/2"]


def test_owed_inputs_that_no_reader_sees_are_lost() -> None:
    gone = {(0, 2), (1, 1)}
    assert verdict_of(set(ALL), ENDS, committed=gone, uncommitted=gone) == Verdict(lost=frozenset(gone))


@pytest.mark.parametrize("blind", STRICT)
def test_one_blind_reader_is_a_finding(blind: tuple[str, str]) -> None:
    seen = {reader: values(ALL) for reader in READERS}
    seen[blind] = values(ALL[1:])
    found = judge(ENDS, set(ALL), ENDS, seen)
    assert found == Verdict(hidden=frozenset({(0, 0)}), disagreed=frozenset({(0, 0)}))


def test_a_result_twice_and_a_stray_one_are_findings() -> None:
    seen = {reader: values([*ALL, (0, 1)]) for reader in READERS}
    assert judge(ENDS, set(ALL), ENDS, seen) == Verdict(twice=frozenset({(0, 1)}))
    repeated = {reader: values(ALL if reader in STRICT else [*ALL, (0, 1)]) for reader in READERS}
    assert judge(ENDS, set(ALL), ENDS, repeated) == Verdict()  # of an aborted transaction
    stray = {reader: values([*ALL, (0, 9)]) for reader in READERS}
    assert judge(ENDS, set(ALL), ENDS, stray) == Verdict(stray=frozenset({(0, 9)}))
