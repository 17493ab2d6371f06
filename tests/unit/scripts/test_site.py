"""`scripts.api_pages` and `scripts.site`: the pages of the API, the navigation, and links of a built site."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from scripts import api_pages
from scripts.site import breakable, broken, navigation, pages, raw, stage
from tests.support import public_names

ROOT = Path(__file__).parents[3]
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)


def entries() -> list[str]:
    """The names on all pages."""
    return [name for module in api_pages.MODULES for name in ENTRY.findall(_text(module))]


def _text(module: str) -> str:
    return (api_pages.FOLDER / f"{module}.md").read_text()


def _value(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def test_the_pages_are_current() -> None:
    for module in api_pages.MODULES:
        assert _text(module) == api_pages.page(module), "run python -m scripts.api_pages"
    assert {path.stem for path in api_pages.FOLDER.iterdir()} == set(api_pages.MODULES)
    text = api_pages.MAP.read_text()
    assert api_pages.listed(text) == text, "run python -m scripts.api_pages"


def test_each_public_name_stands_once() -> None:
    listed = entries()
    assert len(listed) == len(set(listed))
    importable = [name for name in listed if name.rpartition(".")[0] in public_names.MODULES]
    shown = [id(value) for value in map(_value, importable) if isinstance(value, type)]
    assert len(shown) == len(set(shown))
    top = {str(one) for one in public_names.documented() if one.owner is None}
    described = {id(_value(name)) for name in [*importable, *api_pages.RETURNED]}
    assert [name for name in top if id(_value(name)) not in described] == []


def test_a_module_without_names_is_refused() -> None:
    with pytest.raises(ValueError, match="has no __all__"):
        api_pages.declared("kafwire.integers")


def test_every_page_is_in_the_navigation() -> None:
    shown = re.findall(r"'([\w/.-]+\.md)'", str(navigation(ROOT)))
    assert len(shown) == len(set(shown))
    assert {str(page) for page in pages(ROOT)} == set(shown)


def test_parts_of_a_section_are_parts_of_the_navigation(tree: Path) -> None:
    parts = "All others, by reader:\n\n- [two](two.md): text\n\n- Names, too: [three](a/three.md)\n"
    text = f"## Start: first\n\n[one](one.md)\n\n{parts}"
    (tree / "docs" / "README.md").write_text(text)
    (tree / "docs" / "a").mkdir()
    for name in ("two", "a/three"):
        (tree / "docs" / f"{name}.md").write_text(f"# {name}\n")
    others = {"All others": [{"two": "docs/two.md"}]}
    names = {"Names": [{"a/three": "docs/a/three.md"}]}
    assert navigation(tree)[2:] == [{"Start": [{"The one": "docs/one.md"}, others, names]}]


FIRST = "from kafwire.lazy_dataclass import dataclass\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository."""
    files = {
        "README.md": "# Top\n[code](examples/a.py), [web](https://a.b), `[none](b.md)`, [docs/one.md](docs/one.md#x)\n",
        "docs/README.md": "# All\n\n## Start: first\n\n[one](one.md#x), [one again](one.md)\n",
        "docs/one.md": "# The `one`\n",
        "examples/a.py": "",
        "kafwire/a.py": FIRST + 'def f():\n    """F.\n\n    Example:\n        >>> f()\n    """\n',
        "zensical.toml": '# x\n[project]\nsite_name = "x"\n',
        **{f"{name}/README.md": f"# {name}\n" for name in ("benchmarks", "demo", "examples", "fuzz")},
    }
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def test_pages_linked_files_and_sources_are_copied(tree: Path) -> None:
    build = tree / "build" / "docs"
    stage(tree, build)
    assert (build / "pages" / "docs" / "one.md").exists()
    assert (build / "pages" / "examples" / "a.py").exists()
    assert "`[none](b.md)`, [The one](docs/one.md#x)" in (build / "pages" / "README.md").read_text()
    source = (build / "source" / "kafwire" / "a.py").read_text()
    assert "    Examples:\n" in source
    assert "from dataclasses import dataclass\n" in source
    assert (build / "pages" / "site.css").exists()
    start = '{ "Start" = [{ "The one" = "docs/one.md" }] }'
    nav = f'nav = [{{ "kafwire" = "README.md" }}, {{ "All pages" = "docs/README.md" }}, {start}]'
    assert (build / "zensical.toml").read_text() == f'# x\n[project]\n{nav}\nsite_name = "x"\n'


def test_names_in_tables_break_at_their_parts() -> None:
    page = '<p><code>a_b</code></p><td style="x_y"><code>a_b.c</code> d_e <code>_f <b>g_h</b></code></td>'
    assert breakable(page) == page.replace("a_b.c", "a_<wbr>b.<wbr>c")


@pytest.mark.parametrize("target", ["b.html#there", "b.html", "#here", "folder/", "https://example.org/x", "b%2ehtml"])
def test_a_good_link_is_accepted(tmp_path: Path, target: str) -> None:
    assert broken(_site(tmp_path, target)) == []


@pytest.mark.parametrize("target", ["c.html", "b.html#here", "#there", "../b.html", "b.html?x#none"])
def test_a_bad_link_is_reported(tmp_path: Path, target: str) -> None:
    assert broken(_site(tmp_path, target)) == [f"a.html: {target} leads nowhere"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>a list:\n- one</p>", "- one"),
        ("<p>a list:\n1. <code>one</code></p>", "1. x"),
        ("<p>a table:\n| one |</p>", "| one |"),
        ("<p>::: kafwire.Client</p>", "::: kafwire.Client"),
        ("<p>text [a](b.md) text</p>", "[a](b.md)"),
        ("<p>2 - 1, a|b, <code>[a](b.md)</code></p><pre>- one</pre>", None),
    ],
)
def test_markdown_that_stays_text_is_reported(tmp_path: Path, text: str, expected: str | None) -> None:
    (tmp_path / "a.html").write_text(text)
    assert raw(tmp_path) == ([f"a.html: {expected!r} is Markdown"] if expected else [])


def _site(folder: Path, target: str) -> Path:
    (folder / "folder").mkdir()
    (folder / "folder" / "index.html").write_text("")
    (folder / "a.html").write_text(f'<p id="here"><a href="{target}">x</a></p>')
    (folder / "b.html").write_text('<p id="there"></p>')
    return folder
