"""The public names of kafwire, from the `__all__` of its public modules, and the examples in their docstrings."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from scripts import api_pages


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of its parent
        return False


# The packages of extras: other Pythons are tried without.
_NEEDS = {
    "kafwire.dask": "dask",
    "kafwire.protobuf": "google.protobuf",
    "kafwire.ray": "ray",
    "kafwire.spark": "pyspark",
}
MODULES = tuple(name for name in api_pages.MODULES if name not in _NEEDS or _is_installed(_NEEDS[name]))
# Public where they are described.
ITERATED = {"__iter__", "__aiter__", "__await__"}
# Names in the examples that need a broker; see `tests/integration/docs/test_doctests.py`.
ON_BROKER = frozenset(
    {"bootstrap", "client", "cluster", "consumer", "producer", "proxy", "topic", "partition", "sasl_options"}
)


@dataclass(frozen=True)
class Documented:
    """A public class, function, method or property."""

    name: str  # as users write it
    value: Any
    owner: type | None = None  # the class of a method or property

    @property
    def function(self) -> Any:
        """The called function: itself, a property's getter, or the function below a decorator."""
        value = self.value.fget if isinstance(self.value, property) else self.value
        return getattr(value, "__func__", value)

    @property
    def doc(self) -> str:
        """Its docstring, without indentation, and without the signature before that of a compiled class."""
        text = inspect.cleandoc(self.value.__doc__ or "").strip()
        return re.sub(r"\A[\w.]+\(.*?\)\n\n", "", text, flags=re.DOTALL)

    @property
    def needs_broker(self) -> bool:
        """True if its example talks to a broker."""
        source = "".join(example.source for example in doctest.DocTestParser().get_examples(self.doc))
        return any(isinstance(node, ast.Name) and node.id in ON_BROKER for node in ast.walk(ast.parse(source)))

    def __str__(self) -> str:
        return self.name


def documented() -> Iterator[Documented]:
    """All of them, each once."""
    seen: set[int] = set()
    named = [(f"{module}.{name}", getattr(import_module(module), name)) for module in MODULES for name in _all(module)]
    for path in api_pages.RETURNED:
        module, _, name = path.rpartition(".")
        named.append((path, getattr(import_module(module), name)))
    for path, value in named:
        if id(value) in seen or inspect.ismodule(value) or not callable(value):
            continue
        seen.add(id(value))
        if getattr(value, "__module__", "typing").startswith("kafwire"):
            yield Documented(path, value)
            if inspect.isclass(value):
                yield from _members(path, value)


def _all(module: str) -> list[str]:
    names: list[str] = import_module(module).__all__
    return names


def _members(path: str, cls: type) -> Iterator[Documented]:
    found: dict[str, Documented] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("kafwire"):
            for name, value in vars(base).items():
                is_public = not name.startswith("_") or (name in ITERATED and value.__doc__)
                if any(mark.startswith("hypothesis_stateful") for mark in getattr(value, "__dict__", ())):
                    continue  # a step that hypothesis takes
                if is_public and (callable(value) or isinstance(value, property | classmethod | staticmethod)):
                    found.setdefault(name, Documented(f"{path}.{name}", value, cls))
    yield from found.values()


def run_example(documented: Documented, names: dict[str, Any]) -> str:
    """Run an example with these names; what differs from what it says, or nothing."""
    test = doctest.DocTestParser().get_doctest(documented.doc, names, documented.name, None, 0)
    found: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test, out=found.append)
    return "".join(found)
