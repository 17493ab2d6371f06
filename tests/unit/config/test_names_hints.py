"""Hints of unknown options: each with a case in which its condition holds, and one in which it does not."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import Consumer, Producer
from kafwire.config.names import hint
from kafwire.errors import ConfigError
from kafwire.similar_names import similar

KNOWN = ("linger_ms", "batch_size", "bootstrap_servers", "compression_level", "partitioner", "transactional_id")


@pytest.mark.parametrize(
    ("words", "holds", "fails"),
    [
        ("from_config takes names with dots", [("linger.ms", KNOWN)], [("linger_m", KNOWN), ("linger.ms", ["acks"])]),
        ("did you mean 'linger_ms'", [("lingerms", KNOWN), ("linger.m", KNOWN)], [("linger.ms", KNOWN)]),
        (": it is 'linger_ms' here", [("queue.buffering.max.ms", KNOWN)], [("queue.buffering.max.ms", ["acks"])]),
        (": it is 'compression_level' here", [("compression_gzip_level", KNOWN)], [("compression_level_", KNOWN)]),
        (": it is 'partitioner' here", [("partitioner_class", KNOWN)], [("partitioner_class", ["acks"])]),
        ("from_config reads it", [("sasl_jaas_config", KNOWN)], [("sasl_password", KNOWN)]),
        ("delivery_timeout_ms is over", [("retries", ["delivery_timeout_ms"])], [("retries", KNOWN)]),
        ("; known: ", [("zzz", KNOWN)], [("linger_m", KNOWN), ("linger.ms", KNOWN)]),
    ],
)  # fmt: skip
def test_a_hint_stands_behind_its_condition_alone(words: str, holds: list[Any], fails: list[Any]) -> None:
    for name, known in holds:
        assert words in hint(name, known, as_keyword=True), name
    for name, known in fails:
        assert words not in hint(name, known, as_keyword=True), name


@pytest.mark.parametrize("name", ["linger.ms", "queue.buffering.max.ms", "linger.m"])
def test_a_keyword_is_never_proposed_with_dots(name: str) -> None:
    options: Any = {name: 5}
    with pytest.raises(ConfigError, match="'linger_ms'") as caught:
        Producer("127.0.0.1:1", **options)
    assert "'linger.ms'" not in str(caught.value).partition(f"unknown option {name!r}")[2]


def test_from_config_proposes_names_as_they_are_spelt() -> None:
    for given, right in (("linger.m", "linger.ms"), ("linger_m", "linger_ms")):
        with pytest.raises(ConfigError, match=f"did you mean '{right}'"):
            Producer.from_config({"bootstrap.servers": "127.0.0.1:1", given: 5})


def test_an_option_of_another_client_has_no_name_here() -> None:
    options: Any = {"linger.ms": 5}
    with pytest.raises(ConfigError) as caught:
        Consumer("127.0.0.1:1", topics=["t"], **options)
    assert "it is 'linger" not in str(caught.value)


def test_names_that_share_an_ending_are_not_similar() -> None:
    assert similar("--partitions", ["--pretty", "--offsets"]) == []
    assert similar("--ofsets", ["--pretty", "--offsets"]) == ["--offsets"]
