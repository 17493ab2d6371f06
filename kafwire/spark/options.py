"""The options of `.option(...)`, checked on the driver and frozen; names and meaning are those of Spark's own source.

Pure: a mapping of strings in, one frozen dataclass out, or `ConfigError` that names the option, the value and what to
do. Spark passes option names in lower case, so they are compared in lower case and shown in their usual spelling.
No pyspark, no client here. `kafka.*` options are checked by the dataclass of the client that takes them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kafwire.config import ClientConfig, ProducerConfig, ScanConfig, from_config
from kafwire.errors import ConfigError
from kafwire.secret import Secret
from kafwire.similar_names import similar
from kafwire.spark.exactly_once.decisions import check_sink_name
from kafwire.spark.offsets import EARLIEST, LATEST, parse_offsets, parse_partitions, parse_texts, parse_timestamps
from kafwire.spark.topic_pattern import topic_pattern
from kafwire.spark.value_options import KEY_OPTIONS, VALUE_OPTIONS, ValueFormat, formats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafwire.types import TopicPartition

log = logging.getLogger("kafwire.spark")

_RACKS = '{"worker-1": "rack-a", "worker-2": "rack-b"}'
GROUP = "group:"  # before the id of the group whose committed offsets a stream starts from
STRATEGIES = ("assign", "subscribe", "subscribePattern")
# The values are the reasons for which a stream refuses the options.
BATCH_ONLY = {
    "endingTimestamp": "a stream has no end",
    "endingOffsetsByTimestamp": "a stream has no end",
    "endingOffsets": "a stream has no end",
    "pushFilters": "Spark pushes no filters down to a stream",
}
_READ = (
    *STRATEGIES,
    *BATCH_ONLY,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "clientRackByHost",
    "columns",
    *KEY_OPTIONS,
    *VALUE_OPTIONS,
)
# A batch read ignores these with a warning, as they sound as if they bounded it; `stream_options` reads them.
_STREAMING = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "maxOffsetsPerTriggerByTopic",
    "commitGroup",
)
# A batch read ignores these silently, as Spark's own does.
_POLLING = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs")
_WRITE = ("topic", "delivery", "sink", "stateTopic")
# Spark's own options, which it passes to the sink of a stream too.
_QUERY = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
_KNOWN = {name.lower(): name for name in (*_READ, *_STREAMING, *_POLLING, *_WRITE, *_QUERY)}

AT_LEAST_ONCE, EXACTLY_ONCE, ATOMIC = "at-least-once", "exactly-once", "atomic"
# The longest time that brokers allow a transaction by default (`transaction.max.timeout.ms`).
TRANSACTION_TIMEOUT_MS = 900_000
TWO_PHASE = "kafka.transaction.two.phase.commit.enable"

# kafka.* options that are refused, and what to do instead.
_REFUSED_READING = {
    "auto.offset.reset": "set the option startingOffsets to say where to begin; a read never resets by itself",
    "key": "set the option keyFormat",
    "key.deserializer": "keys arrive as bytes: set the option keyFormat, or decode the column in the query",
    "value": "set the option valueFormat",
    "value.deserializer": ("values arrive as bytes: set the option valueFormat, or decode the column in the query"),
    "enable.auto.commit": "reading joins no group and commits nothing",
    "interceptor.classes": "Java interceptors do not run here: transform the DataFrame",
}
_REFUSED_WRITING = {
    "key.serializer": "keys are written as they are: cast the column to string or binary",
    "value.serializer": "values are written as they are: cast the column to string or binary",
    "partitioner.class": "a Java class does not run here: write a `partition` column, or name one of kafwire's in "
    "kafka.partitioner; keys are placed as Java's default partitioner does",
    "interceptor.classes": "Java interceptors do not run here: transform the DataFrame",
    "transactional.id": "the sink makes its own from the option sink: leave it out",
}
_REFUSED = {
    "metric.reporters": "a Java class does not run here: leave it out",
    "security.providers": "a Java class does not run here: leave it out",
    "ssl.engine.factory.class": "a Java class does not run here: give certificates by the other options of ssl",
    "ssl.context": "options are text: give certificates by the other options of ssl",
    "sasl.oauthbearer.token.provider": "options are text: set kafka.sasl.oauthbearer.token.endpoint.url",
}

# Options of Java's clients with nothing to act on here: taken with a warning, so that a query moves over unchanged.
_NO_EFFECT = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "allow.auto.create.topics",
        "client.dns.lookup",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
    }
)
_NO_EFFECT_READING = _NO_EFFECT | {
    "exclude.internal.topics",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
}
_NO_EFFECT_WRITING = _NO_EFFECT | {"retries"}


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a read: offsets or timestamps (ms), the same everywhere or named by partition."""

    option: str
    by_timestamp: bool
    everywhere: int | None
    named: Mapping[TopicPartition, int]

    def of(self, place: TopicPartition) -> int:
        """The requested offset or timestamp of `place`; -2 and -1 are earliest and latest."""
        return self.named[place] if self.everywhere is None else self.everywhere


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read. Exactly one of `assign`, `topics`, `pattern` is not None; `client` goes to `kafwire.scan`.

    `columns` are chosen by name, a field of the value as `value.<field>`; `key` and `value` are the formats that keys
    and values are decoded by. `racks` maps hosts that run tasks to racks.
    """

    client: Mapping[str, Any] = field(repr=False)  # includes passwords
    assign: tuple[TopicPartition, ...] | None
    topics: tuple[str, ...] | None
    pattern: str | None
    start: Bound
    end: Bound
    start_without_match: str
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records: int | None
    include_headers: bool
    columns: tuple[str, ...] | None = None
    key: ValueFormat | None = None
    value: ValueFormat | None = None
    push_filters: bool = False
    racks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A write. `topic` overrides the column of that name; `client` goes to `kafwire.Producer`.

    With transactions, `sink` names the writer, and `state_topic` keeps its decisions; both are None without.
    """

    client: Mapping[str, Any] = field(repr=False)  # includes passwords
    topic: str | None
    sink: str | None = None
    state_topic: str | None = None
    is_two_phase: bool = False  # the tasks' transactions never time out


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check the options of a batch read; raises `ConfigError`."""
    own, kafka = sort_out(given)
    start = bound(own, "starting", EARLIEST)
    end = bound(own, "ending", LATEST)
    options = reading(own, kafka, start, end)
    for name in _STREAMING:
        if name in own:
            log.warning("option %s concerns streams; a batch read ignores it", name)
    _refuse(start, LATEST, "latest: a batch read that begins at the end holds nothing")
    _refuse(end, EARLIEST, "earliest: a batch read that ends at the beginning holds nothing")
    _check_order(start, end)
    return options


def check_reading(given: Mapping[str, str]) -> ReadOptions:
    """Check the options that batch reads and streams share; raises `ConfigError`.

    Spark requests the schema before it says which of the two the query is.
    """
    own, kafka = sort_out(given)
    whole = Bound("startingOffsets", by_timestamp=False, everywhere=EARLIEST, named={})
    return reading(own, kafka, whole, whole)


def reading(own: Mapping[str, str], kafka: Mapping[str, str], start: Bound, end: Bound) -> ReadOptions:
    """The options of a read from `start` to `end`; raises `ConfigError`."""
    chosen = [name for name in STRATEGIES if name in own]
    if len(chosen) != 1:
        said = f"got {' and '.join(chosen)}" if chosen else "got none"
        raise ConfigError(f"a read needs exactly one of the options {', '.join(STRATEGIES)}; {said}")
    low, high = positive(own, "minOffsetsPerTrigger"), positive(own, "maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise ConfigError(f"option minOffsetsPerTrigger={low} is above maxOffsetsPerTrigger={high}")
    if "topic" in own:
        log.warning("option topic concerns writing; a read ignores it")
    assign = parse_partitions("assign", own["assign"]) if "assign" in own else None
    topics = _topics(own["subscribe"]) if "subscribe" in own else None
    key, value = formats(own, topics or tuple(dict.fromkeys(place.topic for place in assign or ())))
    return ReadOptions(
        client=_client("reading", kafka, ScanConfig, _REFUSED_READING, _NO_EFFECT_READING),
        assign=assign,
        topics=topics,
        pattern=topic_pattern(own["subscribePattern"]) if "subscribePattern" in own else None,
        start=start,
        end=end,
        start_without_match=_one_of(own, "startingOffsetsByTimestampStrategy", ("error", "latest")),
        fail_on_data_loss=_one_of(own, "failOnDataLoss", ("true", "false")) == "true",
        min_partitions=positive(own, "minPartitions"),
        max_records=positive(own, "maxRecordsPerPartition"),
        include_headers=_one_of(own, "includeHeaders", ("false", "true")) == "true",
        columns=_columns(own),
        racks=parse_texts("clientRackByHost", own["clientRackByHost"], _RACKS) if "clientRackByHost" in own else {},
        push_filters=_one_of(own, "pushFilters", ("false", "true")) == "true",
        key=key,
        value=value,
    )


def write_options(given: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """Check the options of a write; raises `ConfigError`."""
    own, kafka = sort_out(given)
    delivery = _delivery(own, is_stream=is_stream)
    reading = [name for name in own if name in _READ and name != "includeHeaders"]
    if reading:
        log.warning("options that concern reading are ignored by a write: %s", ", ".join(sorted(reading)))
    topic = own["topic"].strip() if "topic" in own else None
    if topic == "":
        raise ConfigError("option topic is empty: name a topic, or leave it out and write a `topic` column")
    client = _client("writing", kafka, ProducerConfig, _REFUSED_WRITING, _NO_EFFECT_WRITING)
    config = ProducerConfig.build(client)
    is_two_phase = config.transaction_two_phase_commit_enable
    if delivery == AT_LEAST_ONCE:
        if is_two_phase:
            raise ConfigError(f"option {TWO_PHASE} needs delivery={EXACTLY_ONCE if is_stream else ATOMIC}")
        return WriteOptions(client=client, topic=topic)
    if not config.idempotent:
        raise ConfigError(
            f"option delivery={delivery}: transactions need kafka.acks=all and idempotence; leave both out"
        )
    client.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    sink = own["sink"].strip()
    state_topic = own.get("stateTopic", f"kafwire-sink-{sink}").strip()
    if not state_topic:
        raise ConfigError("option stateTopic is empty: name the topic of the sink's decisions, or leave it out")
    return WriteOptions(client, topic, sink=sink, state_topic=state_topic, is_two_phase=is_two_phase)


def _delivery(own: Mapping[str, str], *, is_stream: bool) -> str:
    """The guarantee of a write, with the options that it needs."""
    better, other = (EXACTLY_ONCE, ATOMIC) if is_stream else (ATOMIC, EXACTLY_ONCE)
    if own.get("delivery", "").strip().lower() == other:
        kind = "a stream" if is_stream else "a batch write"
        raise ConfigError(f"option delivery={other}: {kind} takes {AT_LEAST_ONCE} or {better}")
    delivery = _one_of(own, "delivery", (AT_LEAST_ONCE, better))
    if delivery == AT_LEAST_ONCE:
        for name in ("sink", "stateTopic"):
            if name in own:
                raise ConfigError(f"option {name} needs delivery={better}")
        return delivery
    if "sink" not in own:
        raise ConfigError(f"option delivery={delivery} needs the option sink: a name that no other query has")
    check_sink_name(own["sink"].strip())
    if own.get("asyncProgressTrackingEnabled", "").strip().lower() == "true":
        raise ConfigError(
            f"option delivery={delivery}: with asyncProgressTrackingEnabled Spark may replay a batch with other "
            "records; leave that option out"
        )
    return delivery


def client_names() -> set[str]:
    """The options that any client takes."""
    return {item.name for item in fields(ClientConfig)}


def sort_out(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The source's own options by their usual names, and the `kafka.*` options without the prefix."""
    own, kafka = {}, {}
    for name, value in given.items():
        lowered = name.lower()
        if lowered.startswith("kafka."):
            kafka[lowered.removeprefix("kafka.")] = value
        elif lowered in _KNOWN:
            own[_KNOWN[lowered]] = value
        elif lowered == "path":
            raise ConfigError(
                f"load() and save() take no path here, got {value!r}; use the options subscribe and topic"
            )
        else:
            close = similar(lowered, [*_KNOWN, "kafka.bootstrap.servers"])
            hint = (
                f"did you mean {_KNOWN.get(close[0], close[0])}?"
                if close
                else "options of the client begin with kafka."
            )
            raise ConfigError(f"unknown option {name!r}: {hint}")
    return own, kafka


