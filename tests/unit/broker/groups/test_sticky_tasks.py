"""The assignor of streams groups: every task once, evenly, where it was, with replicas on other processes.

Kafka's own results are compared in `tests/integration/broker/test_broker_streams_groups_compared.py`.
"""

from __future__ import annotations

import random
from collections import Counter

from kafwire.broker.groups.sticky_tasks import Given, TaskHolder, TasksSpec, sticky
from kafwire.broker.groups.streams_topology import Task
from tests.support import seeds


def drawn(chance: random.Random) -> TasksSpec:
    """Members in processes, subtopologies with and without a state."""
    processes = [f"p{number}" for number in range(chance.randint(1, 4))]
    members = {f"m{number}": TaskHolder(chance.choice(processes)) for number in range(chance.randint(1, 8))}
    subtopologies = {
        str(number): (chance.randint(1, 6), chance.random() < 0.7) for number in range(chance.randint(1, 3))
    }
    return TasksSpec(members, subtopologies, chance.randint(0, 2))


def held(spec: TasksSpec, given: dict[str, Given], *, without: str | None = None) -> TasksSpec:
    """The members with what they were given; one has left."""
    members = {
        name: TaskHolder(each.process_id, frozenset(given[name].active), frozenset(given[name].standby))
        for name, each in spec.members.items()
        if name != without
    }
    return TasksSpec(members, spec.subtopologies, spec.standby_replicas)


def check(spec: TasksSpec, given: dict[str, Given]) -> None:
    tasks = {Task(name, index): state for name, (count, state) in spec.subtopologies.items() for index in range(count)}
    active = Counter(task for each in given.values() for task in each.active)
    assert active == dict.fromkeys(tasks, 1), "each task runs once"
    processes = len({each.process_id for each in spec.members.values()})
    by_process: dict[str, Counter[Task]] = {}
    for name, each in given.items():
        its = by_process.setdefault(spec.members[name].process_id, Counter())
        its.update(each.active | each.standby)
        assert not each.active & each.standby
    assert all(max(its.values(), default=0) <= 1 for its in by_process.values()), "no process has a task twice"
    standby = Counter(task for each in given.values() for task in each.standby)
    wanted = min(spec.standby_replicas, processes - 1)
    assert standby == {task: wanted for task, state in tasks.items() if state and wanted}


@seeds.several(200)
def test_tasks_are_assigned_once_and_replicas_to_other_processes(seed: int) -> None:
    spec = drawn(random.Random(seed))
    check(spec, sticky(spec))


@seeds.several(100)
def test_tasks_stay_where_they_are(seed: int) -> None:
    chance = random.Random(seed)
    spec = drawn(chance)
    given = sticky(spec)
    again = held(spec, given)
    assert {name: each.active for name, each in sticky(again).items()} == {
        name: each.active for name, each in given.items()
    }
    if len(spec.members) > 1:
        left = held(spec, given, without=chance.choice([*spec.members]))
        after = sticky(left)
        check(left, after)


def test_a_task_goes_to_the_member_with_its_state() -> None:
    spec = TasksSpec(
        {
            "a": TaskHolder("p1"),
            "b": TaskHolder("p2", offsets={Task("0", 0): 10}),
            "c": TaskHolder("p3", offsets={Task("0", 0): 70, Task("0", 1): 1}),
        },
        {"0": (2, True)},
    )
    assert [name for name, each in sticky(spec).items() if Task("0", 0) in each.active] == ["c"]


def test_replicas_that_no_process_is_left_for_are_not_assigned() -> None:
    spec = TasksSpec({"a": TaskHolder("p1"), "b": TaskHolder("p1")}, {"0": (4, True)}, standby_replicas=1)
    given = sticky(spec)
    assert {name: len(each.active) for name, each in given.items()} == {"a": 2, "b": 2}
    assert not any(each.standby for each in given.values())
