"""No page says that kafwire has no groups."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_no_document_says_that_there_are_no_groups() -> None:
    for file in (*DOCS.rglob("*.md"), DOCS.parent / "README.md"):
        assert not re.search("group membership[^.]*not|supported yet: consumer groups", file.read_text()), file.name