def _client(
    doing: str,
    kafka: Mapping[str, str],
    config: type[ScanConfig | ProducerConfig],
    refused: Mapping[str, str],
    without_effect: Iterable[str],
) -> dict[str, Any]:
    if "bootstrap.servers" not in kafka:
        raise ConfigError("option kafka.bootstrap.servers is missing: give host:port of one broker or more")
    passed, ignored = {}, []
    for name, value in kafka.items():
        reason = refused.get(name) or _REFUSED.get(name)
        if reason:
            raise ConfigError(f"option kafka.{name} is not supported: {reason}")
        if name in without_effect:
            ignored.append(f"kafka.{name}")
        else:
            passed[name] = value
    if ignored:
        log.warning("options without effect when %s: %s", doing, ", ".join(sorted(ignored)))
    try:
        options = from_config(config, passed)
    except ConfigError as error:
        raise ConfigError(f"kafka.* options: {error}") from None
    # Spark sends them to the workers, as it does the options themselves.
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


def bound(own: Mapping[str, str], side: str, default: int) -> Bound:
    """The end `side` ("starting", "ending") of a read, from its three options; `default` without one."""
    # The most specific option wins when several are given, in Spark's order.
    option = f"{side}Timestamp"
    if option in own:
        return Bound(option, by_timestamp=True, everywhere=_milliseconds(option, own[option]), named={})
    option = f"{side}OffsetsByTimestamp"
    if option in own:
        named = parse_timestamps(option, own[option])
        return Bound(option, by_timestamp=True, everywhere=None, named=named)
    option = f"{side}Offsets"
    word = own.get(option, "").strip()
    words = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if word.lower() in words and (word or option not in own):
        return Bound(option, by_timestamp=False, everywhere=words[word.lower()], named={})
    if word.startswith(GROUP):
        raise ConfigError(f"option {option}={word!r}: only a stream starts from the offsets of a group")
    if not word.startswith("{"):
        raise ConfigError(
            f'option {option}={word!r}: allowed: earliest, latest, or JSON like {{"topicA": {{"0": 23}}}}'
        )
    return Bound(option, by_timestamp=False, everywhere=None, named=parse_offsets(option, word))


