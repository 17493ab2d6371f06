"""Responses above `max_frame_bytes`: they fail the partition that has the large batch, and no other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from kafwire.errors import RecordTooLargeError
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, write
from tests.support.simulated.scan import Scanning
from tests.support.simulated.world import World

LIMIT = 64 << 10


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_large_batch_fails_its_partition_alone(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        rows["t", 1] += write(world, "t", 1, size=2 * LIMIT)
        write(world, "t", 1)
        expected = {**rows, ("t", 1): rows["t", 1][:-1]}
        with Consuming(world, topics="t", max_frame_bytes=LIMIT, **strategy) as consuming:
            with pytest.raises(RecordTooLargeError, match=r"t-1 at offset 12 .*max_frame_bytes \(65536\)"):
                consuming.until(lambda: False, limit_s=20)
            rows["t", 2] += write(world, "t", 2, records=3)
            for _ in range(20):  # each read raises the error again, and delivers the other partitions
                with suppress(RecordTooLargeError):
                    consuming.until(lambda: len(consuming.rows.get(("t", 2), ())) == 15)
                consuming.idle(0.2)
            assert {where: consuming.rows[where] for where in expected} == {**expected, ("t", 2): rows["t", 2]}
            consuming.seek(13, "t", 1)
            consuming.until(lambda: len(consuming.rows["t", 1]) == 13)


def test_ordinary_records_are_read_with_a_small_frame_limit() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3, batches=100, size=2_000)
        with Consuming(world, topics="t", max_frame_bytes=LIMIT) as consuming:
            consuming.until_read(rows)


@pytest.mark.parametrize("behind", [False, True])
def test_a_scan_names_the_option(behind: bool) -> None:
    with World() as world:
        fill(world, "t", partitions=2)
        write(world, "t", 1, size=2 * LIMIT)
        if behind:
            write(world, "t", 1)
        with pytest.raises(RecordTooLargeError, match="t-1 at offset 12 .*max_frame_bytes"):
            Scanning(world, "t", max_frame_bytes=LIMIT).all()


def test_the_other_partitions_are_delivered_before_the_error() -> None:
    with World() as world:
        world.create_topic("t", partitions=3)
        write(world, "t", 0, size=2 * LIMIT)
        others = {("t", number): write(world, "t", number, records=3) for number in (1, 2)}
        with Consuming(world, topics="t", max_frame_bytes=LIMIT) as consuming:
            with pytest.raises(RecordTooLargeError, match="t-0 at offset 0"):
                consuming.until(lambda: False, limit_s=20)
            assert consuming.rows == others
