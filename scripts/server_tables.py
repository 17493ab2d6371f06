"""Writes the profiles of other servers into docs/reference/server-profiles.md, from `kafwire.broker.profiles`.

`python -m scripts.server_tables` writes them; a test compares them.
"""

from __future__ import annotations

from pathlib import Path

from kafwire.broker import dispatch
from kafwire.broker.profiles import PROFILES, ServerProfile
from scripts.marks import with_part

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "server-profiles.md"
BEGIN, END = "<!-- profiles: begin -->", "<!-- profiles: end -->"


def section(profile: ServerProfile) -> str:
    """The section of a profile."""
    rows = [
        f"| {each.text} | {'yes' if each.is_modelled else 'no'} | [source]({each.source}) |"
        for each in profile.differences
    ]
    ranges = (
        f"{its.name} {low}" + (f"-{high}" if high > low else "")
        for its, (low, high) in dispatch.offered(profile).values()
    )
    return "\n".join(
        [
            f"## {profile.title}",
            "",
            f'`EmbeddedKafka(server="{profile.name}")`. Unverified; it describes: {profile.described}.',
            "",
            "| difference from Kafka | modelled | source |",
            "|---|---|---|",
            *rows,
            "",
            f"Advertised versions: {', '.join(sorted(ranges))}.",
            "",
        ]
    )


def written(text: str) -> str:
    """The text of the page with its sections as they are due."""
    return with_part(text, BEGIN, END, "\n" + "\n".join(section(each) for each in PROFILES.values()) + "\n")


def main() -> None:
    """Write the sections."""
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