def _refuse(bound: Bound, offset: int, why: str) -> None:
    if bound.by_timestamp:
        return
    if bound.everywhere == offset:
        raise ConfigError(f"option {bound.option} can't be {why}")
    for place, asked in bound.named.items():
        if asked == offset:
            raise ConfigError(f"option {bound.option} of {place.topic}-{place.partition} can't be {offset}, {why}")


def _check_order(start: Bound, end: Bound) -> None:
    if start.by_timestamp != end.by_timestamp:
        return
    if start.everywhere is None and end.everywhere is None and start.named.keys() != end.named.keys():
        lone = sorted(f"{place.topic}-{place.partition}" for place in start.named.keys() ^ end.named.keys())
        raise ConfigError(f"{start.option} and {end.option} name different partitions: {', '.join(lone)} only in one")
    for place in {**start.named, **end.named}:
        low, high = start.of(place), end.of(place)
        if low > high >= 0:
            where = f"{place.topic}-{place.partition}"
            raise ConfigError(f"option {start.option} of {where} is {low}, after {end.option}, {high}")
    if start.everywhere is not None and end.everywhere is not None and start.everywhere > end.everywhere >= 0:
        raise ConfigError(f"option {start.option}={start.everywhere} is after {end.option}={end.everywhere}")


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not topics:
        raise ConfigError(f"option subscribe={text!r} names no topic: give topics separated by commas")
    return topics


def _columns(own: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in own:
        return None
    names = tuple(name for part in own["columns"].split(",") if (name := part.strip()))
    if not names:
        raise ConfigError("option columns is empty: give names with commas between, or leave it out")
    return names


def _one_of(own: Mapping[str, str], option: str, allowed: tuple[str, ...]) -> str:
    """The value of `option`, in lower case; the first of `allowed` is the default."""
    value = own.get(option, allowed[0]).strip().lower()
    if value not in allowed:
        raise ConfigError(f"option {option}={own[option]!r}: allowed: {', '.join(allowed)}")
    return value


def positive(own: Mapping[str, str], option: str) -> int | None:
    """A whole number above 0, or None where the option is not given."""
    if option not in own:
        return None
    text = own[option].strip()
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 2**63:
        raise ConfigError(f"option {option}={own[option]!r}: a whole number above 0 is needed")
    return int(text)


def _milliseconds(option: str, text: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit()) or int(stripped) >= 2**63:
        raise ConfigError(f"option {option}={text!r}: milliseconds since 1970 are needed, a whole number")
    return int(stripped)
