"""Readers of topics and of a group's offsets into a history, by kafwire or by another client."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import kafwire
from kafwire.errors import KafkaTimeoutError
from kafwire.records import Batch
from kafwire.testing.history.record import History
from kafwire.testing.history.report import place_of
from kafwire.testing.history.tokens import Dress
from kafwire.types import TopicPartition

Ranges = dict[TopicPartition, tuple[int, int]]
Rows = tuple[str, int, Sequence[int], Sequence[bytes | None], Sequence[Dress]]

_CONSUMED_AT_ONCE = 10_000
_POLL_SECONDS = 1.0


def observe(
    history: History,
    bootstrap_servers: str,
    topics: str | Sequence[str],
    *,
    client: str = "kafwire",
    isolation_level: str = "read_uncommitted",
    name: str | None = None,
    timeout_s: float = 60.0,
    **options: Any,
) -> int:
    """Read all partitions of topics to their current ends, into a view of the history.

    With read_uncommitted a partition ends at its high watermark, with read_committed at its last stable offset.

    Args:
        history: the history.
        bootstrap_servers: `host:port`, several of them separated by commas.
        topics: one topic or several.
        client: "kafwire" (`kafwire.scan`), or "confluent-kafka", which has to be installed.
        isolation_level: "read_uncommitted" or "read_committed".
        name: the view's name in reports; by default the client.
        timeout_s: seconds without records after which confluent-kafka gives up.
        options: the client's own options: Kafka's names, with underscores or dots.

    Returns:
        The number of records that were read.

    Raises:
        KafkaError: the client failed; the view then does not count.
        KafkaTimeoutError: confluent-kafka got nothing for `timeout_s` seconds.

    Example:
        >>> import tempfile
        >>> from kafwire.testing.history import History, check, observe
        >>> path = f"{tempfile.mkdtemp()}/run.history"
        >>> with History(path) as history:
        ...     writer = history.producer(1, "kafwire")
        ...     for sequence, value in writer.invoke([7, 8]):
        ...         metadata = producer.send(other_topic, value, key=b"any").result(timeout=10)
        ...         writer.ok(sequence, other_topic, metadata.partition, metadata.offset)
        ...     observe(history, bootstrap, other_topic)
        2
        >>> check(path).ok
        True
    """
    reader = _reader(client)
    names = [topics] if isinstance(topics, str) else list(topics)
    view = history.view(name or client, isolation_level)
    ranges: Ranges = {}
    count = 0
    for topic, partition, offsets, values, dresses in reader(
        bootstrap_servers, names, isolation_level, ranges, timeout_s, options
    ):
        view.add(topic, partition, offsets, values, dresses)
        count += len(offsets)
    view.close(ranges)
    return count


def read_all(
    bootstrap_servers: str, topics: Sequence[str], *, client: str, isolation_level: str, timeout_s: float = 60.0
) -> Iterator[Rows]:
    """Yield the rows of `observe`: (topic, partition, offsets, values, dresses), each partition in its order."""
    return _reader(client)(bootstrap_servers, topics, isolation_level, {}, timeout_s, {})


def _reader(client: str) -> Callable[..., Iterator[Rows]]:
    readers: dict[str, Callable[..., Iterator[Rows]]] = {"kafwire": _by_kafwire, "confluent-kafka": _by_confluent}
    if client not in readers:
        raise ValueError(f"client: one of {', '.join(readers)}, not {client!r}")
    return readers[client]


def observe_group(
    history: History, bootstrap_servers: str, group: str, partitions: Iterable[TopicPartition], **options: Any
) -> dict[TopicPartition, int | None]:
    """Read a group's committed offsets into the history.

    Args:
        history: the history.
        bootstrap_servers: `host:port`, several of them separated by commas.
        group: the group's id.
        partitions: the partitions.
        options: fields of `kafwire.config.ConsumerConfig`.

    Returns:
        The offset of each partition; None for none.

    Raises:
        KafkaError: the client failed.

    Example:
        >>> import tempfile
        >>> from kafwire.testing.history import History, observe_group
        >>> with History(f"{tempfile.mkdtemp()}/run.history") as history:
        ...     observe_group(history, bootstrap, "billing", [partition])[partition] is None
        True
    """
    wanted = list(partitions)
    with kafwire.Consumer(
        bootstrap_servers, assign=wanted, group_id=group, enable_auto_commit=False, **options
    ) as consumer:
        offsets: dict[TopicPartition, int | None] = {**consumer.committed(wanted)}
    history.group_offsets(group, offsets)
    return offsets


def _by_kafwire(
    bootstrap: str,
    topics: Sequence[str],
    isolation_level: Any,
    ranges: Ranges,
    _timeout_s: float,
    options: Mapping[str, Any],
) -> Iterator[Rows]:
    plain = {name.replace(".", "_"): value for name, value in options.items()}
    with kafwire.scan(bootstrap, topics, isolation_level=isolation_level, **plain) as scan:
        for r in scan.ranges:
            ranges[TopicPartition(r.topic, r.partition)] = (r.start, r.end)
        for batch in scan.batches():
            assert batch.topic is not None
            assert batch.partition is not None
            yield batch.topic, batch.partition, *rows_of(batch)


def rows_of(batch: Batch) -> tuple[list[int], list[bytes | None], list[Dress]]:
    """Return the arguments of `View.add` for a kafwire batch: offsets, values, and the records' other fields."""
    records = list(batch)
    partition = batch.partition
    dresses = [Dress(r.key, r.headers, r.timestamp_ms, partition) for r in records]
    return [r.offset for r in records], [r.value for r in records], dresses


