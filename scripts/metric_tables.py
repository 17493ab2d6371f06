"""Writes the tables of metrics into docs/operate/metrics.md, from the registry.

`python -m scripts.metric_tables` writes them; a test compares them.
"""

from __future__ import annotations

from pathlib import Path

from kafwire.telemetry.registry import METRICS, SECTIONS
from scripts.marks import with_part

PAGE = Path(__file__).parents[1] / "docs" / "operate" / "metrics.md"
HEAD = "| metric | type | unit | meaning | in Prometheus |\n|---|---|---|---|---|"


def table(section: str) -> str:
    """The table of a section."""
    rows = []
    for metric in METRICS:
        if metric.section == section:
            name = f"`{metric.name}`" if metric.name else ""
            rows.append(
                f"| `{metric.key}` | {metric.kind.replace('_', ' ')} | {metric.unit} | {metric.help} | {name} |"
            )
    return "\n".join([HEAD, *rows])


def written(text: str) -> str:
    """The text of the page with its tables as they are due."""
    for section in SECTIONS:
        text = with_part(text, f"<!-- {section}: begin -->", f"<!-- {section}: end -->", f"\n{table(section)}\n\n")
    return text


def main() -> None:
    """Write the tables."""
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
