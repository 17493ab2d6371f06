"""The imports within kafwire, and the circles in them.

Every import of a module counts, at its top, inside a function or under `TYPE_CHECKING`, and every cimport.
"""

import ast
import functools
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from scripts.tree import COMPILED, ROOT


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return the modules of kafwire, compiled ones included, and the modules that each imports."""
    sources = {_name_of(path): path for path in (ROOT / "kafwire").rglob("*.py")}
    modules = sources.keys() | COMPILED.keys()
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in sources.items():
        found[name] |= {*imported(path.read_text(), modules)}
    for name, module in COMPILED.items():
        found[name] |= module.imports & modules
    return {name: its - {name} for name, its in found.items()}


def _name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(source: str, modules: Collection[str]) -> Iterator[str]:
    """Yield the modules that Python source imports: `from package import module` is an import of the module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "kafwire has absolute imports only: a relative one would be missed here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from [name for name in (inner, node.module or "") if name in modules][:1]


def circles(uses: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Return the sets of modules that reach each other, each with two modules or more, in the order of their names."""
    found: list[set[str]] = []
    reach = {name: _reached(name, uses) for name in uses}
    for name in sorted(uses):
        if name in reach[name] and not any(name in circle for circle in found):
            found.append({other for other in reach[name] if name in reach[other]})
    return found


def _reached(start: str, uses: Mapping[str, Collection[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [*uses[start]]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += uses[name]
    return reached
