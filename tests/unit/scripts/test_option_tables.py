"""`scripts.option_tables`: docs/reference/configuration.md has a row for each option, as its declaration says."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kafwire.config import ConsumerConfig, ProducerConfig, ShareConsumerConfig
from scripts.option_tables import KINDS, PAGE, rows, written


def test_the_tables_are_current() -> None:
    text = PAGE.read_text()
    assert written(text) == text, "run python -m scripts.option_tables"


def test_the_tables_have_each_option_of_each_client() -> None:
    tables = {kind.__name__: [row[0].strip("`") for row in rows(kind)] for kind in KINDS.values()}
    for kind in (ProducerConfig, ConsumerConfig, ShareConsumerConfig):
        shown = {name for base in kind.__mro__ for name in tables.get(base.__name__, ())}
        assert shown == {item.name for item in fields(kind)}
    assert tables["ProducerConfig"] == [item.name for item in fields(ProducerConfig)][-len(tables["ProducerConfig"]) :]


def test_a_row_has_the_name_the_default_the_meaning_and_the_names_elsewhere() -> None:
    (row,) = [row for row in rows(KINDS["producers"]) if row[0] == "`buffer_memory`"]
    assert row == [
        "`buffer_memory`",
        "32 MiB",
        "Limit of all records that are not acknowledged. `send` waits for room. Values: 1 to 1,099,511,627,776 bytes.",
        "`buffer.memory` (Java), `queue.buffering.max.kbytes` (librdkafka)",
    ]


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="<!-- clients: begin -->"):
        written("# Options\n")
