"""The measured rows, their contenders, and the goals that the figures are held against. Data only."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from benchmarks.counted import CLIENT_ID
from benchmarks.member_rows import MEMBER_ROWS
from benchmarks.row import LARGE_BATCH, SMALL_BATCH, Contender, Goal, Row, Topic

LINGER_MS = 5
BATCH_BYTES = 1_048_576
BUFFER_MIB = 32  # kafwire's default buffer_memory


CONSUMERS = {
    "defaults": {"conf.group.id": "benchmark", "conf.enable.auto.commit": "false"},
    "tuned": {
        "conf.group.id": "benchmark",
        "conf.enable.auto.commit": "false",
        "conf.fetch.message.max.bytes": "8388608",
        "conf.queued.min.messages": "1000000",
        "conf.queued.max.messages.kbytes": "1048576",
        "conf.fetch.queue.backoff.ms": "5",
    },
}


# As a user writes it: `for batch in consumer.batches(): batch.to_arrow()`.
_ARROW_CONSUMER = Contender("kafwire consumer", "kafwire_consumer", "arrow")


def _librdkafka_producers(codec: str) -> dict[str, dict[str, str]]:
    tuned = {
        "conf.acks": "all",
        "conf.linger.ms": str(LINGER_MS),
        "conf.batch.size": str(BATCH_BYTES),
        "conf.batch.num.messages": "1000000",
        "conf.compression.type": codec,
        "conf.message.max.bytes": "1048588",
        "conf.queue.buffering.max.messages": "1000000",
        "conf.queue.buffering.max.kbytes": "1048576",
        "conf.enable.idempotence": "true",
    }
    return {
        "idempotent": tuned,
        "not idempotent": tuned | {"conf.enable.idempotence": "false"},
        "not idempotent, batches of 100 kB": tuned | {"conf.enable.idempotence": "false", "conf.batch.size": "100000"},
    }


def _kafwire_producer(codec: str) -> dict[str, str]:
    return {
        "conf.linger_ms": str(LINGER_MS),
        "conf.batch_size": str(BATCH_BYTES),
        "conf.compression_type": codec,
    }


def _floor_consumers(codec: str) -> dict[str, dict[str, str]]:
    need = {"needs_lz4": str(int(codec == "lz4"))}
    return {f"{mebibytes} MiB": need | {"max_bytes": str(mebibytes << 20)} for mebibytes in (1, 8)}


def _consume(topic: Topic) -> Row:
    goals = []
    if topic == Topic(100, "lz4", LARGE_BATCH):
        goals = [Goal("kafwire scan", "confluent consume", 4.0), Goal("kafwire scan", "librdkafka C", 1.2)]
    if (topic.value_bytes, topic.codec) == (100, "lz4"):
        large = topic.batch_bytes == LARGE_BATCH
        goals += [
            Goal("kafwire consumer", "confluent consume", 10.0 if large else 6.0),
            Goal("kafwire consumer", "librdkafka C", 2.0 if large else 1.5),
            *([Goal("kafwire consumer", "floor", 0.45)] if large else []),
        ]
    elif topic.value_bytes == 1000:
        goals += [Goal("kafwire consumer", "confluent consume", 6.0)]
    return Row(
        f"consume-{topic.name}",
        "consume",
        "M records/s",
        topic,
        [
            Contender("kafwire scan", "kafwire", "scan"),
            _ARROW_CONSUMER,
            Contender("confluent consume", "confluent", "consume", variants=CONSUMERS),
            Contender("librdkafka C", "rdkafka", "consume", variants=CONSUMERS),
            Contender("floor", "floor", "consume", variants=_floor_consumers(topic.codec)),
            Contender("floor, no decode", "floor", "consume", {"decode": "0"}, _floor_consumers("none"), context=True),
            Contender("kafwire arrow stream", "kafwire_consumer", "stream", context=True),
            Contender("kafwire async consumer", "kafwire_async", "arrow", context=True),
            Contender("aiokafka", "aiokafka", "consume", context=True),
            Contender("kafka-python", "kafkapython", "consume", context=True),
        ],
        goals,
        short=topic.name in {"100-lz4-1m", "100-none-16k", "1000-lz4-1m", "100-lz4-16k-x8"},
    )


def _tls(topic: Topic, *, replayed: bool) -> Row:
    """The cost of TLS, beside the floor: a blocking socket that decrypts, and decodes nothing."""
    goals = [Goal("kafwire consumer, TLS", "kafwire consumer", 0.7)] if topic == _PLAIN else []
    goals.append(Goal("kafwire consumer, TLS", "librdkafka C, TLS", 1.3))
    if not replayed:
        goals = [Goal("kafwire consumer, TLS", "floor, TLS, no decode", 0.9)]
    floor = _floor_consumers(topic.codec)
    return Row(
        f"tls-{'replay' if replayed else 'consume'}-{topic.name}",
        "tls",
        "M records/s",
        topic,
        [
            _ARROW_CONSUMER,
            Contender("kafwire consumer, TLS", "kafwire_consumer", "arrow", tls=True),
            Contender("confluent consume, TLS", "confluent", "consume", variants=CONSUMERS, tls=True),
            Contender("librdkafka C, TLS", "rdkafka", "consume", variants=CONSUMERS, tls=True),
            Contender("floor, TLS", "floor", "consume", variants=floor, tls=True),
            Contender("floor, TLS, no decode", "floor", "consume", {"decode": "0"}, _floor_consumers("none"), tls=True),
            Contender("floor, no decode", "floor", "consume", {"decode": "0"}, _floor_consumers("none"), context=True),
            Contender("librdkafka C", "rdkafka", "consume", variants=CONSUMERS, context=True),
        ],
        goals,
        short=replayed and topic == _LZ4,
        replayed=replayed,
    )


def _tls_wait(figure: str) -> Row:
    """One record after the other over TLS; the contenders of `wait` that can."""
    plain = _wait(figure)
    contenders = [
        replace(one, name=f"{one.name}, TLS", tls=True) for one in plain.contenders if one.program != "kafwire_floor"
    ]
    goals = [Goal("kafwire send, TLS", "confluent produce, TLS", most=1.1)] if figure == "p50" else []
    return replace(plain, name=f"tls-{plain.name}", contenders=contenders, goals=goals, short=False)


def _records(topic: Topic) -> Row:
    """Records one by one as Python objects, key and value read."""
    return Row(
        f"records-{topic.name}",
        "consume",
        "M records/s",
        topic,
        [
            Contender("kafwire records", "kafwire_consumer", "records"),
            Contender("kafwire records of batches", "kafwire_consumer", "records_of_batches"),
            Contender("confluent consume", "confluent", "consume_keys", variants=CONSUMERS),
            Contender("confluent poll", "confluent", "poll_keys", variants=CONSUMERS),
            Contender("kafwire async records", "kafwire_async", "records", context=True),
        ],
        [Goal("kafwire records", "confluent consume", 3.0), Goal("kafwire records", "confluent poll", 6.0)],
        short=bool(topic.key_bytes),
    )


def _cpu(topic: Topic) -> Row:
    """The same rounds as those of the row that compares speed, where the same configurations are chosen."""
    return Row(
        f"cpu-{topic.name}",
        "cpu",
        "s per M records",
        topic,
        [
            _ARROW_CONSUMER,
            Contender("confluent consume", "confluent", "consume", variants=CONSUMERS),
            Contender("librdkafka C", "rdkafka", "consume", variants=CONSUMERS),
        ],
        [Goal("kafwire consumer", "confluent consume", most=1 / 8)],
        figure="cpu",
    )


def _latency(figure: str) -> Row:
    """The row of the time from `produce()` in another process to the value in hand."""
    pace = {"interval_us": "2000", "warmup": "500"}
    return Row(
        f"latency-{figure}",
        "latency",
        "ms",
        Topic(100, "none", SMALL_BATCH),
        [
            Contender("kafwire records", "kafwire_consumer", "latency", pace),
            Contender("confluent poll", "confluent", "latency", pace, CONSUMERS),
            Contender("kafwire async records", "kafwire_async", "latency", pace),
        ],
        [Goal("kafwire records", "confluent poll", most=1.0)],
        short=figure == "p99",
        figure=figure,
    )


def _trickle(name: str, unit: str, figure: str, goal: float) -> Row:
    """A little for each of many partitions, through the proxy that counts."""
    pace = {"interval_us": "5000", "warmup": "600", "stretch": "5"}
    confluent = CONSUMERS["defaults"] | {"conf.client.id": CLIENT_ID}
    return Row(
        f"trickle-{name}",
        "trickle",
        unit,
        Topic(100, "none", SMALL_BATCH, MANY),
        [
            Contender("kafwire", "kafwire_consumer", "latency", pace | {"conf.client_id": CLIENT_ID}),
            Contender("confluent", "confluent", "latency", pace | confluent),
        ],
        [Goal("kafwire", "confluent", most=goal)],
        short=name == "bytes",
        figure=figure,
    )


def _in_c(variants: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """A worker in Python sets this itself."""
    return {name: {**options, "conf.delivery.report.only.error": "true"} for name, options in variants.items()}


def _produce(value_bytes: int, codec: str) -> Row:
    confluent = _librdkafka_producers(codec)
    small = value_bytes < 1000
    goals = [
        Goal("kafwire send_batch", "confluent produce", 6.0 if codec == "lz4" and small else 2.0),
        Goal("kafwire send", "confluent produce", 3.0 if small else 2.0),
        Goal("kafwire send_batch", "librdkafka C", 1.5),
        Goal("kafwire send", "librdkafka C", 1.5),
    ]
    if codec == "none":
        goals.append(Goal("kafwire send_batch", "floor", 0.7))
    return Row(
        f"produce-{value_bytes}-{codec}",
        "produce",
        "M records/s",
        Topic(value_bytes, codec, LARGE_BATCH),
        [
            Contender("kafwire send_batch", "kafwire", "send_batch", _kafwire_producer(codec)),
            Contender("kafwire send", "kafwire", "send", _kafwire_producer(codec)),
            Contender("confluent produce", "confluent", "produce", variants=confluent),
            Contender("confluent produce_batch", "confluent", "batch", variants=confluent),
            Contender("librdkafka C", "rdkafka", "produce", variants=_in_c(confluent)),
            Contender("floor", "floor", "produce", {"batch_bytes": str(LARGE_BATCH), "codec": codec}),
            Contender("aiokafka", "aiokafka", "produce", {"conf.compression_type": codec}, context=True),
            Contender("kafka-python", "kafkapython", "produce", {"conf.compression_type": codec}, context=True),
        ],
        goals,
        short=(value_bytes, codec) == (100, "lz4"),
    )


def _cpu_produce(codec: str) -> Row:
    """The same rounds as those of the row that compares speed, where the same configurations are chosen."""
    confluent = _librdkafka_producers(codec)
    return Row(
        f"cpu-produce-100-{codec}",
        "cpu",
        "s per M records",
        Topic(100, codec, LARGE_BATCH),
        [
            Contender("kafwire send_batch", "kafwire", "send_batch", _kafwire_producer(codec)),
            Contender("confluent produce", "confluent", "produce", variants=confluent),
            Contender("confluent produce_batch", "confluent", "batch", variants=confluent),
            Contender("librdkafka C", "rdkafka", "produce", variants=_in_c(confluent)),
        ],
        [Goal("kafwire send_batch", "confluent produce", most=1 / 6)],
        figure="cpu",
    )


def _wait(figure: str) -> Row:
    """One record after the other, each sent when the one before it is acknowledged by all replicas; linger 0."""
    pace = {"warmup": "500"}
    at_once = pace | {"conf.linger.ms": "0", "conf.acks": "all"}
    confluent = {
        "idempotent": at_once | {"conf.enable.idempotence": "true"},
        "not idempotent": at_once,
        "not idempotent, no Nagle": at_once | {"conf.socket.nagle.disable": "true"},
    }
    flushed = {f"{name}, flush": options | {"by": "flush"} for name, options in confluent.items()}
    return Row(
        f"wait-{figure}",
        "wait",
        "ms",
        Topic(100, "none", SMALL_BATCH),
        [
            Contender("kafwire send", "kafwire", "wait", pace | {"conf.linger_ms": "0"}),
            Contender("confluent produce", "confluent", "wait", variants=confluent | flushed),
            Contender("librdkafka C", "rdkafka", "wait", variants=confluent),
            Contender("floor", "floor", "wait", pace),
            Contender("kafwire's I/O thread alone", "kafwire_floor", "wait", pace),
        ],
        [Goal("kafwire send", "confluent produce", most=1.0)],
        short=figure == "p50",
        figure=figure,
    )


def _awaited(figure: str) -> Row:
    """The same in the user's event loop."""
    pace = {"warmup": "500"}
    variants = {"idempotent": {"idempotent": "true"}, "not idempotent": {"idempotent": "false"}}
    return Row(
        f"awaited-{figure}",
        "wait",
        "ms",
        Topic(100, "none", SMALL_BATCH),
        [
            Contender("kafwire async send", "kafwire_async", "wait", pace),
            Contender("aiokafka", "aiokafka", "wait", pace, variants),
        ],
        [Goal("kafwire async send", "aiokafka", most=0.85)] if figure == "p50" else [],
        figure=figure,
    )


