"""Links of README and docs lead somewhere: to files of the tree, and to headings; every page is in docs/README.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.prose import files

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "demo", "examples", "fuzz")),
]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PATH = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.\w+")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, and the anchors there."""
    for target in LINK.findall(CODE.sub("``", page.read_text())):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{page.name} links to {target.relative_to(ROOT)}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {target.name}#{anchor}"


def test_every_page_is_listed() -> None:
    listed = {target for target, _ in links(ROOT / "docs" / "README.md")}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"}
    assert pages <= listed


def test_paths_in_the_tree_exist() -> None:
    """Docstrings, comments, scripts and code in documents name pages by their paths from the top."""
    made_up = {"tests/unit/scripts/test_site.py", "tests/unit/scripts/test_wheels.py"}
    for name in files(["."]):
        if name.endswith((".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".md", ".toml", ".sh", "Makefile")):
            for path in [] if name in made_up else PATH.findall((ROOT / name).read_text()):
                assert (ROOT / path).exists(), f"{name} names {path}"
