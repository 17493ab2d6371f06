"""`testing.old_paths`: one module under both paths."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

import kafwire.testing  # noqa: F401 - it installs the finder
from kafwire.testing.old_paths import install, new_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kafwire.testing.broker", "kafwire.broker"),
        ("kafwire.testing.broker.share", "kafwire.broker.share"),
        ("kafwire.testing.broker.share.share_states", "kafwire.broker.share.share_states"),
        ("kafwire.testing.ports", "kafwire.broker.ports"),
        ("kafwire.testing.security", "kafwire.broker.security.security"),
        ("kafwire.testing.node", "kafwire.testing.cluster.node"),
        ("kafwire.testing.cluster_proxies", "kafwire.testing.cluster.proxies"),
    ],
)
def test_an_old_path_is_the_module_of_the_new_one(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if new_path(name) is not None]:
        monkeypatch.delitem(sys.modules, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = import_module(old)
    assert f"{old} is now {new}: import that" in {str(each.message) for each in caught}
    assert found is import_module(new)
    assert found.__name__ == new
    assert found.__spec__ is not None
    assert found.__spec__.name == new


def test_each_old_path_leads_to_a_module() -> None:
    old = [
        *("broker", "certificate_authority", "certificates", "client_files", "client_options", "cluster_command"),
        *("cluster_proxies", "cluster_security", "formatting", "guard", "kafka", "launcher", "listener_properties"),
        *("node", "node_properties", "ports", "scram_users", "security", "tokens"),
    ]
    missing = [name for name in old if (new := new_path(f"kafwire.testing.{name}")) is None or find_spec(new) is None]
    assert not missing


@pytest.mark.parametrize("name", ["kafwire.testing.cluster", "kafwire.testing.brokers", "kafwire.broker", "other"])
def test_other_modules_have_no_new_path(name: str) -> None:
    assert new_path(name) is None


def test_the_finder_is_installed_once() -> None:
    before = list(sys.meta_path)
    install()
    assert sys.meta_path == before