def _pressure(value_bytes: int, codec: str) -> Row:
    """Defaults but for the codec: what they let pile up is the figure."""
    kafwire = {"conf.compression_type": codec, "conf.max_block_ms": "100"}
    confluent = {"conf.acks": "all", "conf.enable.idempotence": "true", "conf.compression.type": codec}
    return Row(
        f"pressure-{value_bytes}-{codec}",
        "pressure",
        "MiB",
        Topic(value_bytes, codec, LARGE_BATCH),
        [
            Contender("kafwire send", "kafwire", "pressure", kafwire),
            Contender("kafwire send_batch", "kafwire", "pressure_batch", kafwire),
            Contender("confluent produce", "confluent", "pressure", confluent),
        ],
        [Goal(name, most=BUFFER_MIB + 64.0) for name in ("kafwire send", "kafwire send_batch")],
    )


def _program(kafwire_task: str) -> str:
    return "kafwire_consumer" if kafwire_task in {"arrow", "stream"} else "kafwire"


def _beside(
    name: str, kafwire_task: str, confluent_task: str, kafwire: Mapping[str, str], topic: Topic, goal: float = 0.4
) -> Row:
    confluent = CONSUMERS if confluent_task == "consume" else _librdkafka_producers(topic.codec)
    contenders = [
        Contender(f"{client}, {beside}", program, task, {**options, "beside": beside}, variants)
        for client, program, task, options, variants in (
            ("kafwire", _program(kafwire_task), kafwire_task, kafwire, {"default": {}}),
            ("confluent", "confluent", confluent_task, {}, confluent),
        )
        for beside in ("nothing", "process", "thread")
    ]
    goals = [Goal("kafwire, thread", "kafwire, process", goal)]
    return Row(f"beside-{name}", "beside", "M records/s", topic, contenders, goals, short=name == "scan")


