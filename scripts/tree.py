"""The compiled modules, as the tree has them: nothing else lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINKED = re.compile(r"^# distutils: sources = (.*)$", re.MULTILINE)
_IMPORT = re.compile(r"^\s*from kafwire((?:\.\w+)+) c?import", re.MULTILINE)


@dataclass(frozen=True)
class CompiledModule:
    """A `.pyx` and what belongs to it. Paths begin at the checkout's root."""

    name: str  # as it is imported
    pyx: Path
    c_sources: tuple[Path, ...]  # what it links, from its `# distutils: sources` line
    imports: frozenset[str]  # the modules of kafwire that it, or its `.pxd`, imports or cimports

    @property
    def files(self) -> list[Path]:
        """The `.pyx`, and the `.pxd` if there is one."""
        return [path for path in (self.pyx, self.pyx.with_suffix(".pxd")) if (ROOT / path).exists()]


def imports_of(source: str) -> frozenset[str]:
    """The modules of kafwire that Python or Cython source imports or cimports from."""
    return frozenset(f"kafwire{name}" for name in _IMPORT.findall(source))


def _read(pyx: Path) -> CompiledModule:
    text = "".join(path.read_text() for path in (pyx, pyx.with_suffix(".pxd")) if path.exists())
    linked = [Path(name) for line in _LINKED.findall(text) for name in line.split()]
    inside = pyx.relative_to(ROOT)
    return CompiledModule(".".join(inside.with_suffix("").parts), inside, tuple(linked), imports_of(text))


COMPILED = {module.name: module for module in map(_read, sorted((ROOT / "kafwire").rglob("*.pyx")))}


def closure(names: list[str]) -> list[CompiledModule]:
    """These compiled modules and those that they import, and so on."""
    found: dict[str, CompiledModule] = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name in COMPILED and name not in found:
            found[name] = COMPILED[name]
            queue += COMPILED[name].imports
    return sorted(found.values(), key=lambda module: module.name)
