"""`kafwire.lazy_names`: a package loads a public name when a program first asks for it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from kafwire.lazy_names import lazy_names


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("kafwire_lazy")
    monkeypatch.setitem(sys.modules, "kafwire_lazy", module)
    module.__dict__["__getattr__"] = lazy_names(
        "kafwire_lazy", {"Path": "pathlib", "missing": "pathlib"}, renamed={"Way": "Path"}
    )
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


def test_a_former_name_warns_and_is_the_present_one(package: ModuleType) -> None:
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=r"^kafwire_lazy\.Way is now Path: use that$") as caught:
            assert package.Way is Path
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("package_name", "former", "present"),
    [
        ("kafwire.testing", "Node", "KafkaNode"),
        ("kafwire.testing.cluster", "Node", "KafkaNode"),
        ("kafwire.testing.simulation", "Answer", "Response"),
        ("kafwire.testing.strategies", "Connection", "ConnectionTraffic"),
    ],
)
def test_former_names_of_packages(package_name: str, former: str, present: str) -> None:
    found = import_module(package_name)
    with pytest.warns(DeprecationWarning, match=present):
        assert getattr(found, former) is getattr(found, present)
    assert former not in dir(found)
