"""The scenes of a registry's client against the small registry; tests/conformance has Apicurio's."""

from __future__ import annotations

import pytest

from kafwire.registry import SchemaRegistry
from tests.support.registry_scenes import SCENES, Scene
from tests.support.schema_registry import RegistryServer


@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene: Scene) -> None:
    with RegistryServer() as server:
        scene(SchemaRegistry(server.url, timeout_s=10), scene.__name__.replace("_", "-"))
