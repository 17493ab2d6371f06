"""Writes the tables of docs/reference/protocol.md: the APIs and the other messages, from their classes.

`python -m scripts.protocol_tables` writes them; a test compares them.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from kafwire.cli.messages import version_cells
from kafwire.protocol import MESSAGES, Message, Request, Response
from kafwire.protocol.dump import requests_by_key
from scripts.marks import with_part

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "protocol.md"


def apis() -> str:
    """The table of the APIs by their keys."""
    head = "| key | API | versions | flexible | a request |\n|---:|---|---|---|---|\n"
    return head + "".join(
        f"| {key} | `{cls.name.removesuffix('Request')}` | {_cells(cls)} |\n"
        for key, cls in sorted(requests_by_key().items())
    )


def data() -> str:
    """The table of the messages that are neither requests nor responses, in the order of `MESSAGES`."""
    head = "| message | versions | flexible | |\n|---|---|---|---|\n"
    found = [cls for cls in MESSAGES.values() if not issubclass(cls, Request | Response)]
    return head + "".join(f"| `{cls.__name__}` | {_cells(cls)} |\n" for cls in found)


def written(text: str) -> str:
    """The page with both tables."""
    text = with_part(text, "<!-- apis: begin -->", "<!-- apis: end -->", f"\n{apis()}\n")
    return with_part(text, "<!-- data: begin -->", "<!-- data: end -->", f"\n{data()}\n")


def _cells(cls: type[Message]) -> str:
    versions, flexible, note = version_cells(cls)
    summary = inspect.cleandoc(cls.__doc__ or "").splitlines()[0].replace("|", "\\|")
    return f"{versions}{f'; {note}' if note else ''} | {flexible} | {summary}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
