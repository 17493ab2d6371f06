"""docs/producing.md names what there is: every metric."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.simulated import World
from tests.support.simulated_producer import Work

TEXT = (Path(__file__).parents[2] / "docs" / "producing.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The cells of a section's tables."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_metric_is_there() -> None:
    told = {name for cells in rows("Metrics") for name in re.findall(r"`(\w+)`", cells[0])} - {"producer", "partitions"}
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        work.send("t", b"v")
        work.flush()
        found = work.sender.metrics()
    (partition,) = found["partitions"].values()
    assert told == {*found["producer"], *partition}
