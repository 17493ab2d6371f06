"""Writes the tables of options into docs/reference/configuration.md, from the declarations of the options.

`python -m scripts.option_tables` writes them; a test compares them.
"""

from __future__ import annotations

from pathlib import Path

from kafwire.config import ClientConfig, ConsumerConfig, FetchConfig, ProducerConfig, ShareConsumerConfig
from kafwire.config.option_docs import default_of, meaning, names_of, own_options
from kafwire.config.security import SecurityConfig
from scripts.marks import with_part

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"
# The tables, by their marks in the page.
KINDS: dict[str, type] = {
    "clients": ClientConfig,
    "producers": ProducerConfig,
    "reading": FetchConfig,
    "consumers": ConsumerConfig,
    "share consumers": ShareConsumerConfig,
    "security": SecurityConfig,
}
HEAD = "| option | default | meaning | in other clients |\n|---|---|---|---|"


def table(kind: type) -> str:
    """The table of the options that a class declares."""
    return "\n".join([HEAD, *(f"| {' | '.join(row)} |" for row in rows(kind))])


def rows(kind: type) -> list[list[str]]:
    """The cells of a table."""
    found = []
    for item in own_options(kind):
        names = ", ".join(f"`{name}` ({', '.join(clients)})" for name, clients in names_of(item).items())
        cells = [f"`{item.name}`", _code(default_of(item)), meaning(item), names]
        found.append([cell.replace("|", "\\|") for cell in cells])
    return found


def _code(default: str) -> str:
    """A default as a cell: texts as code, so that quotation marks are part of them."""
    return f"`{default}`" if default.startswith('"') else default


def written(text: str) -> str:
    """The text of the page with its tables as they are due."""
    for name, kind in KINDS.items():
        text = with_part(text, f"<!-- {name}: begin -->", f"<!-- {name}: end -->", f"\n{table(kind)}\n\n")
    return text


def main() -> None:
    """Write the tables."""
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
