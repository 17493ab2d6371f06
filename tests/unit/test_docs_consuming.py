"""docs/guide/consuming.md and docs/guide/reading.md name each option of a consumer, with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from kafwire.config import DEFAULT_ASSIGNORS, ClientConfig, ConsumerConfig

DOCS = Path(__file__).parents[2] / "docs"
CONSUMING = (DOCS / "guide" / "consuming.md").read_text()
READING = (DOCS / "guide" / "reading.md").read_text()
MIB = 1 << 20


def rows(text: str, section: str) -> list[list[str]]:
    """The cells of a section's tables."""
    (found,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in found.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def default_of(item: Any) -> str:
    value = item.default
    if value == DEFAULT_ASSIGNORS:
        return ", ".join(f"`{name}`" for name in value)
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, str):
        return f"`{value}`"
    return f"{value // MIB} MiB" if value and value % MIB == 0 else f"{value:,}"


def test_every_option_is_there_with_its_default() -> None:
    inherited = {item.name for item in fields(ClientConfig)}
    own = {item.name: default_of(item) for item in fields(ConsumerConfig) if item.name not in inherited}
    told = {cells[0].strip("`"): cells[1] for text in (READING, CONSUMING) for cells in rows(text, "Options")[1:]}
    assert told == own


def test_no_document_says_that_there_are_no_groups() -> None:
    for file in (*DOCS.rglob("*.md"), DOCS.parent / "README.md"):
        assert not re.search("group membership[^.]*not|supported yet: consumer groups", file.read_text()), file.name