def _tls_beside() -> Row:
    """The cost of a computing thread for a consumer over TLS, beside its cost for the same consumer without."""
    plain = _beside("consumer", "arrow", "consume", {"touch": "count"}, _LZ4, 0.5)
    contenders = [replace(one, name=f"{one.name}, TLS", tls=True) for one in plain.contenders]
    goals = [Goal("kafwire, thread, TLS", "kafwire, process, TLS", 0.5)]
    return replace(plain, name=f"tls-{plain.name}", contenders=[*plain.contenders, *contenders], goals=goals)


def _polars(topic: Topic) -> Row:
    """A topic as a frame of polars: lazily, beside the stream of a scan."""
    return Row(
        f"polars-{topic.name}",
        "consume",
        "M records/s",
        topic,
        [
            Contender("kafwire scan, polars", "kafwire_polars", "frame"),
            Contender("kafwire scan_kafka", "kafwire_polars", "lazy"),
        ],
        [Goal("kafwire scan_kafka", "kafwire scan, polars", 0.95)],
    )


def _memory(name: str, kafwire_task: str, confluent_task: str, topic: Topic) -> Row:
    writes = confluent_task != "consume"
    # A client that reads as fast as it can hardly lets anything pile up.
    dwell = {"dwell_ms": "5"} if kafwire_task == "arrow" else {}
    options = _kafwire_producer(topic.codec) if writes else dwell
    confluent = _librdkafka_producers(topic.codec)["idempotent"] if writes else CONSUMERS["defaults"] | dwell
    return Row(
        f"memory-{name}",
        "memory",
        "MiB",
        topic,
        [
            Contender("kafwire", _program(kafwire_task), kafwire_task, options),
            Contender("confluent", "confluent", confluent_task, confluent),
        ],
        [Goal("kafwire", most=128.0)],
        short=name == "scan-100-lz4",
    )


