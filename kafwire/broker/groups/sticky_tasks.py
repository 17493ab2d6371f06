"""The assignor `sticky` of streams groups, with Kafka's results. See Kafka's `StickyTaskAssignor`, KIP-1071.

Members keep their tasks as far as that is even. The order of Java's hash tables and of its `PriorityQueue` decides
between equals, so this module follows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafwire.broker.groups.hash_order import hash_of_text, in_hash_order
from kafwire.broker.groups.streams_topology import Task

STICKY = "sticky"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskHolder:
    """A member for the assignor. `offsets`: the reported offsets of its state of tasks, running or not."""

    process_id: str
    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    offsets: Mapping[Task, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TasksSpec:
    """The tasks to assign. `subtopologies`, sorted by id: the number of tasks of each, and whether it has a state."""

    members: Mapping[str, TaskHolder]
    subtopologies: Mapping[str, tuple[int, bool]]
    standby_replicas: int = 0


@dataclass(slots=True)
class Given:
    """The tasks of one member."""

    active: set[Task] = field(default_factory=set)
    standby: set[Task] = field(default_factory=set)


def sticky(spec: TasksSpec) -> dict[str, Given]:
    """Return the tasks of each member."""
    assignment = _Assignment(spec)
    assignment.assign_active()
    if spec.standby_replicas:
        assignment.assign_standby()
    return assignment.given


class _Heap(Generic[T]):
    """Java's `PriorityQueue`. Python's `heapq` returns equal items in another order."""

    def __init__(self, key: Callable[[T], float], items: Iterable[T]) -> None:
        self._key = key
        self._items: list[T] = []
        for item in items:
            self.add(item)

    def add(self, item: T) -> None:
        items, at = self._items, len(self._items)
        items.append(item)
        while at and self._key(item) < self._key(items[(at - 1) // 2]):
            items[at] = items[(at - 1) // 2]
            at = (at - 1) // 2
        items[at] = item

    def take(self) -> T | None:
        items = self._items
        if not items:
            return None
        first, last = items[0], items.pop()
        if items:
            at = 0
            while at < len(items) // 2:
                child = 2 * at + 1
                if child + 1 < len(items) and self._key(items[child]) > self._key(items[child + 1]):
                    child += 1
                if self._key(last) <= self._key(items[child]):
                    break
                items[at] = items[child]
                at = child
            items[at] = last
        return first

    def __len__(self) -> int:
        return len(self._items)


class _Process:
    """The members of one process, and their tasks."""

    def __init__(self) -> None:
        self.tasks: set[Task] = set()
        self.counts: dict[str, int] = {}  # tasks of each member
        self._total = 0
        self._by_load: _Heap[str] | None = None

    def load(self) -> float:
        return self._total / len(self.counts)

    def add(self, member: str, task: Task) -> int:
        """Count a task for a member. Return its number of tasks."""
        self._by_load = None
        return self._count(member, task)

    def _count(self, member: str, task: Task) -> int:
        self._total += 1
        self.tasks.add(task)
        self.counts[member] += 1
        return self.counts[member]

    def add_to_least_loaded(self, task: Task) -> tuple[str, int]:
        """Count a task for the member with the fewest. Return the member, and its number of tasks."""
        if self._by_load is None:
            self._by_load = _Heap(self.counts.__getitem__, in_hash_order(self.counts, hash_of_text))
        member = self._by_load.take()
        assert member is not None
        count = self._count(member, task)
        self._by_load.add(member)
        return member, count


class _Share:
    """The most tasks of a member: fewer once others have reached it."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.quota = -(-tasks // members)

    def reached(self, count: int) -> None:
        """Note that a member has this many tasks now."""
        if count == self.quota:
            self._members -= 1
            self._tasks -= count
            self.quota = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    def __init__(self, spec: TasksSpec) -> None:
        self._spec = spec
        self.given = {member: Given() for member in spec.members}
        active = sum(count for count, _ in spec.subtopologies.values())
        stateful = sum(count for count, is_stateful in spec.subtopologies.values() if is_stateful)
        self._active_share = _Share(active, len(spec.members))
        self._total_share = _Share(active + stateful * spec.standby_replicas, len(spec.members))
        members = in_hash_order(spec.members, hash_of_text)
        self._processes: dict[str, _Process] = {}
        self._ran: dict[Task, str] = {}  # the member that has run each active task
        candidates: dict[Task, list[tuple[bool, int, str]]] = {}
        for member in members:
            its = spec.members[member]
            self._processes.setdefault(its.process_id, _Process()).counts[member] = 0
            self._ran.update(dict.fromkeys(its.active, member))
            for task in its.standby:
                candidates.setdefault(task, []).append((False, -its.offsets.get(task, 0), member))
            for task in its.offsets.keys() - its.standby:
                candidates.setdefault(task, []).append((True, -its.offsets[task], member))
        # Members with a task's state: first those with it as a standby task, then by the offset of the state.
        self._had_state = {
            task: [member for _, _, member in sorted(found, key=lambda each: each[:2])]
            for task, found in candidates.items()
        }

    def _process_of(self, member: str) -> _Process:
        return self._processes[self._spec.members[member].process_id]

    def _tasks(self, *, only_stateful: bool) -> list[Task]:
        return [
            Task(name, index)
            for name, (count, is_stateful) in self._spec.subtopologies.items()
            if is_stateful or not only_stateful
            for index in range(count)
        ]

    def _by_load(self) -> _Heap[_Process]:
        buckets = 1 << (len(self._spec.members) - 1).bit_length()
        order = in_hash_order(self._processes, hash_of_text, buckets=buckets, computed=True)
        return _Heap(_Process.load, [self._processes[each] for each in order])

    # --- active tasks

    def assign_active(self) -> None:
        """Leave tasks where they run, else where their state is, and give the rest to the least loaded members."""
        left = sorted(self._tasks(only_stateful=False), key=lambda task: (task.partition, task.subtopology_id))
        left = [task for task in left if not self._keep_active(task, self._ran.get(task))]
        left = [task for task in left if not self._keep_active(task, self._least_loaded(self._had_state.get(task)))]
        by_load = self._by_load()
        for task in sorted(left):
            process = by_load.take()
            assert process is not None
            self._give_active(task, *process.add_to_least_loaded(task))
            by_load.add(process)

    def _keep_active(self, task: Task, member: str | None) -> bool:
        if member is None or self._process_of(member).counts[member] >= self._active_share.quota:
            return False
        self._give_active(task, member, self._process_of(member).add(member, task))
        return True

    def _give_active(self, task: Task, member: str, count: int) -> None:
        self.given[member].active.add(task)
        self._active_share.reached(count)
        self._total_share.reached(count)

    def _least_loaded(self, members: Sequence[str] | None, without: Task | None = None) -> str | None:
        """Return the first member with a task's state for which no later one has less of both loads.

        `without`: a task that the member's process must not have.
        """
        best: str | None = None
        least = 0.0, 0
        for member in members or ():
            process = self._process_of(member)
            if without is None or without not in process.tasks:
                loads = process.load(), process.counts[member]
                if best is None or (loads[0] < least[0] and loads[1] < least[1]):
                    best, least = member, loads
        return best

    # --- standby tasks

    def assign_standby(self) -> None:
        """Leave replicas with members that have the state, and give the rest to the least loaded."""
        tasks = self._tasks(only_stateful=True)
        left = []
        for task in sorted(tasks, key=lambda each: (each.partition, each.subtopology_id), reverse=True):
            kept = 0
            while kept < self._spec.standby_replicas and self._keep_standby(task):
                kept += 1
            left.append((task, self._spec.standby_replicas - kept))
        by_load = self._by_load()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._give_to_least_loaded(by_load, task):
                    break

    def _keep_standby(self, task: Task) -> bool:
        for member in (self._ran.get(task), self._least_loaded(self._had_state.get(task), without=task)):
            if member is None:
                continue
            process = self._process_of(member)
            if task not in process.tasks and process.counts[member] < self._total_share.quota:
                self._give_standby(task, member, process.add(member, task))
                return True
        return False

    def _give_standby(self, task: Task, member: str, count: int) -> None:
        self.given[member].standby.add(task)
        self._total_share.reached(count)

    def _give_to_least_loaded(self, by_load: _Heap[_Process], task: Task) -> bool:
        """Give a replica to the least loaded process without the task. Return True if there is one."""
        process = by_load.take()
        if process is None:
            return False
        if task not in process.tasks:
            self._give_standby(task, *process.add_to_least_loaded(task))
            found = True
        else:
            found = self._give_to_least_loaded(by_load, task)
        by_load.add(process)
        return found
