"""`options`: the types of keyword options say what the configurations take."""

from __future__ import annotations

import ast
import typing
from dataclasses import fields

import pytest

import kafwire
from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig, ScanConfig
from kafwire.config import typed_options as options
from scripts.option_types import FILE, text


def test_the_file_is_what_the_configurations_make() -> None:
    assert ast.dump(ast.parse(FILE.read_text())) == ast.dump(ast.parse(text())), "run python -m scripts.option_types"


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (ClientConfig, kafwire.ClientOptions),
        (ProducerConfig, kafwire.ProducerOptions),
        (ConsumerConfig, kafwire.ConsumerOptions),
        (ScanConfig, kafwire.ScanOptions),
    ],
)
def test_each_option_has_a_type(kind: type[ClientConfig], types: type) -> None:
    hints = typing.get_type_hints(types, vars(options))
    assert set(hints) == {item.name for item in fields(kind)} - {"bootstrap_servers"}
    assert not types.__required_keys__  # type: ignore[attr-defined]
