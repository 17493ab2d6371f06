"""A job file: TOML in, a frozen `Job` out, or `ConfigError` that names the key, the value and what to do.

Pure. `${NAME}` in a text is the environment variable of that name, which the caller hands over as a mapping.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.similar_names import similar
from kafwire.spark.options import AT_LEAST_ONCE, ATOMIC, EXACTLY_ONCE, STRATEGIES, read_options, write_options
from kafwire.spark.stream_options import stream_options
from kafwire.spark.value_options import AVRO, BAD_RECORD, DEAD_LETTER

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH, ONCE, AVAILABLE_NOW = "batch", "once", "available-now"
_TRIGGERS = f"{BATCH}, {ONCE}, {AVAILABLE_NOW}, or an interval such as '10 seconds'"
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)")
_SECONDS = {"ms": 0.001, "mi": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DELIVERIES = (AT_LEAST_ONCE, EXACTLY_ONCE, ATOMIC)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MODES = ("append", "complete", "update")

_KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset({"name", "trigger", "checkpoint", "kafka", "spark", "source", "decode", "sql", "sink", "report"}),
    "spark": frozenset({"master", "conf"}),
    "source": frozenset({*STRATEGIES, "table", "format", "path", "columns", "schema", "options"}),
    "decode": frozenset({"json", "column", "bad", "registry", "subject", "schema"}),
    "sql": frozenset({"query", "watermark"}),
    "sink": frozenset({"topic", "table", "format", "path", "partition_by", "mode", "delivery", "options"}),
    "report": frozenset({"plot"}),
}
_KAFKA = "kafwire"


@dataclass(frozen=True, slots=True)
class Source:
    """A format with its options, or a table. `columns` are those of a topic; `schema` is that of files."""

    format: str | None
    table: str | None
    path: str | None
    columns: tuple[str, ...] | None
    schema: str | None
    options: Mapping[str, str] = field(repr=False)  # includes passwords

    @property
    def is_topic(self) -> bool:
        """True if kafwire reads the source: a topic."""
        return self.format == _KAFKA

    @property
    def name(self) -> str:
        """The topics, the table or the path."""
        topics = next((self.options[name] for name in STRATEGIES if name in self.options), "")
        return topics if self.is_topic else str(self.table or self.path)


@dataclass(frozen=True, slots=True)
class Decode:
    """The columns decoded from the source's column `column`. With `fails`, bad records fail the query.

    `schema` are the columns of JSON text in Spark's DDL; None for Avro, which the source decodes by its own options.
    """

    schema: str | None
    column: str
    fails: bool


@dataclass(frozen=True, slots=True)
class Sink:
    """A format with its options, or a table."""

    format: str | None
    table: str | None
    path: str | None
    partition_by: tuple[str, ...]
    mode: str
    options: Mapping[str, str] = field(repr=False)  # includes passwords

    @property
    def is_topic(self) -> bool:
        """True if kafwire writes the sink: a topic."""
        return self.format == _KAFKA

    @property
    def name(self) -> str:
        """The topic, the table or the path."""
        return self.options["topic"] if self.is_topic else str(self.table or self.path)


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline: source, decode, SQL, sink. `interval_s` is None unless the trigger is an interval."""

    name: str
    source: Source
    decode: Decode | None
    sql: str | None
    watermark: tuple[str, str] | None
    sink: Sink
    trigger: str
    interval_s: float | None
    checkpoint: str | None
    master: str | None
    conf: Mapping[str, str] = field(repr=False)
    plot: str | None

    @property
    def is_stream(self) -> bool:
        """True unless it is one batch read and one batch write."""
        return self.trigger != BATCH

    def __str__(self) -> str:
        """The job's steps and trigger."""
        decoded = [] if self.decode is None else ["Avro" if self.decode.schema is None else "JSON"]
        steps = [self.source.name, *decoded, *["SQL"] * (self.sql is not None)]
        return f"{' -> '.join([*steps, self.sink.name])}, {self.trigger}"


