"""Each public method of the installed peers has the same name in kafwire, or a line to write instead; the lines run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import pyarrow as pa
import pytest

import kafwire
from kafwire.peer_names import ADMIN, CONSUMER, PRODUCER, SHARE_CONSUMER, line_for
from kafwire.testing.broker.embedded import EmbeddedKafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources.read_text
    kafka: Any = import_module("kafka")  # it has no types

LISTS = Path(__file__).parents[1] / "data" / "config_names.json"
TABLES: list[tuple[type, type, dict[str, str]]] = [
    (kafwire.Producer, kafwire.AsyncProducer, PRODUCER),
    (kafwire.Consumer, kafwire.AsyncConsumer, CONSUMER),
    (kafwire.ShareConsumer, kafwire.AsyncShareConsumer, SHARE_CONSUMER),
    (kafwire.Client, kafwire.AsyncClient, ADMIN),
]
PEERS: list[tuple[type, type]] = [
    (confluent_kafka.Producer, kafwire.Producer),
    (confluent_kafka.SerializingProducer, kafwire.Producer),
    (confluent_kafka.aio.AIOProducer, kafwire.AsyncProducer),
    (kafka.KafkaProducer, kafwire.Producer),
    (aiokafka.AIOKafkaProducer, kafwire.AsyncProducer),
    (confluent_kafka.Consumer, kafwire.Consumer),
    (confluent_kafka.DeserializingConsumer, kafwire.Consumer),
    (confluent_kafka.aio.AIOConsumer, kafwire.AsyncConsumer),
    (kafka.KafkaConsumer, kafwire.Consumer),
    (aiokafka.AIOKafkaConsumer, kafwire.AsyncConsumer),
    (confluent_kafka.ShareConsumer, kafwire.ShareConsumer),
    (confluent_kafka.DeserializingShareConsumer, kafwire.ShareConsumer),
    (confluent_kafka.admin.AdminClient, kafwire.Client),
    (kafka.KafkaAdminClient, kafwire.Client),
    (aiokafka.admin.AIOKafkaAdminClient, kafwire.AsyncClient),
]


@pytest.mark.parametrize(("theirs", "ours"), PEERS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_each_public_method_of_a_peer_is_here_or_has_a_line(theirs: type, ours: type) -> None:
    methods = {name for name in dir(theirs) if not name.startswith("_") and callable(getattr(theirs, name))}
    assert len(methods) > 5
    missing = {name for name in methods if not hasattr(ours, name)}
    assert missing - next(table for *kinds, table in TABLES if ours in kinds).keys() == set()


def test_each_name_of_the_tables_is_some_peer_s() -> None:
    for blocking, awaited, table in TABLES:
        known = {name for theirs, ours in PEERS if ours in (blocking, awaited) for name in dir(theirs)}
        known |= {"stop"} if table is ADMIN else set()  # beside start, of which aiokafka's admin client has no end
        assert table.keys() - known == set()


def runnable(table: dict[str, str], *, blocking: bool) -> dict[str, str]:
    """The lines without a `...`, which stands for what a user knows. Those that end something come last."""
    lines = {name: line_for(line, blocking=blocking) for name, line in table.items()}
    found = {name: line for name, line in lines.items() if not line.startswith("leave it out") and "..." not in line}
    return dict(sorted(found.items(), key=lambda item: ".close()" in item[1]))


def names_of(embedded: EmbeddedKafka, prefix: str) -> dict[str, Any]:
    """The names in the lines, with their values."""
    for topic in ("flights", "others"):
        embedded.create_topic(topic)
    partition = kafwire.TopicPartition("flights", 0)
    made = {"bootstrap_servers": embedded.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
    return {
        "kafwire": kafwire,
        "pyarrow": pa,
        "producer": getattr(kafwire, prefix + "Producer")(embedded.bootstrap),
        "consumer": getattr(kafwire, prefix + "Consumer")(**made, assign=[partition]),
        "client": getattr(kafwire, prefix + "Client")(embedded.bootstrap),
        "values": [b"EWR-IAH"],
        "value": b"EWR-IAH",
        "key": b"UA",
        "topic": "flights",
        "other_topic": "others",
        "new_topic": "added",
        "group": "billing",
        "partition": partition,
        "partitions": [partition],
        "offset": 1,
        "timeout": 0.1,
        "node_id": 1,
        "coordinator": 1,
        "name": "kafwire",
        "version": "1",
    }


BY_NUMBER = {"create_batch", "produce"}  # of their own `partition`, a number


def test_the_lines_of_the_blocking_classes_run() -> None:
    with EmbeddedKafka() as embedded:
        names = names_of(embedded, "")
        names["producer"].send("flights", b"EWR-IAH").result(10)
        (names["batch"],) = names["consumer"].poll(10)
        for table in (PRODUCER, CONSUMER, ADMIN):
            for name, line in runnable(table, blocking=True).items():
                names["consumer"].assign(names["partitions"])
                exec(line, {**names, "partition": 0} if name in BY_NUMBER else names)
        for name in ("producer", "consumer", "client"):
            names[name].close()


def test_the_lines_of_the_async_classes_run() -> None:
    async def main(embedded: EmbeddedKafka) -> None:
        names = names_of(embedded, "Async")
        await names["producer"].send_and_wait("flights", b"EWR-IAH")
        (names["batch"],) = await names["consumer"].poll(10)
        for table in (PRODUCER, CONSUMER, ADMIN):
            for name, line in runnable(table, blocking=False).items():
                await names["consumer"].assign(names["partitions"])
                code = compile(line, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                found = eval(code, {**names, "partition": 0} if name in BY_NUMBER else names)
                if inspect.isawaitable(found):
                    await found
        for name in ("producer", "consumer", "client"):
            await names[name].close()

    with EmbeddedKafka() as embedded:
        asyncio.run(main(embedded))


def options_of(kind: Any) -> set[str]:
    """The names of a peer's options."""
    if hasattr(kind, "DEFAULT_CONFIG"):
        return set(kind.DEFAULT_CONFIG)
    parameters = inspect.signature(kind).parameters
    return {name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("kafka-python", {"P": kafka.KafkaProducer, "C": kafka.KafkaConsumer, "A": kafka.KafkaAdminClient}),
        (
            "aiokafka",
            {"P": aiokafka.AIOKafkaProducer, "C": aiokafka.AIOKafkaConsumer, "A": aiokafka.admin.AIOKafkaAdminClient},
        ),
    ],
)
def test_the_list_of_options_has_each_option_of_the_installed_peer(source: str, kinds: dict[str, Any]) -> None:
    """`tests/unit/test_config_names.py` has the meaning of each."""
    names = json.loads(LISTS.read_text())[source]["names"]
    for letter, kind in kinds.items():
        assert options_of(kind) - {name for name, letters in names.items() if letter in letters} == set()
