"""Writes the files of kafwire that follow from the declarations of options.

`python -m scripts.option_types` writes typed_options.py, the types of keyword options for editors and type
checkers, and option_names.py, the names of options in other clients. A test compares both with the declarations.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from kafwire.config import (
    ClientConfig,
    ConsumerConfig,
    FetchConfig,
    ProducerConfig,
    ScanConfig,
    ShareConsumerConfig,
)
from kafwire.config.option_docs import default_of, meaning, names_of, other_names, type_of

FOLDER = Path(__file__).parents[1] / "kafwire" / "config"
HEAD = '"""{}; `python -m scripts.option_types` writes them from the declarations of options."""'
KINDS = (ClientConfig, FetchConfig, ProducerConfig, ConsumerConfig, ScanConfig, ShareConsumerConfig)
# An argument of its own.
POSITIONAL = "bootstrap_servers"
IMPORTS = """\
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from kafwire.secret import Secret
from kafwire.serialization import Deserializes, Serializes
"""


def types() -> str:
    """The text of kafwire/config/typed_options.py."""
    names = f"__all__ = {json.dumps(sorted(map(_name, KINDS)))}"
    parts = [HEAD.format("Types of keyword options"), IMPORTS + "\n" + names, *map(_options, KINDS)]
    return "\n\n".join(parts) + "\n"


def names() -> str:
    """The text of kafwire/config/option_names.py."""
    found = {
        name.replace(".", "_"): item.name
        for kind in KINDS
        for item in fields(kind)
        for name in names_of(item)
        if name.replace(".", "_") != item.name
    }
    lines = [f'    "{name}": "{option}",' for name, option in sorted(found.items())]
    return "\n".join([HEAD.format("Names of options in other clients"), "", "OTHER_NAMES = {", *lines, "}", ""])


def _options(kind: type[ClientConfig]) -> str:
    base = kind.__bases__[0]
    is_first = not issubclass(base, ClientConfig)
    parent = "TypedDict" if is_first else _name(base)
    doc = f'"""Options of `kafwire.config.{kind.__name__}`, whose `help()` has the text of each."""'
    parts = [f"class {_name(kind)}({parent}, total=False):\n    {doc}"]
    inherited = set() if is_first else {item.name for item in fields(base)}  # a TypedDict cannot declare them again
    own = [item for item in fields(kind) if item.name not in {POSITIONAL, *inherited}]
    parts += [f"    {item.name}: {type_of(item)}\n{_docstring(kind, item)}" for item in own]
    return "\n" + "\n\n".join(parts)


def _docstring(kind: type[ClientConfig], item: Field[Any]) -> str:
    """The documentation of an option, below its type."""
    default, names = default_of(item), other_names(item)
    others = {_name(each): default_of(each.__dataclass_fields__[item.name]) for each in KINDS if issubclass(each, kind)}
    differing = "".join(f"; of {name}: {value}" for name, value in others.items() if value != default)
    text = f"{meaning(item)} Default: {default}{differing}.{f' Other clients: {names}.' if names else ''}"
    return textwrap.fill(f'"""{text}"""', 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _name(kind: type) -> str:
    return kind.__name__.replace("Config", "Options")


def main() -> None:
    """Write both files."""
    (FOLDER / "typed_options.py").write_text(types())
    (FOLDER / "option_names.py").write_text(names())


if __name__ == "__main__":
    main()
