"""The tree of another commit: copied, built, kept; and the folders in which workers find a library."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.base_tree import BaseTreeError, build_base_tree, check_library, link_sides

SETUP = "from pathlib import Path\nPath('compiled').open('a').write('once ')\n"


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of two commits, whose library says which."""
    root = tmp_path / "root"
    (root / "kafwire").mkdir(parents=True)
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "__init__.py").touch()
    git(root.parent, "init", "--quiet", str(root))
    for number, setup in enumerate((SETUP, "raise SystemExit('cc is missing')")):
        (root / "setup.py").write_text(setup)
        (root / "kafwire" / "__init__.py").write_text(f"NUMBER = {number}\n")
        git(root, "add", ".")
        git(root, "commit", "--quiet", "-m", str(number))
    return root


def test_a_commit_is_built_beside_the_tree_once(root: Path, tmp_path: Path) -> None:
    (root / "kafwire" / "__init__.py").write_text("NUMBER = 2  # not committed\n")
    before = git(root, "status", "--porcelain"), git(root, "worktree", "list")
    first = build_base_tree(root, "HEAD~1", tmp_path / "base")
    assert first.commit == git(root, "rev-parse", "HEAD~1")
    assert (first.folder / "kafwire" / "__init__.py").read_text() == "NUMBER = 0\n"
    assert build_base_tree(root, first.commit[:8], tmp_path / "base") == first
    assert (first.folder / "compiled").read_text() == "once "
    assert (git(root, "status", "--porcelain"), git(root, "worktree", "list")) == before
    assert (root / "kafwire" / "__init__.py").read_text() == "NUMBER = 2  # not committed\n"


def test_a_build_that_did_not_end_is_made_again(root: Path, tmp_path: Path) -> None:
    first = build_base_tree(root, "HEAD~1", tmp_path / "base")
    (first.folder / "built").unlink()
    (first.folder / "compiled").write_text("half ")
    assert build_base_tree(root, "HEAD~1", tmp_path / "base") == first
    assert (first.folder / "compiled").read_text() == "once "


def test_errors_say_which_commit(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BaseTreeError, match="^nowhere: git has no such commit"):
        build_base_tree(root, "nowhere", tmp_path / "base")
    with pytest.raises(BaseTreeError, match="HEAD does not compile: cc is missing"):
        build_base_tree(root, "HEAD", tmp_path / "base")
    assert not list((tmp_path / "base").glob("*/built"))


def test_a_worker_finds_these_programs_and_that_library(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))
    base = build_base_tree(root, "HEAD~1", tmp_path / "base")
    for library in (root, base.folder, base.folder):
        side = link_sides(root, library, tmp_path / "side")
        assert (side / "benchmarks").resolve() == (root / "benchmarks").resolve()
        check_library(side, library)
    with pytest.raises(BaseTreeError, match="would import .*, not the library of"):
        check_library(side, root)
