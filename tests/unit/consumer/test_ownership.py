"""`consumer.ownership`: the first end of an assignment counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafwire.consumer.ownership import OwnershipState, PartitionOwnership

ENDS: dict[OwnershipState, Callable[[PartitionOwnership], None]] = {
    OwnershipState.RELEASED: PartitionOwnership.release,
    OwnershipState.REVOKED_LATE: PartitionOwnership.revoke_late,
    OwnershipState.LOST: PartitionOwnership.lose,
}


def test_a_partition_is_owned_from_its_assignment_on() -> None:
    ownership = PartitionOwnership()
    assert ownership.state is OwnershipState.OWNED
    assert ownership.is_owned
    assert not ownership.is_lost


@pytest.mark.parametrize("first", ENDS, ids=lambda state: state.value)
@pytest.mark.parametrize("second", ENDS, ids=lambda state: state.value)
def test_the_first_end_counts(first: OwnershipState, second: OwnershipState) -> None:
    ownership = PartitionOwnership()
    ENDS[first](ownership)
    ENDS[second](ownership)
    assert ownership.state is first
    assert not ownership.is_owned
    assert ownership.is_lost == (first is not OwnershipState.RELEASED)
    assert first.value in repr(ownership)
