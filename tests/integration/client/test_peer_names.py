"""Each public method of the installed peers has the same name in kafwire, or a line to write instead; the lines run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
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
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.peer_names import (
    ADMIN,
    ADMIN_ARGUMENTS,
    BATCH,
    CLIENT,
    CLIENT_ARGUMENTS,
    CONSUMER,
    CONSUMER_ARGUMENTS,
    DELIVERY,
    MODULE,
    PRODUCER,
    PRODUCER_ARGUMENTS,
    RECORD,
    SHARE_CONSUMER_ARGUMENTS,
    line_for,
)
from scripts.porting_tables import PEERS, TABLES, kafka

LISTS = Path(__file__).parents[2] / "data" / "config_names.json"


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


ARGUMENTS: list[tuple[tuple[type, type], dict[str, dict[str, str]]]] = [
    ((kafwire.Producer, kafwire.AsyncProducer), PRODUCER_ARGUMENTS),
    ((kafwire.Consumer, kafwire.AsyncConsumer), CONSUMER_ARGUMENTS),
    ((kafwire.ShareConsumer, kafwire.AsyncShareConsumer), SHARE_CONSUMER_ARGUMENTS),
    ((kafwire.Admin, kafwire.AsyncAdmin), ADMIN_ARGUMENTS),
    ((kafwire.Client, kafwire.AsyncClient), CLIENT_ARGUMENTS),
]
# Of a peer's method by the docstring of a compiled one: `commit([message=None], [offsets=None])`.
SIGNATURE = r"py:function:: {name}\((.*)\)"
# Parameters that Python's own error names well enough.
OTHER_FORM = {
    ("send_batch", "batch"), ("subscribe", "topics"), ("seek", "partition"), ("send", "timestamp"),
    ("offsets_for_times", "timestamps"), ("purge", "in_flight"), ("close", "timeout"),
}  # fmt: skip


def parameters_of(method: Any) -> set[str]:
    """The names of a method's parameters."""
    try:
        found = inspect.signature(method).parameters
    except ValueError:
        text = re.search(SIGNATURE.format(name=method.__name__), method.__doc__ or "")
        return set(re.findall(r"(\w+)(?:=[^\],]*)?", text[1])) - {"None", "True", "False"} if text else set()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name for name, parameter in found.items() if parameter.kind in by_name} - {"self"}


@pytest.mark.parametrize(("theirs", "ours"), PEERS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_each_parameter_of_a_shared_method_is_here_or_has_a_line(theirs: type, ours: type) -> None:
    table = next((table for kinds, table in ARGUMENTS if ours in kinds), {})
    shared = [name for name in dir(theirs) if not name.startswith("_") and hasattr(ours, name)]
    missing = set()
    for name in shared:
        own = getattr(ours, name)
        if callable(own) and callable(getattr(theirs, name)):
            lines = table.get(name, {}).keys()
            unknown = parameters_of(getattr(theirs, name)) - parameters_of(own) - lines
            missing |= {(name, parameter) for parameter in unknown}
    assert missing - OTHER_FORM == set()


@pytest.mark.parametrize(
    ("theirs", "ours", "table"),
    [
        (kafka.producer.future.FutureRecordMetadata, kafwire.Delivery, DELIVERY),
        (kafka.consumer.fetcher.ConsumerRecord, kafwire.Record, RECORD),
        (aiokafka.ConsumerRecord, kafwire.Record, RECORD),
        (confluent_kafka.Message, kafwire.Record, RECORD),
    ],
)
def test_each_field_of_a_peer_s_result_is_here_or_has_a_line(theirs: Any, ours: type, table: dict[str, str]) -> None:
    fields = set(getattr(theirs, "__dataclass_fields__", None) or dir(theirs))
    missing = {name for name in fields if not name.startswith("_") and not hasattr(ours, name)} - table.keys()
    assert missing - NOT_USED == set()


# Parts of a future that its users do not call, and setters of confluent-kafka's messages.
NOT_USED = {
    *("args", "chain", "error_on_callbacks", "failure", "rebind", "success", "value"),
    *("count", "index", "latency", "delivery_count", "deserialized_key", "deserialized_value"),
    *("set_error", "set_headers", "set_key", "set_topic", "set_value"),
}


def test_each_class_with_a_line_is_some_peer_s() -> None:
    for name in MODULE:
        homes = (kafka, kafka.admin, aiokafka, aiokafka.admin, confluent_kafka, confluent_kafka.admin)
        assert any(hasattr(home, name) for home in (*homes, confluent_kafka.aio)) or name == "ConsumerRecord", name


def test_the_lines_for_deliveries_and_batches_run() -> None:
    with EmbeddedKafka() as embedded:
        names = {**names_of(embedded, ""), "function": lambda delivery: None, "timeout": 10}
        delivery = names["producer"].send("flights", b"EWR-IAH")
        for line in DELIVERY.values():
            if not line.startswith("leave it out"):
                eval(line, {**names, "delivery": delivery})
        (batch,) = names["consumer"].poll(10)
        exec(BATCH["value"], {"batch": batch})
        for line in RECORD.values():
            if not line.startswith("leave it out"):
                eval(line, {"record": batch[0]})
        given = {**names, "record": batch[0], "timestamp_ms": 1, "timeout": 0.1}
        for method, lines in CONSUMER_ARGUMENTS.items():
            for line in lines.values():
                if not line.startswith("leave it out") and "..." not in line and method != "close":
                    exec(line_for(line, blocking=True), given)
        for name in ("producer", "consumer", "client", "admin"):
            names[name].close()


def runnable(table: dict[str, str], *, blocking: bool) -> dict[str, str]:
    """The lines without a `...`, which stands for what a user knows. Those that end something come last."""
    lines = {name: line_for(line, blocking=blocking) for name, line in table.items()}
    found = {name: line for name, line in lines.items() if not line.startswith("leave it out") and "..." not in line}
    return dict(sorted(found.items(), key=lambda item: (".close()" in item[1], "delete_groups" in item[1])))


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
        "admin": getattr(kafwire, prefix + "Admin")(embedded.bootstrap),
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
        for table in (PRODUCER, CONSUMER, CLIENT, ADMIN):
            for name, line in runnable(table, blocking=True).items():
                names["consumer"].assign(names["partitions"])
                exec(line, {**names, "partition": 0} if name in BY_NUMBER else names)
        for name in ("producer", "consumer", "client", "admin"):
            names[name].close()


def test_the_lines_of_the_async_classes_run() -> None:
    async def main(embedded: EmbeddedKafka) -> None:
        names = names_of(embedded, "Async")
        await names["producer"].send_and_wait("flights", b"EWR-IAH")
        (names["batch"],) = await names["consumer"].poll(10)
        for table in (PRODUCER, CONSUMER, CLIENT, ADMIN):
            for name, line in runnable(table, blocking=False).items():
                await names["consumer"].assign(names["partitions"])
                code = compile(line, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                found = eval(code, {**names, "partition": 0} if name in BY_NUMBER else names)
                if inspect.isawaitable(found):
                    await found
        for name in ("producer", "consumer", "client", "admin"):
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
    """`tests/unit/config/test_names.py` has the meaning of each."""
    names = json.loads(LISTS.read_text())[source]["names"]
    for letter, kind in kinds.items():
        assert options_of(kind) - {name for name, letters in names.items() if letter in letters} == set()
