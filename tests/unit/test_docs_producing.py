"""docs/guide/producing.md names every option of a producer, with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from kafwire.config import ClientConfig, ProducerConfig

TEXT = (Path(__file__).parents[2] / "docs" / "guide" / "producing.md").read_text()
SHOWN = {"acks": '`"all"`', "compression_type": "`none`", "partitioner": "`murmur2_random`"}
MIB = 1 << 20


def rows(section: str) -> list[list[str]]:
    """The cells of a section's tables."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def default_of(item: Any) -> str:
    if item.name in SHOWN:
        return SHOWN[item.name]
    value = item.default
    if isinstance(value, bool) or value is None:
        return str(value)
    return f"{value // MIB} MiB" if value and value % MIB == 0 else f"{value:,}"


def test_every_option_is_there_with_its_default() -> None:
    inherited = {item.name for item in fields(ClientConfig)}
    own = [item for item in fields(ProducerConfig) if item.name not in inherited]
    told = {cells[0].strip("`"): cells[1] for cells in rows("Options")[1:]}
    assert told == {item.name: default_of(item) for item in own}
    assert list(told) == [item.name for item in own], "in the order of the configuration"
