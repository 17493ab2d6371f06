"""docs/guide/porting: programs leave the same before and after, names of the tables exist, options are right."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import inspect
import json
import logging
import re
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import confluent_kafka.error
import confluent_kafka.serialization
import pytest

import kafwire
import kafwire.stream
from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig
from kafwire.errors import ErrorCode, broker_error
from scripts.porting_tables import PACKAGES, PAGES, kafka, written
from tests.support.doc_names import Library, rows, spans
from tests.support.ported_programs import Ported, ported, run_both

# The parts of the outcome that each program has to change: an empty outcome is the same before and after, too.
DONE: dict[str, set[str]] = {
    "Producing with delivery reports": {"records"},
    "Producing with futures": {"records"},
    "A member of a group that commits": {"committed"},
    "Consume, transform, produce: exactly once": {"records", "committed"},
    "Topics and offsets": {"topics", "committed"},
    "A web service": {"records", "committed"},
}
PROGRAMS = [program for page in PACKAGES for program in ported(page)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_both_forms_of_a_program_leave_the_same(program: Ported, tmp_path: Path, untouched: dict[str, Any]) -> None:
    before, after = run_both(program, tmp_path)
    assert after == before
    assert after["printed"]
    changed = {part for part in untouched if after[part] != untouched[part]}
    assert changed == DONE[program.heading]


@pytest.mark.parametrize("page", PACKAGES)
def test_the_first_form_is_of_the_other_client_and_the_second_of_kafwire(page: str) -> None:
    programs = list(ported(page))
    assert len(programs) >= 4
    for program in programs:
        assert f"from {PACKAGES[page][0]}" in program.before.text
        assert "kafwire" not in program.before.text
        assert "import kafwire" in program.after.text
        assert PACKAGES[page][0] not in program.after.text


@pytest.mark.parametrize("page", PACKAGES)
def test_the_generated_tables_are_current(page: str) -> None:
    text = (PAGES / f"{page}.md").read_text()
    assert written(page, text) == text, "python -m scripts.porting_tables writes them"


# The user's own objects.
FREE = {
    *(
        "bill",
        "ctx",
        "fields",
        "function",
        "group",
        "groups",
        "key",
        "messages",
        "ms",
        "name",
        "offset",
        "offsets",
        "partitions",
    ),
    *("record_headers", "seconds", "serialize", "servers", "table", "topic", "topics", "value", "headers", "listener"),
}
LISTS = json.loads((Path(__file__).parents[2] / "data" / "config_names.json").read_text())


def public(*modules: ModuleType) -> dict[str, Any]:
    return {name: value for module in modules for name, value in vars(module).items() if not name.startswith("_")}


def options(*kinds: type[Any]) -> set[str]:
    return {name for kind in kinds for name in kind.__dataclass_fields__}


OWN_OPTIONS = options(ClientConfig, ProducerConfig, ConsumerConfig)


def ours(prefix: str) -> Library:
    """The names that the right column may use: the blocking or the async classes in variables."""
    classes: dict[str, Any] = {
        name: getattr(kafwire, f"{prefix}{name.title().replace('_', '')}")
        for name in ("producer", "consumer", "client")
    }
    variables = classes | {
        "batch": kafwire.Batch,
        "delivery": kafwire.AsyncDelivery if prefix else kafwire.Delivery,
        "error": (broker_error(ErrorCode.INVALID_RECORD), kafwire.TransactionError),
        "metadata": kafwire.RecordMetadata,
        "partition": kafwire.TopicPartition,
        "record": kafwire.Record,
    }
    names = {name: getattr(kafwire, name) for name in dir(kafwire) if not name.startswith("_")}
    extra = {"kafwire": kafwire, "asyncio": asyncio, "logging": logging, "signal": signal}
    handlers = {"on_assigned", "on_revoked", "on_lost"}
    return Library(names | extra, variables, OWN_OPTIONS | handlers, FREE)


def theirs(page: str) -> Library:
    """The names that the left column may use."""
    names: dict[str, Any]
    variables: dict[str, Any]
    if page == "confluent-kafka":
        names = public(
            confluent_kafka,
            confluent_kafka.serialization,
            confluent_kafka.admin,
            confluent_kafka.aio,
            confluent_kafka.error,
        ) | dict.fromkeys(("JSONSerializer", "AvroSerializer", "SchemaRegistryClient"))  # they need other packages
        variables = {
            "producer": confluent_kafka.Producer,
            "consumer": confluent_kafka.Consumer,
            "admin": confluent_kafka.admin.AdminClient,
            "message": confluent_kafka.Message,
            "error": confluent_kafka.KafkaError,
            "partition": confluent_kafka.TopicPartition,
        }
        listed = set(LISTS["librdkafka"]["names"]) | {"error_cb", "logger", "oauth_cb", "on_delivery"}
    elif page == "aiokafka":
        names = public(aiokafka, aiokafka.abc, aiokafka.admin, aiokafka.admin.config_resource, aiokafka.errors) | {
            "asyncio": asyncio
        }
        variables = {
            "producer": aiokafka.AIOKafkaProducer,
            "consumer": aiokafka.AIOKafkaConsumer,
            "admin": aiokafka.admin.AIOKafkaAdminClient,
            "record": aiokafka.ConsumerRecord,
            "batch": aiokafka.producer.message_accumulator.BatchBuilder,
            "partition": aiokafka.TopicPartition,
            "metadata": aiokafka.structs.RecordMetadata,
        }
        listed = set(LISTS["aiokafka"]["names"]) | set(dir(aiokafka.ConsumerRebalanceListener))
    else:
        names = public(kafka, kafka.errors, kafka.admin, kafka.structs, kafka.serializer)
        variables = {
            "producer": kafka.KafkaProducer,
            "consumer": kafka.KafkaConsumer,
            "admin": kafka.KafkaAdminClient,
            "record": kafka.consumer.fetcher.ConsumerRecord,
            "future": kafka.producer.future.FutureRecordMetadata,
            "error": kafka.errors.KafkaError,
            "partition": kafka.TopicPartition,
            "metadata": kafka.producer.future.RecordMetadata,
        }
        listed = set(LISTS["kafka-python"]["names"]) | set(dir(kafka.ConsumerRebalanceListener))
    return Library(names, variables, listed, FREE)


@pytest.mark.parametrize("page", PACKAGES)
def test_each_name_of_the_tables_exists(page: str) -> None:
    text = (PAGES / f"{page}.md").read_text().partition("\n## Names with a line to write")[0]
    table = [row for row in rows(text) if row != [page, "kafwire"]]
    assert len(table) > 40
    left, right = theirs(page), ours("Async" if page == "aiokafka" else "")
    problems = [problem for cells in table for span in spans(cells[0]) for problem in left.problems(span)]
    problems += [problem for cells in table for span in spans(cells[1]) for problem in right.problems(span)]
    assert problems == []
    assert all(len(cells) == 2 for cells in table)


def test_codes_of_brokers_are_raised_as_the_errors_beside_them() -> None:
    compared = 0
    for theirs_, ours_ in rows((PAGES / "confluent-kafka.md").read_text().partition("\n### Errors")[2]):
        codes = [getattr(confluent_kafka.KafkaError, name) for name in re.findall(r"`KafkaError\.([A-Z]\w+)`", theirs_)]
        named = [getattr(kafwire, name, None) for name in spans(ours_)]
        raised = tuple(kind for kind in named if isinstance(kind, type) and issubclass(kind, kafwire.BrokerError))
        for code in codes if raised else ():
            assert isinstance(broker_error(code), raised)
            compared += 1
    assert compared >= 3


DEFAULTS: dict[str, dict[str, Any]] = {
    "aiokafka": {
        name: parameter.default
        for kind in (aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer)
        for name, parameter in inspect.signature(kind).parameters.items()
    }
    | {"acks": 1},  # behind an object that stands for none
    "kafka-python": kafka.KafkaConsumer.DEFAULT_CONFIG | kafka.KafkaProducer.DEFAULT_CONFIG,
}
OWN_DEFAULTS = {
    each.name: each.default for kind in (ConsumerConfig, ProducerConfig) for each in dataclasses.fields(kind)
} | {"acks": "all", "enable_idempotence": True}  # -1 and None in the class


@pytest.mark.parametrize("page", PACKAGES)
def test_each_default_of_the_tables_is_the_default(page: str) -> None:
    compared = 0
    for cells in rows((PAGES / f"{page}.md").read_text()):
        for cell, defaults in zip(cells, (DEFAULTS.get(page, {}), OWN_DEFAULTS), strict=True):
            for span in spans(cell) if "default" in cells[0] or "default" in cells[1] else ():
                name, equals, value = span.partition("=")
                if equals and name in defaults:
                    assert ast.literal_eval(value) == defaults[name], span
                    compared += 1
    assert compared >= 3


@pytest.mark.parametrize(
    ("span", "problem"),
    [
        ("producer.sned(topic, value)", "there is no sned"),
        ("producer.send(topic, value, on_delivery=function)", "got an unexpected keyword argument 'on_delivery'"),
        ("Producer(servers, linger=5)", "there is no option linger"),
        ("kafwire.scann(servers, topic)", "there is no scann"),
        ("consumer.seek(partition)", "missing a required argument: 'offset'"),
        ("KafkaErorr", "KafkaErorr is unknown"),
        ("record.value is", "no Python"),
    ],
)
def test_a_name_that_does_not_exist_is_found(span: str, problem: str) -> None:
    assert ours("").problems(span) == [f"{span}: {problem}"]


@pytest.fixture(scope="module")
def untouched() -> dict[str, Any]:
    """The outcome of no program."""
    from contextlib import ExitStack

    from tests.support.ported_programs import outcome, staged

    with ExitStack() as with_:
        return outcome(staged(with_))
