"""`calls.producer`: a wrong argument is named, with the allowed values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafwire.calls.producer import check_partition
from kafwire.errors import ConfigError


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (2**31, "partition=2147483648: it must be from 0 to 2"),
        (2**63 - 1, "it must be from 0 to 2"),
        (-(2**31), "it must be from 0 to 2"),
        ("0", "partition='0': it must be a whole number or None"),
        (1.0, "partition=1.0: it must be a whole number or None"),
    ],
)
def test_a_partition_out_of_range_is_refused(partition: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_partition(partition)


@pytest.mark.parametrize("partition", [None, 0, np.int32(5), 2**31 - 1, -1])
def test_a_partition_in_range_is_kept(partition: Any) -> None:
    assert check_partition(partition) == partition
