"""Old import paths of the embedded broker and of clusters: `kafwire.testing.broker` is `kafwire.broker`.

An old path and its new one are the same module. The finder comes first: Python's own would load the file again.
"""

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_OWN = "kafwire.testing."
_SECURITY = (
    *("certificate_authority", "certificates", "client_files", "client_options", "cluster_security"),
    *("listener_properties", "security", "tokens"),
)
_CLUSTER = ("formatting", "guard", "kafka", "launcher", "node", "node_properties", "scram_users")
_NEW_PATHS = {
    "broker": "kafwire.broker",
    "ports": "kafwire.broker.ports",
    "cluster_command": "kafwire.testing.cluster.__main__",
    "cluster_proxies": "kafwire.testing.cluster.proxies",
    **{name: f"kafwire.broker.security.{name}" for name in _SECURITY},
    **{name: f"kafwire.testing.cluster.{name}" for name in _CLUSTER},
}


def new_path(name: str) -> str | None:
    """Return the present path of a module; None if `name` is no old path."""
    if not name.startswith(_OWN):
        return None
    first, dot, rest = name.removeprefix(_OWN).partition(".")
    home = _NEW_PATHS.get(first)
    return None if home is None else f"{home}{dot}{rest}"


class _Alias(Loader):
    def __init__(self, path: str) -> None:
        self._module = import_module(path)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 - as importlib calls it
        """Return the module that the new path has."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is, with the spec of its new path."""
        module.__spec__ = self._spec


class OldPaths(MetaPathFinder):
    """Finds the modules of old paths, with a DeprecationWarning for each."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Return a spec that loads the module of the new path; None for any other module."""
        new = new_path(fullname)
        if new is None:
            return None
        warnings.warn(f"{fullname} is now {new}: import that", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, _Alias(new), is_package=hasattr(sys.modules.get(new), "__path__"))


def install() -> None:
    """Let Python find modules at their old paths."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldPaths())
