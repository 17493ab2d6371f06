"""The public names of packages that load them when they are first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

from tests.support.public_names import MODULES

PACKAGES = [name for name in (*MODULES, "kafwire.protocol") if hasattr(import_module(name), "__getattr__")]


@pytest.mark.parametrize("package", PACKAGES)
def test_an_interpreter_completes_the_public_names(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_a_misspelt_name_is_an_attribute_error_that_python_finds_a_name_for(package: str) -> None:
    module = import_module(package)
    with pytest.raises(AttributeError, match=rf"^module '{package}' has no attribute 'no_such_name'$") as caught:
        _ = module.no_such_name
    assert (caught.value.name, caught.value.obj) == ("no_such_name", module)


def test_python_suggests_the_name_that_was_meant() -> None:
    program = "import kafwire\nkafwire.Producre"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("has no attribute 'Producre'. Did you mean: 'Producer'?")


@pytest.mark.parametrize(
    "name", ["AsyncBatchDelivery", "AsyncDelivery", "BatchDelivery", "Delivery", "Record", "RecordBatch"]
)
def test_a_type_for_annotations_is_public(name: str) -> None:
    kafwire = import_module("kafwire")
    assert name in kafwire.__all__
    assert getattr(kafwire, name).__name__ == name


def test_types_that_say_they_are_public_are_named() -> None:
    package = import_module("kafwire.admin")
    modules = [import_module(f"kafwire.admin.{each.name}") for each in iter_modules(package.__path__)]
    values = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    assert {each.__name__ for each in values if each.__module__ == "kafwire.admin"} == set(package.__all__)
