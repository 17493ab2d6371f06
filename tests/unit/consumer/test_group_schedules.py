"""Random schedules of what befalls a group, in the simulated world: see `tests/support/group/schedule.py`."""

from __future__ import annotations

from tests.support import seeds
from tests.support.group.schedule import run


@seeds.several(6)
def test_groups_keep_their_promises_whatever_befalls_them(seed: int) -> None:
    assert run(seed) == []
