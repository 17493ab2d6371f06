"""Decisions of a sink, and their records in its state topic. Pure.

A decision names the prepared transactions of one batch. Its record is compressed JSON after a version byte. A decision
of many tasks is split into numbered parts, which one transaction writes. A done decision keeps part 0 alone.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafwire.errors import ConfigError, KafkaError
from kafwire.types import TransactionHandle

Record = tuple[bytes, bytes | None]  # key and value; a value of None removes the key

_VERSION = 1
# A part is below this size before compression, and so below `max.message.bytes` (1 MiB).
PART_BYTES = 512 << 10
_LARGEST_PART = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """The open transaction of one task: its records, and the partitions that hold them."""

    handle: TransactionHandle
    records: int
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision to commit a batch of a query. `is_done`: every transaction of the batch is committed."""

    query: str
    batch: int
    prepared: tuple[Prepared, ...] = ()
    is_done: bool = False

    @property
    def done(self) -> Decision:
        """The same decision as done, without its transactions."""
        return replace(self, prepared=(), is_done=True)


def check_sink_name(name: str) -> None:
    """Raise `ConfigError` for a name that cannot be part of transactional ids and topics."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"option sink={name!r}: up to 120 letters, digits, dots, underscores and dashes are needed")


def prefix_of(sink: str) -> str:
    """The prefix of a sink's transactional ids. A colon ends the name, so that no sink's prefix starts another's."""
    return f"kafwire.spark:{sink}:"


def coordinator_id(sink: str) -> str:
    """The transactional id of the sink's decisions."""
    return f"{prefix_of(sink)}coord"


def task_id(sink: str, run: str, partition: int, launch: int, attempt: int, batch: int) -> str:
    """The transactional id of a task's attempt. Batches alternate between two ids, so their number is bounded.

    `launch` tells the attempts of a retried stage from those before.
    """
    return f"{prefix_of(sink)}{run}-{partition}-{launch}.{attempt}-{batch % 2}"


def encode(sink: str, decision: Decision, part_bytes: int = PART_BYTES) -> list[Record]:
    """The records of a decision, one or more parts."""
    topics = sorted({topic for each in decision.prepared for topic in each.partitions})
    numbers = {topic: number for number, topic in enumerate(topics)}
    prefix = prefix_of(sink)
    parts: list[list[str]] = [[]]
    size = 0
    for each in decision.prepared:
        text = json.dumps(_packed(prefix, each, numbers), separators=(",", ":"))
        if parts[-1] and size + len(text) > part_bytes:
            parts.append([])
            size = 0
        parts[-1].append(text)
        size += len(text) + 1
    return [
        (
            _key(sink, decision.query, number),
            _value(
                f'{{"batch":{decision.batch},"done":{json.dumps(decision.is_done)},"parts":{len(parts)},'
                f'"topics":{json.dumps(topics)},"prepared":[{",".join(texts)}]}}'
            ),
        )
        for number, texts in enumerate(parts)
    ]


def encode_done(sink: str, decision: Decision) -> list[Record]:
    """The records that mark a decision as done: part 0, and the removal of all other parts."""
    others = range(1, len(encode(sink, decision)))
    removed: list[Record] = [(_key(sink, decision.query, number), None) for number in others]
    return encode(sink, decision.done) + removed


def removal(sink: str, query: str) -> list[Record]:
    """The record that removes a query with a done decision."""
    return [(_key(sink, query, 0), None)]


def decode(sink: str, records: Iterable[Record]) -> dict[str, Decision]:
    """The last decision of each query. Raises `KafkaError` for records that this version cannot read."""
    start = f"{sink}/".encode()
    latest = {key: value for key, value in records if key.startswith(start)}
    found = {}
    for key, value in latest.items():
        query, number = _place(sink, key)
        if number == 0 and value is not None:
            found[query] = _assembled(sink, query, value, latest)
    return found


def _assembled(sink: str, query: str, first: bytes, latest: Mapping[bytes, bytes | None]) -> Decision:
    head = _unpacked(first)
    prefix = prefix_of(sink)
    prepared: list[Prepared] = []
    for number in range(head["parts"]):
        value = latest.get(_key(sink, query, number))
        part = None if value is None else _unpacked(value)
        if part is None or part["batch"] != head["batch"] or part["done"] != head["done"]:
            raise KafkaError(
                f"the state topic of sink {sink} lacks part {number} of batch {head['batch']} of query {query}: were "
                "records of it deleted? Its cleanup.policy must be compact"
            )
        prepared += [_prepared(prefix, each, part["topics"]) for each in part["prepared"]]
    return Decision(query, head["batch"], tuple(prepared), head["done"])


def _key(sink: str, query: str, part: int) -> bytes:
    return f"{sink}/{query}/{part}".encode()


def _place(sink: str, key: bytes) -> tuple[str, int]:
    query, _, part = key.decode().removeprefix(f"{sink}/").rpartition("/")
    return query, int(part)


def _value(text: str) -> bytes:
    return bytes([_VERSION]) + zlib.compress(text.encode())


def _unpacked(value: bytes) -> Any:
    if value[:1] != bytes([_VERSION]):
        raise KafkaError(
            f"a record of the state topic has version {value[:1].hex() or 'none'}, this kafwire reads {_VERSION}: was "
            "it written by a newer kafwire? Update this one"
        )
    try:
        inflated = zlib.decompressobj().decompress(value[1:], _LARGEST_PART)
        return json.loads(inflated)
    except (ValueError, zlib.error) as error:
        raise KafkaError(f"a record of the state topic cannot be read: {error}") from None


def _packed(prefix: str, each: Prepared, topics: Mapping[str, int]) -> list[object]:
    handle = each.handle
    places = [[topics[topic], _runs(each.partitions[topic])] for topic in sorted(each.partitions)]
    return [
        handle.transactional_id.removeprefix(prefix),
        handle.producer_id,
        handle.producer_epoch,
        each.records,
        places,
    ]


def _prepared(prefix: str, packed: list[Any], topics: list[str]) -> Prepared:
    suffix, producer_id, epoch, records, places = packed
    return Prepared(
        TransactionHandle(prefix + suffix, producer_id, epoch),
        records,
        {topics[number]: _numbers(runs) for number, runs in places},
    )


def _runs(numbers: Iterable[int]) -> list[int]:
    """Partition numbers as pairs: the first of a run, and the length of that run."""
    runs: list[int] = []
    for number in sorted(numbers):
        if runs and runs[-2] + runs[-1] == number:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return runs


def _numbers(runs: list[int]) -> tuple[int, ...]:
    pairs = zip(runs[::2], runs[1::2], strict=True)
    return tuple(number for first, length in pairs for number in range(first, first + length))
