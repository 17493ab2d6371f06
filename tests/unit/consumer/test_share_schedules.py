"""Random schedules of a share group, in the simulated world: see `tests/support/share/schedule.py`."""

from __future__ import annotations

from tests.support import seeds
from tests.support.share.schedule import run


@seeds.several(10)
def test_each_record_is_seen_and_ends_as_its_user_said(seed: int) -> None:
    assert run(seed) == []
