"""docs/consuming.md names what there is: each metric of a member."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.support.group_consumers import GroupWorld

DOCS = Path(__file__).parents[2] / "docs"
CONSUMING = (DOCS / "consuming.md").read_text()


def rows(text: str, section: str) -> list[list[str]]:
    """The cells of a section's tables."""
    (found,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in found.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_metric_of_a_member_is_there() -> None:
    told = {name for cells in rows(CONSUMING, "Metrics") for name in re.findall(r"`(\w+)`", cells[0])}
    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add()
            await group.balanced([member], 4)
            await asyncio.sleep(1.0)
            assert set((await member.consumer.metrics())["group"]) == told

        group.world.run(main())


def test_no_document_says_that_there_are_no_groups() -> None:
    for file in (*DOCS.glob("*.md"), DOCS.parent / "README.md"):
        assert not re.search("group membership[^.]*not|supported yet: consumer groups", file.read_text()), file.name
