"""The soak's perils on real clusters: the log lost the missing records, and readers got an error."""

from __future__ import annotations

import pytest

from tests.soak import perils

pytestmark = pytest.mark.long

LOSES = {"delete-records", "compacted", "recreated", "unclean"}


@pytest.mark.parametrize("name", perils.PERILS)
def test_a_peril(name: str) -> None:
    (result,) = perils.run([name], print)
    assert result.violations == []
    if result.skipped:
        return  # it says why; the summary does too
    assert result.acked > 500
    assert (result.missing > 0) == (name in LOSES)
    assert (result.reported > 0) == (name in LOSES - {"compacted"})