def _decode(topic: Topic) -> Row:
    return Row(
        f"decode-{topic.name}",
        "decode",
        "M records/s",
        topic,
        [Contender("kafwire", "kafwire_decode", "decode"), Contender("plain C", "floor", "decode")],
        [Goal("kafwire", "plain C", 0.6)],
        short=topic.name == "100-lz4-1m",
    )


def _encode(codec: str) -> Row:
    return Row(
        f"encode-100-{codec}",
        "encode",
        "M records/s",
        Topic(100, codec, LARGE_BATCH),
        [Contender("kafwire", "kafwire_encode", "encode", {"codec": codec})],
        [Goal("kafwire", least=8.0)] if codec == "none" else [],
        short=codec == "none",
    )


def _message(name: str) -> Row:
    return Row(
        f"message-{name}",
        "message",
        "k messages/s",
        _LZ4,
        [
            Contender("kafwire", "kafwire_messages", name),
            Contender("kafwire, all read", "kafwire_messages", f"{name}_read"),
            *([Contender("kafwire, fetcher", "kafwire_messages", "fetch_engine")] if name == "fetch" else []),
            Contender("kafka-python", "kafkapython_messages", name),
        ],
        [Goal("kafwire", "kafka-python", 20.0)],
        short=name == "metadata",
    )


