"""Writes the tables of names and options into docs/guide/porting, from what kafwire's errors say of them.

`python -m scripts.porting_tables` writes them, with the installed releases of the other clients; a test compares them.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio

import kafwire
from kafwire.config import ConsumerConfig, ProducerConfig
from kafwire.config import names as config_names
from kafwire.peer_names import ADMIN, CONSUMER, DELIVERY, MODULE, PRODUCER, RECORD, SHARE_CONSUMER, line_for
from scripts.marks import with_part

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources.read_text
    kafka: Any = import_module("kafka")  # it has no types

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "guide" / "porting"
_LISTS = json.loads((ROOT / "tests" / "data" / "config_names.json").read_text())

# Classes of other clients, and those of kafwire that take their place.
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
    (confluent_kafka.admin.AdminClient, kafwire.Admin),
    (kafka.KafkaAdminClient, kafwire.Admin),
    (aiokafka.admin.AIOKafkaAdminClient, kafwire.AsyncAdmin),
]
TABLES: list[tuple[type, type, dict[str, str]]] = [
    (kafwire.Producer, kafwire.AsyncProducer, PRODUCER),
    (kafwire.Consumer, kafwire.AsyncConsumer, CONSUMER),
    (kafwire.ShareConsumer, kafwire.AsyncShareConsumer, SHARE_CONSUMER),
    (kafwire.Admin, kafwire.AsyncAdmin, ADMIN),
]
# Classes of results, by the lines for their fields and methods, and the variables that hold them in the pages.
RESULTS: list[tuple[dict[str, str], type, list[type]]] = [
    (DELIVERY, kafwire.Delivery, [kafka.producer.future.FutureRecordMetadata]),
    (RECORD, kafwire.Record, [kafka.consumer.fetcher.ConsumerRecord, aiokafka.ConsumerRecord, confluent_kafka.Message]),
]
VARIABLES = {
    kafka.producer.future.FutureRecordMetadata: "future",
    kafka.consumer.fetcher.ConsumerRecord: "record",
    aiokafka.ConsumerRecord: "record",
    confluent_kafka.Message: "message",
}
# The package of a page, its name in the lists of options, and the variables of its programs.
PACKAGES = {
    "confluent-kafka": ("confluent_kafka", "librdkafka", ("producer", "consumer", "share_consumer", "admin")),
    "aiokafka": ("aiokafka", "aiokafka", ("producer", "consumer", "", "admin")),
    "kafka-python": ("kafka", "kafka-python", ("producer", "consumer", "", "admin")),
}
_LEAVE = "leave it out: "
_ONLY_IN_C = "it would never be called"  # callbacks that Python's users of librdkafka cannot give


def _cell(line: str) -> str:
    """A line of `peer_names` as a cell."""
    code, _, comment = line.partition("  # ")
    if line.startswith(_LEAVE):
        return line
    return f"`{code}`: {comment}" if comment else f"`{code}`"


def names(page: str) -> Iterator[tuple[str, str]]:
    """The classes, methods and fields of a page's client that have another name in kafwire, and the line to write."""
    package, _, variables = PACKAGES[page]
    homes = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    is_blocking = page != "aiokafka"
    for name in sorted(MODULE):
        if any(hasattr(home, name) for home in homes) and not hasattr(kafwire, name):
            yield name, _cell(line_for(MODULE[name], blocking="Async" not in MODULE[name]))
    owners = [
        (lines, ours[not is_blocking], [peer for peer, kind in PEERS if kind in ours], variable)
        for (*ours, lines), variable in zip(TABLES, variables, strict=True)
    ]
    owners += [(lines, kind, peers, "") for lines, kind, peers in RESULTS]
    for lines, kind, all_peers, variable in owners:
        peers = [peer for peer in all_peers if _package(peer) == package]
        for name in sorted(lines):
            if not hasattr(kind, name) and any(_has(peer, name) for peer in peers):
                yield f"{variable or VARIABLES[peers[0]]}.{name}", _cell(line_for(lines[name], blocking=is_blocking))


def _package(kind: type) -> str:
    """The package of a class; classes that are written in C say `cimpl`."""
    top = kind.__module__.partition(".")[0]
    return "confluent_kafka" if top == "cimpl" else top


def _has(kind: type, name: str) -> bool:
    """Fields of dataclasses are no attributes of their class."""
    return name in getattr(kind, "__dataclass_fields__", ()) or hasattr(kind, name)


def options(page: str) -> Iterator[tuple[str, str]]:
    """The options of a page's client that kafwire has under another name, or refuses."""
    own = {each.name for kind in (ProducerConfig, ConsumerConfig) for each in fields(kind)}
    for name in _LISTS[PACKAGES[page][1]]["names"]:
        plain = name.replace(".", "_")
        if plain in own or plain in config_names.WITHOUT_EFFECT:
            continue
        if plain in config_names.ALIASES:
            yield name, f"`{config_names.ALIASES[plain][0]}`"
        elif plain in config_names.ONLY:
            allowed, why = config_names.ONLY[plain]
            values = [value for value in allowed if value not in ("", "None", "[]", "()", "True", "False")]
            yield name, f"{'only ' + ', '.join(f'`{each}`' for each in values) + ': ' if values else ''}{why}"
        elif (reason := config_names.refusal(plain)) is not None and reason != _ONLY_IN_C:
            yield name, reason


def without_effect(page: str) -> list[str]:
    """The options of a page's client that are accepted without effect."""
    names = _LISTS[PACKAGES[page][1]]["names"]
    own = {each.name for kind in (ProducerConfig, ConsumerConfig) for each in fields(kind)}
    return [name for name in names if name.replace(".", "_") in config_names.WITHOUT_EFFECT - own]


def _table(what: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {what} | kafwire |", "|---|---|", *(f"| `{name}` | {cell} |" for name, cell in rows)]
    return "\n".join(lines)


def written(page: str, text: str) -> str:
    """The text of a page with its tables as they are due."""
    ignored = "Accepted without effect, and named by one warning: "
    ignored += ", ".join(f"`{name}`" for name in without_effect(page))
    parts = {
        "names": _table("name", names(page)),
        "options": f"{_table('option', options(page))}\n\n{ignored}.",
    }
    for name, part in parts.items():
        text = with_part(text, f"<!-- {name}: begin -->", f"<!-- {name}: end -->", f"\n{part}\n\n")
    return text


def main() -> None:
    """Write the tables of all pages."""
    for page in PACKAGES:
        file = PAGES / f"{page}.md"
        file.write_text(written(page, file.read_text()))


if __name__ == "__main__":
    main()