def read_job(text: str, environment: Mapping[str, str], name: str = "kafwire job") -> Job:
    """Check a job file; raises `ConfigError`. `name` is the default for the job's name."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the job file is no TOML: {error}") from None
    given = _Table("", _filled(raw, environment, ""))
    kafka = given.settings("kafka")
    prefixed = {f"kafka.{key.removeprefix('kafka.')}": value for key, value in kafka.items()}
    source = _source(given.table("source", required=True), prefixed)
    decode = None
    if "decode" in raw:
        source, decode = _decode(given.table("decode"), source)
    job_name = given.text("name") or name
    sink = _sink(given.table("sink", required=True), prefixed, job_name)
    sql = given.table("sql")
    spark = given.table("spark")
    trigger = given.text("trigger") or AVAILABLE_NOW
    job = Job(
        name=job_name,
        source=source,
        decode=decode,
        sql=sql.text("query", required="sql" in raw),
        watermark=_watermark(sql),
        sink=sink,
        trigger=trigger,
        interval_s=_interval(trigger),
        checkpoint=given.text("checkpoint"),
        master=spark.text("master"),
        conf=spark.settings("conf"),
        plot=given.table("report").text("plot"),
    )
    _check(job, kafka_is_given=bool(kafka))
    return job


class _Table:
    """One table of the file. Unknown keys, and values of another type, raise `ConfigError`."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self._name, self._values = name, values
        for key in values:
            if key not in _KEYS[name]:
                near = similar(key, _KEYS[name])
                hint = f"did you mean {self._path(near[0])}?" if near else f"known are {', '.join(sorted(_KEYS[name]))}"
                raise ConfigError(f"unknown key {self._path(key)} in the job file: {hint}")

    def text(self, key: str, *, required: bool = False) -> str | None:
        value = self._values.get(key)
        if value is None:
            if required:
                raise ConfigError(f"key {self._path(key)} is missing in the job file")
            return None
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{self._path(key)}={value!r}: text that is not empty is needed")
        return value.strip()

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(isinstance(one, str) and one.strip() for one in value):
            raise ConfigError(f"{self._path(key)}={value!r}: a list of names is needed")
        return tuple(one.strip() for one in value)

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        """Return a value of `allowed`; its first element is the default."""
        value = self.text(key) or allowed[0]
        if value not in allowed:
            raise ConfigError(f"{self._path(key)}={value!r}: allowed: {', '.join(allowed)}")
        return value

    def settings(self, key: str) -> dict[str, str]:
        """Return a table of names and plain values as text, as for Spark. Dotted keys are TOML's nested tables."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{self._path(key)}={value!r}: a table of options is needed, [{self._path(key)}]")
        return dict(self._flat(value, self._path(key), ""))

    def table(self, key: str, *, required: bool = False) -> _Table:
        value = self._values.get(key, {})
        if required and not value:
            raise ConfigError(f"table [{key}] is missing in the job file")
        if not isinstance(value, dict):
            raise ConfigError(f"{key}={value!r}: a table is needed, [{key}]")
        return _Table(key, value)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def _flat(self, values: Mapping[str, Any], where: str, prefix: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for key, value in values.items():
            if isinstance(value, dict):
                found += self._flat(value, where, f"{prefix}{key}.")
            elif isinstance(value, bool):
                found.append((prefix + key, str(value).lower()))
            elif isinstance(value, str | int | float):
                found.append((prefix + key, str(value)))
            else:
                raise ConfigError(f"{where}.{prefix}{key}={value!r}: text, a number or true and false are needed")
        return found

    def _path(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


def _source(given: _Table, kafka: Mapping[str, str]) -> Source:
    chosen = [name for name in (*STRATEGIES, "table", "path") if name in given]
    if len(chosen) != 1:
        said = f"got {' and '.join(chosen)}" if chosen else "got none"
        raise ConfigError(f"[source] needs exactly one of {', '.join(STRATEGIES)}, table and path; {said}")
    (kind,) = chosen
    options = given.settings("options")
    if kind in STRATEGIES:
        for key in ("format", "schema"):
            if key in given:
                raise ConfigError(f"source.{key} is for files: leave it out, a topic has fixed columns")
        options = {**kafka, **options, kind: given.text(kind) or ""}
        return Source(_KAFKA, None, None, given.texts("columns"), None, options)
    if "columns" in given:
        raise ConfigError(f"source.columns is for topics: choose columns of a {kind} in sql.query")
    if kind == "table":
        for key in ("format", "schema"):
            if key in given:
                raise ConfigError(f"source.{key} is for files: leave it out, the catalog knows the table's")
        return Source(None, given.text("table"), None, None, None, options)
    file_format = given.text("format", required=True)
    return Source(file_format, None, given.text("path"), None, given.text("schema"), options)


def _decode(given: _Table, source: Source) -> tuple[Source, Decode]:
    """Return the decoding step, and the source with the options that it needs."""
    if ("json" in given) == ("registry" in given):
        raise ConfigError("table [decode] needs either decode.json, for JSON, or decode.registry, for Avro")
    if "registry" in given:
        return _decode_avro(given, source)
    for key in ("subject", "schema"):
        if key in given:
            raise ConfigError(f"decode.{key} is for Avro, with decode.registry: leave it out for decode.json")
    fails = given.one_of("bad", ("null", "error")) == "error"
    return source, Decode(given.text("json"), given.text("column") or "value", fails)


def _decode_avro(given: _Table, source: Source) -> tuple[Source, Decode]:
    if not source.is_topic:
        raise ConfigError("decode.registry decodes values of a topic: leave it out for a table or a path")
    if "column" in given:
        raise ConfigError("decode.column is for decode.json: decode.registry decodes the column value")
    bad = given.one_of("bad", ("null", "error", "dead-letter"))
    options = {f"schemaRegistry.{name}": text for name, text in given.settings("registry").items()}
    options |= {"valueFormat": AVRO, "badRecords": DEAD_LETTER if bad == "dead-letter" else bad}
    for key, name in (("subject", "valueSubject"), ("schema", "valueSchema")):
        text = given.text(key)
        if text is not None:
            options[name] = text
    columns = source.columns
    if columns is not None and bad == "dead-letter" and BAD_RECORD not in columns:
        columns = (*columns, BAD_RECORD)
    made = replace(source, options={**source.options, **options}, columns=columns)
    return made, Decode(None, "value", fails=bad == "error")


def _watermark(given: _Table) -> tuple[str, str] | None:
    text = given.text("watermark")
    if text is None:
        return None
    column, _, delay = text.partition(" ")
    if not _INTERVAL.fullmatch(delay.strip().lower()):
        raise ConfigError(f"sql.watermark={text!r}: a column and a delay are needed, such as 'timestamp 10 minutes'")
    return column, delay.strip()


def _sink(given: _Table, kafka: Mapping[str, str], job_name: str) -> Sink:
    chosen = [name for name in ("topic", "table", "path") if name in given]
    if len(chosen) != 1:
        said = f"got {' and '.join(chosen)}" if chosen else "got none"
        raise ConfigError(f"[sink] needs exactly one of topic, table and path; {said}")
    (kind,) = chosen
    options = given.settings("options")
    mode = given.one_of("mode", _MODES)
    parts = given.texts("partition_by") or ()
    delivery = given.one_of("delivery", _DELIVERIES) if "delivery" in given else None
    if kind == "topic":
        for key in ("format", "partition_by"):
            if key in given:
                raise ConfigError(f"sink.{key} is for files and tables: leave it out for a topic")
        options = {**kafka, **options, "topic": given.text("topic") or ""}
        if delivery is not None:
            options["delivery"] = delivery
            if delivery != AT_LEAST_ONCE and all(name.lower() != "sink" for name in options):
                options["sink"] = job_name
        return Sink(_KAFKA, None, None, (), mode, options)
    if delivery is not None:
        raise ConfigError(
            f"sink.delivery is for topics: leave it out for a {kind}, whose format says how rows are delivered"
        )
    if kind == "table":
        return Sink(given.text("format"), given.text("table"), None, parts, mode, options)
    return Sink(given.text("format", required=True), None, given.text("path"), parts, mode, options)


def _interval(trigger: str) -> float | None:
    if trigger in (BATCH, ONCE, AVAILABLE_NOW):
        return None
    found = _INTERVAL.fullmatch(trigger.lower())
    if found is None:
        raise ConfigError(f"trigger={trigger!r}: allowed: {_TRIGGERS}")
    unit = found[2]
    return float(found[1]) * _SECONDS[unit if unit == "ms" else "mi" if unit.startswith("mill") else unit[0]]


def _check(job: Job, *, kafka_is_given: bool) -> None:
    """Raise `ConfigError` for combinations of keys that cannot run or have no effect."""
    if job.is_stream and job.checkpoint is None:
        raise ConfigError(
            f"key checkpoint is missing in the job file: a stream (trigger={job.trigger!r}) keeps its offsets there; "
            "or set trigger to 'batch'"
        )
    if not job.is_stream and job.checkpoint is not None:
        raise ConfigError("key checkpoint has no effect with trigger='batch': leave it out, or choose another trigger")
    if not job.is_stream and job.sink.mode != "append":
        raise ConfigError(f"sink.mode={job.sink.mode!r} is for streams: a batch appends")
    if not job.is_stream and job.watermark is not None:
        raise ConfigError("sql.watermark is for streams: leave it out with trigger='batch'")
    if job.sink.is_topic and job.sink.mode == "update":
        raise ConfigError(
            "sink.mode='update': Spark has no such mode for Python sinks; take 'append' with sql.watermark, whose rows "
            "come when they are complete, or 'complete'"
        )
    delivery = job.sink.options.get("delivery")
    if delivery == "exactly-once" and not job.is_stream:
        raise ConfigError("sink.delivery='exactly-once' is for streams: a batch is written 'atomic' or 'at-least-once'")
    if delivery == "atomic" and job.is_stream:
        raise ConfigError("sink.delivery='atomic' is for trigger='batch': a stream is written 'exactly-once'")
    if kafka_is_given and not job.source.is_topic and not job.sink.is_topic:
        raise ConfigError("table [kafka] has no effect: neither [source] nor [sink] is a topic")
    if job.decode is not None and job.source.columns and not _has(job.decode.column, job.source.columns):
        raise ConfigError(f"decode.column={job.decode.column!r} is not among source.columns")
    _check_topics(job)


def _has(column: str, columns: tuple[str, ...]) -> bool:
    return any(name == column or name.startswith(f"{column}.") for name in columns)


def _check_topics(job: Job) -> None:
    if job.source.is_topic:
        try:
            (stream_options if job.is_stream else read_options)(job.source.options)
        except ConfigError as error:
            raise ConfigError(f"[source]: {error}") from None
    if job.sink.is_topic:
        try:
            write_options(job.sink.options, is_stream=job.is_stream)
        except ConfigError as error:
            raise ConfigError(f"[sink]: {error}") from None


def _filled(value: Any, environment: Mapping[str, str], where: str) -> Any:
    """Return `value` with `${NAME}` replaced by environment variables."""
    if isinstance(value, dict):
        return {key: _filled(one, environment, f"{where}.{key}" if where else key) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, environment, where) for one in value]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise ConfigError(f"{where}: the environment has no variable {found[1]}: set it, or write the value")
        return environment[found[1]]

    return _VARIABLE.sub(variable, value)