def _values(name: str, *contenders: Contender, goals: list[Goal]) -> Row:
    return Row(name, "values", "M records/s", _LZ4, list(contenders), goals, short=name == "avro-flights")


def _value_rows() -> list[Row]:
    return [
        _values(
            "avro-flights",
            Contender("kafwire", "kafwire_avro", "flights"),
            Contender("kafwire, four fields", "kafwire_avro", "four"),
            Contender("fastavro", "fastavro", "flights"),
            goals=[Goal("kafwire", least=1.0)],
        ),
        _values(
            "avro-flights-write",
            Contender("kafwire", "kafwire_avro", "write"),
            Contender("fastavro", "fastavro", "write"),
            goals=[Goal("kafwire", least=1.0)],
        ),
        _values(
            "protobuf-flights",
            Contender("kafwire", "kafwire_protobuf", "flights"),
            Contender("protobuf", "protobuf", "flights"),
            goals=[Goal("kafwire", least=1.0)],
        ),
        _values(
            "protobuf-flights-write",
            Contender("kafwire", "kafwire_protobuf", "write"),
            Contender("protobuf", "protobuf", "write"),
            goals=[Goal("kafwire", least=1.0)],
        ),
    ]


def _start(name: str) -> Row:
    """A whole process, from its start to its end, beside the peers and beside the interpreter with asyncio alone."""
    clients = ["kafwire", "confluent", "aiokafka", "kafka-python"]
    contenders = [Contender(one, "start", f"{one} {name}", context=one in clients[2:]) for one in clients]
    if name != "command":
        contenders.append(Contender("kafwire async", "start", f"kafwire-async {name}", context=True))
    return Row(
        name,
        "start",
        "ms",
        _LZ4,
        [*contenders, Contender("python and asyncio", "start", "floor")],
        [Goal("kafwire", "confluent", most=1.1)],
        short=name == "first-record",
    )


TOPICS = [
    Topic(value_bytes, codec, batch_bytes)
    for value_bytes in (100, 1000)
    for codec in ("none", "lz4")
    for batch_bytes in (LARGE_BATCH, SMALL_BATCH)
]
MANY = 1000
SENSOR_BYTES = 11
_LZ4 = Topic(100, "lz4", LARGE_BATCH)
_LZ4_SMALL = Topic(100, "lz4", SMALL_BATCH)
_PLAIN = Topic(1000, "none", LARGE_BATCH)

