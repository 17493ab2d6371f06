"""The tables of docs/reference/cli.md about Kafka's own tools."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.doc_names import rows

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def rows_of_tools() -> dict[str, list[list[str]]]:
    """Return the rows of each tool's table, without the header: its options, and kafwire's."""
    section = PAGE.read_text().partition("\n## Kafka's tools\n")[2].partition("\n## ")[0]
    _, *parts = re.split(r"^### (.*)\.sh$", section, flags=re.MULTILINE)
    return {tool: list(rows(text))[1:] for tool, text in zip(parts[::2], parts[1::2], strict=True)}
