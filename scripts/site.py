"""Builds the site of the documentation in build/site, and checks its links and text: `make docs`.

The pages keep their places of the repository: a link holds on GitHub and in the site. The site has other files that
pages link to. The navigation is the order of the links in docs/README.md. mkdocstrings reads the API from a copy
of the sources, without an import.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
NAME = re.compile(r"<code>[^<]*</code>")
VERBATIM = {"code", "pre", "script", "style"}
STYLE = Path(__file__).with_suffix(".css")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
SECTION = re.compile(r"^## ([^:\n]+).*$", re.MULTILINE)
# The words before the links of a part of a section: "Clients:", "Results, a diary: [reading](...)".
PART = re.compile(r"^(?:- )?([A-Z][^:,\[\n]*)(?:,[^:\[\n]*)?:(?= \[|$)", re.MULTILINE)
# A line that should have become a list, a table, a link or a fence.
RAW = re.compile(r"^(?:[-*+] |\d+\. |\||```|:::).*|\[[^\]\n]*\]\([^)\s]+\)", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    """The pages of the site, by their paths from the top."""
    folders = ("benchmarks", "demo", "examples", "fuzz")
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / name / "README.md" for name in folders)]
    return sorted(path.relative_to(root) for path in found)


def linked(root: Path, page: Path) -> Iterator[Path]:
    """The files of the repository that a page links to."""
    for _, target in LINK.findall(CODE.sub("``", (root / page).read_text())):
        path = (root / page.parent / target.partition("#")[0]).resolve()
        if "://" not in target and path.is_file():
            yield path.relative_to(root)


def titled(root: Path, page: Path) -> str:
    """The text of a page whose links have the titles of pages in the place of their files' names."""

    def link(found: re.Match[str]) -> str:
        text, target = found.groups()
        path = root / page.parent / target.partition("#")[0]
        return f"[{_title(path.read_text())}]({target})" if text.endswith(".md") and path.is_file() else found[0]

    return LINK.sub(link, (root / page).read_text())


def navigation(root: Path) -> list[object]:
    """The pages by the sections of docs/README.md and their parts."""
    _, *parts = SECTION.split((root / "docs" / "README.md").read_text())
    sections: list[object] = [{"kafwire": "README.md"}, {"All pages": "docs/README.md"}]
    seen: set[Path] = set()
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        first, *named = PART.split(text)
        found = [{part: _entries(root, links, seen)} for part, links in zip(named[::2], named[1::2], strict=True)]
        sections.append({heading: [*_entries(root, first, seen), *found]})
    return sections


def _entries(root: Path, text: str, seen: set[Path]) -> list[dict[str, str]]:
    """The titles and paths of the pages that a text links to, except those that are in the navigation already."""
    entries = []
    for _, target in LINK.findall(text):
        path = (root / "docs" / target.partition("#")[0]).resolve().relative_to(root)
        if path.suffix == ".md" and path not in seen:
            seen.add(path)
            entries.append({_title((root / path).read_text()): str(path)})
    return entries


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].replace("`", "") if found else "?"


def stage(root: Path, build: Path) -> None:
    """Copy the pages, the files that they link to, and the sources; write the configuration with the navigation."""
    shutil.rmtree(build, ignore_errors=True)
    chosen = {*pages(root), *(file for page in pages(root) for file in linked(root, page))}
    for path in chosen:
        _copied(root / path, build / "pages" / path)
    for page in pages(root):
        (build / "pages" / page).write_text(titled(root, page))
    for kind in ("*.py", "*.pyi"):
        for path in (root / "kafwire").rglob(kind):
            # The parser of docstrings knows this section by its plural, and the fields of this module's dataclasses.
            text = re.sub(r"^( +)Example:$", r"\1Examples:", path.read_text(), flags=re.MULTILINE)
            text = text.replace("from kafwire.lazy_dataclass import", "from dataclasses import")
            target = build / "source" / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    shutil.copyfile(STYLE, build / "pages" / STYLE.name)
    head, mark, rest = (root / "zensical.toml").read_text().partition("[project]\n")
    (build / "zensical.toml").write_text(f"{head}{mark}nav = {_toml(navigation(root))}\n{rest}")


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


def breakable(page: str) -> str:
    """The text of a page whose names in tables break behind underscores and dots, and nowhere else."""
    return CELL.sub(
        lambda cell: NAME.sub(lambda name: re.sub(r"(?<=\w)[_.](?=\w)", r"\g<0><wbr>", name[0]), cell[0]), page
    )


class _Page(HTMLParser):
    """The links, the anchors and the prose of one built page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.prose: list[str] = []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's anchor and its link; count the elements of code around the text."""
        self._code += tag in VERBATIM
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif name in {"href", "src"} and value:
                self.targets.append(value)

    def handle_endtag(self, tag: str) -> None:
        """Count the elements of code; one stands for a word."""
        self._code -= tag in VERBATIM
        self.prose += ["x"] * (tag == "code")

    def handle_data(self, data: str) -> None:
        """Keep text outside of code."""
        if not self._code:
            self.prose.append(data)


def raw(site: Path) -> list[str]:
    """Markdown that a built site shows as text: a line for each, with its page."""
    return [
        f"{path.relative_to(site)}: {found[0][:80]!r} is Markdown"
        for path in sorted(site.rglob("*.html"))
        for found in RAW.finditer("".join(_Page(path.read_text()).prose))
    ]


def broken(site: Path) -> list[str]:
    """The links of a built site that lead nowhere: a line for each, with its page."""
    read = {path.resolve(): _Page(path.read_text()) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in read.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            other = other / "index.html" if other.is_dir() else other
            anchor = unquote(parts.fragment)
            if not other.exists() or (anchor and other in read and anchor not in read[other].anchors):
                found.append(f"{path.relative_to(site.resolve())}: {target} leads nowhere")
    return found


def main() -> None:
    """Build and check; exit with 1 at a warning, a link that leads nowhere or Markdown that stays text."""
    stage(ROOT, BUILD)
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    status = subprocess.run(command, cwd=BUILD, check=False).returncode
    if status:
        sys.exit(status)
    shutil.move(BUILD / "site", SITE)
    for path in SITE.rglob("*.html"):
        path.write_text(breakable(path.read_text()))
    lines = [*broken(SITE), *raw(SITE)]
    built = len(list(SITE.rglob("*.html")))
    print(*lines, f"{built} pages in {SITE.relative_to(ROOT)}, {len(lines)} faults", sep="\n")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
