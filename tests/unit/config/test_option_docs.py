"""`option_docs`: each option is declared once, and `help()` shows what its declaration says."""

from __future__ import annotations

import json
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.config import ClientConfig, ConsumerConfig, FetchConfig, ProducerConfig, ScanConfig, ShareConsumerConfig
from kafwire.config.checks import Number, OneOf, described_by, maybe, option, some_text
from kafwire.config.option_docs import accepted, default_of, meaning, names_of, other_names, own_options, type_of
from scripts.prose import CANDIDATE

ROOT = Path(__file__).parents[3]
KINDS: list[type[ClientConfig]] = [ProducerConfig, ConsumerConfig, ShareConsumerConfig, ScanConfig]
CONFIGS: list[type[ClientConfig]] = [ClientConfig, FetchConfig, *KINDS]
OPTIONS = {f"{kind.__name__}.{item.name}": item for kind in KINDS for item in fields(kind)}
PUBLIC: list[tuple[type, type[ClientConfig]]] = [
    (kafwire.Client, ClientConfig),
    (kafwire.AsyncClient, ClientConfig),
    (kafwire.Consumer, ConsumerConfig),
    (kafwire.AsyncConsumer, ConsumerConfig),
    (kafwire.Producer, ProducerConfig),
    (kafwire.AsyncProducer, ProducerConfig),
    (kafwire.ShareConsumer, ShareConsumerConfig),
    (kafwire.AsyncShareConsumer, ShareConsumerConfig),
    *zip(CONFIGS, CONFIGS, strict=True),
]


def declared(default: Any, check: Callable[[Any], Any], name: str = "size", **facts: Any) -> Field[Any]:
    """An option that is no field of a class."""
    found: Field[Any] = option(default, check, "Doc.", **facts)
    found.name = name
    found.type = "int"
    return found


@pytest.mark.parametrize(("cls", "kind"), PUBLIC, ids=lambda each: each.__name__)
def test_help_shows_each_option_with_its_text(cls: type, kind: type[ClientConfig]) -> None:
    shown = " ".join(pydoc.plain(pydoc.render_doc(cls)).replace("\n |", "\n").split())
    for item in fields(kind):
        default = f" = {default_of(item)}" if default_of(item) else ""
        entry = f"{item.name}: {type_of(item)}{default} {meaning(item)}"
        assert " ".join(entry.split()) in shown, item.name
        assert other_names(item) in shown, item.name


def test_a_docstring_begins_with_that_of_the_source() -> None:
    docs = [kafwire.Consumer.__doc__, ConsumerConfig.__doc__]
    assert [(doc or "").splitlines()[0] for doc in docs] == [
        "A reader of partitions: all of `topics`, or those of `assign`. A context manager.",
        "Options of `Consumer` and `AsyncConsumer`.",
    ]


def test_own_options_come_before_inherited_ones_and_none_comes_twice() -> None:
    doc = ConsumerConfig.__doc__ or ""
    assert doc.index("    group_id: ") < doc.index("    check_crcs: ") < doc.index("    client_id: ")
    assert doc.index("    client_id: ") < doc.index("    sasl_mechanism: ")
    assert doc.count("    fetch_memory: ") == 1
    assert "fetch_memory: int = 64 MiB" in doc


def test_a_docstring_is_made_when_it_is_read_and_kept() -> None:
    @described_by(ScanConfig)
    class Reader:
        """Reads."""

    class Derived(Reader):
        pass

    assert not isinstance(vars(Reader)["__doc__"], str)
    assert Derived.__doc__ is None
    assert (Reader().__doc__ or "").startswith("Reads.\n\nOptions of `scan`.\n")
    assert isinstance(vars(Reader)["__doc__"], str)


def test_options_are_documented_without_docstrings() -> None:
    """`python -OO` drops docstrings, and no option."""
    program = "from kafwire.config import ScanConfig; print(ScanConfig.__doc__)"
    command = [sys.executable, "-OO", "-c", program]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown.startswith("ScanConfig.\n")
    assert "fetch_max_wait_ms: int = 500\n" in shown


