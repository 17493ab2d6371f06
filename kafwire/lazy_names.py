"""Packages that load their public names when they are first used (PEP 562). Imports nothing of kafwire."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], renamed: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package. A package hides it from type checkers, which would take any name for an Any.

    Args:
        package: the name of the package.
        homes: the full name of the module of each public name.
        renamed: the present name of each former name, whose use gives a DeprecationWarning.

    Returns:
        The function. It keeps each name in the package, so that Python asks for it once.

    Example:
        >>> lazy_names("kafwire", {"Offset": "kafwire.types"})("Offset").__name__
        'Offset'
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        module = sys.modules[package]
        if name in renamed:
            new = renamed[name]
            warnings.warn(f"{package}.{name} is now {new}: use that", DeprecationWarning, stacklevel=2)
            return getattr(module, new)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return __getattr__
