"""A shorter schedule for a failing run: the fewest faults, the least load and time with which it still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafwire.testing.simulation.schedule import Event, Schedule

ATTEMPTS = 120


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], *, attempts: int = ATTEMPTS) -> Schedule:
    """Return a schedule, no longer than `schedule`, that still fails; `fails` runs one, at most `attempts` times."""
    left = attempts

    def still_fails(candidate: Schedule) -> bool:
        nonlocal left
        if left <= 0:
            return False
        left -= 1
        return fails(candidate)

    schedule = _without_events(schedule, still_fails)
    schedule = _sooner(schedule, still_fails)
    return _simpler(schedule, still_fails)


def _without_events(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Leave out faults, many at once and then fewer, as delta debugging does."""
    events = list(schedule.events)
    size = max(1, len(events) // 2)
    while events:
        position = 0
        while position < len(events):
            fewer = events[:position] + events[position + size :]
            if fails(schedule.with_events(fewer)):
                events = fewer
            else:
                position += size
        if size == 1:
            break
        size //= 2
    return schedule.with_events(events)


def _sooner(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """End the load soon after the last fault."""
    last = max((event.ends_s for event in schedule.events), default=0.0)
    for seconds in (last + 2.0, last + 20.0):
        shorter = replace(schedule, load=replace(schedule.load, seconds=seconds))
        if seconds < schedule.load.seconds and fails(shorter):
            return shorter
    return schedule


def _simpler(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Try fewer partitions, less load and shorter faults."""
    load = schedule.load
    changes: list[dict[str, Any]] = [
        {"partitions": 1},
        {"records_per_s": min(20.0, load.records_per_s)},
        {"options": {**load.options, "compression_type": "none"}},
    ]
    for change in changes:
        simpler = replace(load, **change)
        candidate = replace(schedule, load=simpler)
        if simpler != load and fails(candidate):
            schedule, load = candidate, simpler
    events = list(schedule.events)
    for index, event in enumerate(events):
        if event.lasts_s > 1.0:
            shorter: Event = replace(event, lasts_s=round(event.lasts_s / 2, 3))
            tried = [*events[:index], shorter, *events[index + 1 :]]
            if fails(schedule.with_events(tried)):
                events = tried
    return schedule.with_events(events)
