"""Lines by package, for `make loc`: lines of code, and of tests, without blank lines, comments and docstrings.

Nothing is listed here: packages, tests and other folders are found from the tree.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tokenize
from collections import Counter
from io import StringIO
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PYTHON = {".py", ".pyi"}
CYTHON = {".pyx", ".pxd"}
C = {".c", ".h", ".java"}
_QUOTED = re.compile(r'^[ \t]*[rR]?"""(?:.|\n)*?"""[ \t]*$', re.MULTILINE)
_C_COMMENT = re.compile(r"/\*(?:.|\n)*?\*/")
_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(text: str, suffix: str) -> int:
    """The lines of a source that have code on them."""
    if suffix in PYTHON:
        return len(_python_lines(text))
    comment, left_out = ("#", _QUOTED) if suffix in CYTHON else ("//", _C_COMMENT)
    lines = (line.strip() for line in left_out.sub("", text).splitlines())
    return sum(bool(line) and not line.startswith(comment) for line in lines)


def _python_lines(text: str) -> set[int]:
    lines = {
        line
        for token in tokenize.generate_tokens(StringIO(text).readline)
        if token.type not in _NOT_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def package_of(path: PurePosixPath) -> str:
    """The package, the folder of tests, or the folder that a file is counted with."""
    folders = path.parts[:-1]
    return "/".join(folders[:2] if folders and folders[0] in {"kafwire", "tests"} else folders[:1]) or "."


def counts() -> dict[str, Counter[str]]:
    """The numbers of lines of each package's Python, Cython and C."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, Counter[str]] = {}
    for name in filter(None, listed.split("\0")):
        path = PurePosixPath(name)
        kind = next((k for k, of in (("python", PYTHON), ("cython", CYTHON), ("c", C)) if path.suffix in of), None)
        if kind is not None and (ROOT / name).exists():
            found.setdefault(package_of(path), Counter())[kind] += lines_of_code((ROOT / name).read_text(), path.suffix)
    return found


def main() -> None:
    """Print them."""
    found = counts()
    top = {name.partition("/")[0] for name in found}
    print(f"{'lines of code':28}{'Python':>9}{'Cython':>9}{'C, Java':>9}{'all':>9}")
    for title, roots in (("kafwire", {"kafwire"}), ("tests", {"tests"}), ("the rest", top - {"kafwire", "tests"})):
        packages = sorted(name for name in found if name.partition("/")[0] in roots)
        for name in packages:
            print(_row(name, found[name]))
        print(_row(f"{title}, in all", sum((found[name] for name in packages), Counter())), end="\n\n")


def _row(name: str, lines: Counter[str]) -> str:
    numbers = (lines["python"], lines["cython"], lines["c"], lines.total())
    return f"{name:28}" + "".join(f"{number:>9,}" for number in numbers)


if __name__ == "__main__":
    main()