def _headers_of(message: Any) -> Sequence[tuple[str, bytes | None]]:
    return message.headers() or ()


def _by_confluent(
    bootstrap: str,
    topics: Sequence[str],
    isolation_level: str,
    ranges: Ranges,
    timeout_s: float,
    options: Mapping[str, Any],
) -> Iterator[Rows]:
    import confluent_kafka as ck

    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"history-{uuid.uuid4()}",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )
    try:
        starts: dict[TopicPartition, int] = {}
        for topic in topics:
            described = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
            if described.error is not None:
                raise ck.KafkaException(described.error)
            for partition in described.partitions:
                low, _ = consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), timeout=timeout_s)
                starts[TopicPartition(topic, partition)] = low
        consumer.assign([ck.TopicPartition(*where, start) for where, start in starts.items()])
        deadline = time.monotonic() + timeout_s
        while len(ranges) < len(starts):
            messages = consumer.consume(_CONSUMED_AT_ONCE, _POLL_SECONDS)
            if messages:
                deadline = time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                missing = ", ".join(place_of(where, None) for where in sorted(starts.keys() - ranges.keys()))
                raise KafkaTimeoutError(
                    f"confluent-kafka read nothing for {timeout_s} s, and did not come to the end of {missing}"
                )
            gathered: dict[TopicPartition, tuple[list[int], list[bytes | None], list[Dress]]] = {}
            for message in messages:
                named, partition, offset = message.topic(), message.partition(), message.offset()
                error = message.error()
                if error is not None and error.code() != ck.KafkaError._PARTITION_EOF:
                    if error.fatal() or not error.retriable():
                        raise ck.KafkaException(error)
                    continue
                assert named is not None
                assert partition is not None
                assert offset is not None
                where = TopicPartition(named, partition)
                if where in ranges:
                    continue  # the record was written after its end was seen
                if error is None:
                    offsets, values, dresses = gathered.setdefault(where, ([], [], []))
                    offsets.append(offset)
                    values.append(message.value())
                    dresses.append(Dress(message.key(), _headers_of(message), message.timestamp()[1], partition))
                else:
                    ranges[where] = (starts[where], offset)
            for where, (offsets, values, dresses) in gathered.items():
                yield where.topic, where.partition, offsets, values, dresses
    finally:
        consumer.close()
