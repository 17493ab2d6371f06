"""Links of README and docs lead somewhere: to files of the tree, and to headings; every page is in docs/README.md.

Links to other sites are judged by their form: https, one spelling for each address, GitHub by number or commit.
"""

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
URL = re.compile(r"https?://[^\s)\]>\"'`|]+")
# Servers of the reader's, and addresses with a part to fill in.
OWN = re.compile(r"https?://(localhost\b|127\.0\.0\.1\b|\.\.\.|[\w.-]*\.example\b|[A-Z]+\.|\S*TENANT)")
# A branch moves: a file has the commit.
GITHUB = re.compile(
    r"https://github\.com/[\w.-]+/[\w.-]+(/(issues|pull)/\d+|/(blob|tree)/[0-9a-f]{40}(/[\w./-]+)?)?(#L\d+(-L\d+)?)?"
)
CWIKI = re.compile(r"https://cwiki\.apache\.org/confluence/display/KAFKA/KIP-[1-9]\d{0,3}(%3A\S+)?")
NAMED_KIP = re.compile(r"\[KIP-(\d+)\]\(https://[^)]*?KIP-(\d+)")
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


def wrong_urls(text: str) -> list[str]:
    """The links to other sites whose form is wrong, and mentions of KIPs without a number of Kafka's."""
    urls = [url.rstrip(".,;:") for url in URL.findall(text) if not OWN.match(url)]
    return [
        *(url for url in urls if url.startswith("http:")),
        *(url for url in urls if "//github.com" in url and not GITHUB.fullmatch(url)),
        *(url for url in urls if "//cwiki.apache.org" in url and not CWIKI.fullmatch(url)),
        *(f"KIP-{text} is KIP-{number}" for text, number in NAMED_KIP.findall(text) if text != number),
        *re.findall(r"\b(?:KIP[ _]\d+|KIP\d+|KIP-0\d*|KIP-\d{5,})", text),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_other_sites_have_their_form(page: Path) -> None:
    assert wrong_urls(page.read_text()) == []


def test_an_address_has_one_spelling() -> None:
    spelt: dict[str, set[str]] = {}
    for url in (url.rstrip(".,;:") for page in PAGES for url in URL.findall(page.read_text())):
        spelt.setdefault(re.sub(r"^https?://(www\.)?", "", url.partition("#")[0]).rstrip("/").lower(), set()).add(
            url.partition("#")[0]
        )
    assert [spellings for spellings in spelt.values() if len(spellings) > 1] == []


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("http://kafka.apache.org/protocol", False),
        ("http://localhost:8081", True),
        ("https://github.com/apache/kafka/blob/trunk/README.md", False),
        (f"https://github.com/apache/kafka/blob/{'0a' * 20}/README.md#L7", True),
        ("https://github.com/apache/kafka/issues", False),
        ("[a](https://github.com/apache/kafka/pull/7).", True),
        ("https://cwiki.apache.org/confluence/display/KAFKA/KIP848", False),
        ("[KIP-98](https://cwiki.apache.org/confluence/display/KAFKA/KIP-98%3A+Exactly)", True),
        ("[KIP-98](https://cwiki.apache.org/confluence/display/KAFKA/KIP-89)", False),
        ("KIP 848", False),
        ("KIP-848", True),
    ],
)
def test_the_form_of_a_link_is_judged(text: str, is_right: bool) -> None:
    assert (wrong_urls(text) == []) is is_right


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