@pytest.mark.parametrize("item", OPTIONS.values(), ids=OPTIONS)
def test_a_text_is_plain_sentences(item: Field[Any]) -> None:
    doc = item.metadata["doc"]
    assert doc.endswith(".")
    assert doc[0].isupper() or doc[0] in '"`'
    assert not CANDIDATE.search(doc)
    assert not re.search(r"[|\n\\]|\"\"\"|\]\(", meaning(item)), "a docstring and a cell of a table"


@pytest.mark.parametrize("item", OPTIONS.values(), ids=OPTIONS)
def test_the_check_takes_the_values_that_the_text_names(item: Field[Any]) -> None:
    for word in re.findall(r'"([^"]*)"', accepted(item)):
        item.metadata["check"](word.replace("<ISO 8601 duration>", "P1D"))
    if "None" in accepted(item) or type_of(item).endswith("| None"):
        item.metadata["check"](None)
    elif "None" not in type_of(item) and type_of(item) not in {"Any", "Serializes", "Deserializes"}:
        with pytest.raises((TypeError, ValueError)):
            item.metadata["check"](None)


@pytest.mark.parametrize("client", ["java", "librdkafka", "aiokafka", "kafka-python"])
def test_names_in_other_clients_exist_there_and_none_is_missing(client: str) -> None:
    listed = set(json.loads((ROOT / "tests" / "data" / "config_names.json").read_text())[client]["names"])
    reported = {
        name
        for item in OPTIONS.values()
        for name, clients in names_of(item).items()
        if client in map(str.lower, clients)
    }
    assert reported <= listed
    if client in {"java", "librdkafka"}:
        same = {item.name.replace("_", ".") for item in OPTIONS.values()}
        assert (same & listed) - reported == set()


def test_accepted_values_follow_from_the_check() -> None:
    assert accepted(declared(1, Number(1), "linger_ms")) == "at least 1 ms"
    assert accepted(declared(1, Number(1), "fetch_max_bytes")) == "at least 1 byte"
    assert accepted(declared(1, Number(1, 1000), unit="bytes")) == "1 to 1,000 bytes"
    assert accepted(declared(None, maybe(Number(0)), "age_seconds")) == "at least 0 s, or None"
    assert accepted(declared("a", OneOf("a", "b"))) == '"a", "b"'
    assert accepted(declared(None, maybe(OneOf("a", "b")))) == '"a", "b", or None'
    assert accepted(declared("", some_text)) == ""
    assert accepted(declared(1, Number(1), "linger_ms", accepts="a number")) == "a number"


def test_types_follow_from_the_check() -> None:
    assert type_of(declared("a", OneOf("a", "b"))) == 'Literal["a", "b"]'
    assert type_of(declared(None, maybe(OneOf("a", "b")))) == 'Literal["a", "b"] | None'
    assert type_of(declared(1, Number(1))) == "int"
    assert type_of(declared(None, maybe(Number(1)))) == "int | None"
    assert type_of(declared(1, Number(1), typed="float")) == "float"


@pytest.mark.parametrize(
    ("default", "text"),
    [(0, "0"), (1 << 20, "1 MiB"), (60_000, "60,000"), (True, "True"), (None, "None"), ("a", '"a"'), ("", '""')],
)
def test_defaults(default: Any, text: str) -> None:
    assert default_of(declared(default, some_text)) == text
    assert default_of(declared(default, some_text, default_text='"all"')) == '"all"'
    assert default_of(declared(("a", "b"), some_text)) == '"a", "b"'


def test_names_of_one_spelling_are_one_entry() -> None:
    item = declared(1, Number(1), "linger_ms", names="Java librdkafka librdkafka=queue.max.ms aiokafka=queue.max.ms")
    assert other_names(item) == "linger.ms (Java, librdkafka); queue.max.ms (librdkafka, aiokafka)"
    assert other_names(declared(1, Number(1), names="")) == ""


def test_an_option_with_another_default_is_an_own_one() -> None:
    own = {item.name for item in own_options(ConsumerConfig)}
    assert "fetch_memory" in own
    assert "check_crcs" not in own
    assert own_options(ScanConfig) == []
