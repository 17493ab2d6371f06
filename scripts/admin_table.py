"""Names the comparisons with Java's `Admin` in the table of docs/reference/admin.md, by method.

`python -m scripts.admin_table` writes the last column; a test compares it. Other text of a cell stays.
"""

from __future__ import annotations

import re
from pathlib import Path

from kafwire.testing.cluster.kafka import OLDEST_VERSION
from tests.support.java.admin_comparison import NOT_IN_OLDEST, all_comparisons

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "admin.md"
_ROW = re.compile(r"^\| `(\w+)` \| (.+?) \|(.*)\|$", re.MULTILINE)
_NAMED = re.compile(r"`test_java_admin\[\w+\]`(?: \(not on 3\.9\.1: [^)]*\))?(?:, )?")


def with_compared(text: str) -> str:
    """The page with the comparisons of each method, `text` being what it has now."""
    compared = {each.method for each in all_comparisons()}

    def row(found: re.Match[str]) -> str:
        method, ours, cell = found.groups()
        other = _NAMED.sub("", cell).strip()
        gap = f" (not on {OLDEST_VERSION}: {NOT_IN_OLDEST[method]})" if method in NOT_IN_OLDEST else ""
        named = [f"`test_java_admin[{method}]`{gap}"] * (method in compared)
        text = ", ".join([*named, *([other] if other else [])])
        return f"| `{method}` | {ours} | {text} |" if text else f"| `{method}` | {ours} | |"

    return _ROW.sub(row, text)


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_compared(PAGE.read_text()))


if __name__ == "__main__":
    main()
