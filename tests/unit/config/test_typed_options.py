"""`typed_options` and `option_names` are current: they follow from the declarations of options."""

from __future__ import annotations

import ast
import inspect
import typing
from dataclasses import fields

import pytest

import kafwire
from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig, ScanConfig, ShareConsumerConfig
from kafwire.config import typed_options as options
from kafwire.config.option_docs import default_of, meaning
from scripts.option_types import FOLDER, names, types

KINDS: list[tuple[type[ClientConfig], type]] = [
    (ClientConfig, kafwire.ClientOptions),
    (ProducerConfig, kafwire.ProducerOptions),
    (ConsumerConfig, kafwire.ConsumerOptions),
    (ShareConsumerConfig, kafwire.ShareConsumerOptions),
    (ScanConfig, kafwire.ScanOptions),
]


@pytest.mark.parametrize(("file", "due"), [("typed_options.py", types), ("option_names.py", names)])
def test_a_file_is_generated_from_the_declarations(file: str, due: typing.Callable[[], str]) -> None:
    text = (FOLDER / file).read_text()
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(due())), "run python -m scripts.option_types"


@pytest.mark.parametrize(("kind", "types"), KINDS)
def test_each_option_has_a_type(kind: type[ClientConfig], types: type) -> None:
    hints = typing.get_type_hints(types, vars(options))
    assert set(hints) == {item.name for item in fields(kind)} - {"bootstrap_servers"}
    assert not types.__required_keys__  # type: ignore[attr-defined]


def test_editors_show_the_documentation_below_each_type() -> None:
    """Editors take a text below an attribute for its documentation."""
    shown: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(options)).body:
        if isinstance(node, ast.ClassDef):
            pairs = zip(node.body[1::2], node.body[2::2], strict=True)
            shown[node.name] = {ast.unparse(key.target): ast.literal_eval(doc.value) for key, doc in pairs}  # type: ignore[attr-defined]
    known = shown["ClientOptions"] | shown["FetchOptions"] | shown["ConsumerOptions"]
    for item in fields(ConsumerConfig):
        if item.name != "bootstrap_servers":
            text = " ".join(known[item.name].split())
            assert text.startswith(" ".join(meaning(item).split()))
            assert default_of(item) in text
    assert "Default: 32 MiB; of ConsumerOptions: 64 MiB." in known["fetch_memory"]
