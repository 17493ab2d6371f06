"""`kafwire.lazy_names`: a package loads a public name when a program first asks for it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafwire.lazy_names import lazy_names


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("kafwire_lazy")
    monkeypatch.setitem(sys.modules, "kafwire_lazy", module)
    module.__dict__["__getattr__"] = lazy_names("kafwire_lazy", {"Path": "pathlib", "missing": "pathlib"})
    return module


def test_a_name_is_loaded_once_and_stays(package: ModuleType) -> None:
    assert "Path" not in vars(package)
    assert package.Path is Path
    assert vars(package)["Path"] is Path


def test_an_unknown_name_is_an_error_that_python_finds_a_name_for(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"^module 'kafwire_lazy' has no attribute 'Pathe'$") as raised:
        _ = package.Pathe
    assert (raised.value.name, raised.value.obj) == ("Pathe", package)


def test_a_name_that_its_module_lacks_is_that_module_s_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"module 'pathlib' has no attribute 'missing'"):
        _ = package.missing
