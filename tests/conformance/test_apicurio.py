"""The client against Apicurio's registry, by its Confluent-compatible API: the scenes of the small registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire.broker.setup_error import SetupError
from kafwire.registry import SchemaRegistry
from tests.support.java.apicurio import Apicurio, program
from tests.support.registry_scenes import SCENES, Scene


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    try:
        program()
    except SetupError as problem:
        pytest.skip(f"no Apicurio registry here: {problem}")
    with Apicurio() as apicurio:
        yield apicurio.url


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene: Scene, url: str) -> None:
    scene(SchemaRegistry(url, timeout_s=30), scene.__name__.replace("_", "-"))