ROWS: Sequence[Row] = [
    *[_consume(topic) for topic in TOPICS],
    *[_consume(replace(topic, partitions=8)) for topic in (_LZ4, _LZ4_SMALL)],
    *[_tls(topic, replayed=replayed) for replayed in (True, False) for topic in (_PLAIN, _LZ4)],
    *[_tls_wait(figure) for figure in ("p50", "p99")],
    *[_records(replace(_LZ4, key_bytes=size)) for size in (0, SENSOR_BYTES)],
    _cpu(_LZ4),
    *[_produce(value_bytes, codec) for value_bytes in (100, 1000) for codec in ("none", "lz4")],
    *[_cpu_produce(codec) for codec in ("none", "lz4")],
    *[_wait(figure) for figure in ("p50", "p99")],
    *[_awaited(figure) for figure in ("p50", "p99")],
    _tls_beside(),
    _beside("scan", "scan", "consume", {}, _LZ4),
    _beside("send_batch", "send_batch", "produce", _kafwire_producer("lz4"), _LZ4),
    _beside("consumer", "arrow", "consume", {"touch": "count"}, _LZ4, 0.5),
    _beside("consumer-16k", "arrow", "consume", {"touch": "count"}, _LZ4_SMALL, 0.5),
    _beside("arrow_stream", "stream", "consume", {"touch": "count"}, _LZ4, 0.5),
    _beside("arrow_stream-16k", "stream", "consume", {"touch": "count"}, _LZ4_SMALL, 0.5),
    *[_polars(topic) for topic in (_LZ4, _PLAIN)],
    _memory("scan-100-lz4", "scan", "consume", _LZ4),
    _memory("scan-1000-none", "scan", "consume", _PLAIN),
    _memory("send_batch-100-lz4", "send_batch", "produce", _LZ4),
    _memory("send_batch-1000-none", "send_batch", "produce", _PLAIN),
    _memory("send-100-lz4", "send", "produce", _LZ4),
    *[
        _memory(
            f"consumer-100-lz4{f'-x{count}' if count > 1 else ''}", "arrow", "consume", replace(_LZ4, partitions=count)
        )
        for count in (1, 8, MANY)
    ],
    _memory("consumer-1000-none", "arrow", "consume", _PLAIN),
    *[_pressure(value_bytes, codec) for value_bytes, codec in ((100, "none"), (1000, "lz4"))],
    *[_latency(figure) for figure in ("p50", "p99")],
    _trickle("bytes", "request bytes per record", "request_bytes", 1 / 20),
    _trickle("cpu", "us of CPU per record", "cpu_us", 1 / 2),
    _trickle("p50", "ms", "p50", 1.1),
    *[_decode(topic) for topic in TOPICS if topic.value_bytes == 100],
    *[_encode(codec) for codec in ("none", "lz4")],
    *[_message(name) for name in ("metadata", "fetch")],
    *_value_rows(),
    *MEMBER_ROWS,
    Row(
        "import",
        "import",
        "ms",
        _LZ4,
        [
            Contender("kafwire", "import", "kafwire"),
            Contender("kafwire's clients", "import", "kafwire.sync.producer, kafwire.sync.scan"),
            Contender("confluent_kafka", "import", "confluent_kafka"),
            Contender("aiokafka", "import", "aiokafka", context=True),
            Contender("kafka", "import", "kafka", context=True),
        ],
        [Goal("kafwire", most=10.0)],
        short=True,
    ),
    *[_start(name) for name in ("first-record", "first-send", "command")],
]


def choose(names: Sequence[str], *, short: bool) -> list[Row]:
    """The rows with these names, name beginnings or patterns; all (or all of the short form) without names.

    Raises ValueError for a name that no row has.
    """
    if not names:
        return [row for row in ROWS if row.short or not short]
    for name in names:
        if not any(_matches(row, name) for row in ROWS):
            raise ValueError(f"no row is called {name!r}; there are: {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if any(_matches(row, name) for name in names)]


def _matches(row: Row, name: str) -> bool:
    return row.name == name or row.name.startswith(f"{name}-") or fnmatchcase(row.name, name)
