"""Job files: what they become, and the error for each mistake."""

from __future__ import annotations

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.job_file import Job, read_job

ARCHIVE = """
checkpoint = "/data/checkpoint"
[kafka]
"bootstrap.servers" = "h:1"
[source]
subscribe = "flights"
[sink]
format = "parquet"
path = "/data/flights"
"""


def job(text: str, **environment: str) -> Job:
    return read_job(text, environment)


def test_a_topic_to_files() -> None:
    made = job(ARCHIVE)
    assert made.is_stream
    assert made.source.options == {"kafka.bootstrap.servers": "h:1", "subscribe": "flights"}
    assert (made.sink.format, made.sink.path, made.sink.options) == ("parquet", "/data/flights", {})
    assert (made.trigger, made.interval_s, made.name) == ("available-now", None, "kafwire job")
    assert str(made) == "flights -> /data/flights, available-now"


def test_files_to_a_topic_in_one_batch() -> None:
    made = job(
        """
        name = "backfill"
        trigger = "batch"
        kafka.bootstrap.servers = "h:1"
        source = { path = "/data/flights", format = "parquet" }
        sink = { topic = "flights", delivery = "atomic", options = { "kafka.linger.ms" = 20 } }
        """
    )
    assert not made.is_stream
    assert made.sink.options == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.linger.ms": "20",
        "topic": "flights",
        "delivery": "atomic",
        "sink": "backfill",
    }
    assert made.source.options == {}


def test_a_topic_decoded_and_queried_to_a_topic() -> None:
    made = job(
        """
        trigger = "10 seconds"
        checkpoint = "c"
        name = "delays"
        [kafka]
        bootstrap.servers = "h:1"
        [source]
        subscribe = "flights"
        columns = ["value", "timestamp"]
        options.maxOffsetsPerTrigger = 1000
        options.includeHeaders = false
        [decode]
        json = "origin string, delay int"
        bad = "error"
        [sql]
        query = "SELECT origin AS key, to_json(struct(*)) AS value FROM source"
        watermark = "timestamp 10 minutes"
        [sink]
        topic = "delays"
        delivery = "exactly-once"
        mode = "complete"
        options.sink = "delays"
        [spark]
        master = "local[2]"
        conf."spark.sql.shuffle.partitions" = 8
        conf.spark.ui.enabled = false
        [report]
        plot = "plot.png"
        """
    )
    assert (made.interval_s, made.watermark, made.plot) == (10.0, ("timestamp", "10 minutes"), "plot.png")
    assert made.source.columns == ("value", "timestamp")
    assert made.source.options["maxOffsetsPerTrigger"] == "1000"
    assert made.decode is not None
    assert (made.decode.schema, made.decode.column, made.decode.fails) == ("origin string, delay int", "value", True)
    assert (made.sink.options["delivery"], made.sink.options["sink"]) == ("exactly-once", "delays")
    assert made.conf == {"spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "false"}
    assert str(made) == "flights -> JSON -> SQL -> delays, 10 seconds"


def test_avro_is_decoded_by_the_source() -> None:
    made = job(
        changed("[sink]", 'columns = ["offset", "value.delay"]\n[sink]')
        + """
        [decode]
        registry = { url = "https://registry", username = "me", password = "${SECRET}" }
        subject = "all-flights"
        bad = "dead-letter"
        """,
        SECRET="open sesame",
    )
    assert made.source.options.items() >= {
        ("valueFormat", "avro"),
        ("badRecords", "deadLetter"),
        ("schemaRegistry.url", "https://registry"),
        ("schemaRegistry.password", "open sesame"),
        ("valueSubject", "all-flights"),
    }
    assert made.source.columns == ("offset", "value.delay", "badRecord")
    assert made.decode is not None
    assert made.decode.schema is None
    assert str(made) == "flights -> Avro -> /data/flights, available-now"
    assert "sesame" not in repr(made)
    assert job(ARCHIVE + "[decode]\nregistry.url = 'u'").source.options["badRecords"] == "null"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500 ms", 0.5), ("2s", 2.0), ("1 minute", 60.0), ("5 milliseconds", 0.005), ("1.5 h", 5400.0)],
)
def test_intervals(text: str, seconds: float) -> None:
    assert job(f'trigger = "{text}"\n{ARCHIVE}').interval_s == pytest.approx(seconds)


def test_secrets_come_from_the_environment_and_are_not_shown() -> None:
    login = '"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\n'
    secrets = '"sasl.password" = "${SECRET}"\n"sasl.username" = "u-${NAME}"'
    text = changed('"h:1"', f'"h:1"\n{login}{secrets}')
    made = job(text, SECRET="open sesame", NAME="n")
    assert made.source.options["kafka.sasl.password"] == "open sesame"
    assert made.source.options["kafka.sasl.username"] == "u-n"
    assert "sesame" not in repr(made)
    with pytest.raises(ConfigError, match="kafka.sasl.password: the environment has no variable SECRET"):
        job(text, NAME="n")


def changed(old: str, new: str) -> str:
    assert old in ARCHIVE
    return ARCHIVE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("= 3", "the job file is no TOML"),
        (changed("[source]", "[sourec]"), "unknown key sourec in the job file: did you mean source?"),
        (
            changed("subscribe", "subcribe"),
            r"unknown key source.subcribe in the job file: did you mean source.subscribe\?",
        ),
        (changed("[source]", "xyz = 1\n[source]").replace("xyz", "[qqqq]\nz"), "unknown key qqqq"),
        ("trigger = 'batch'\n[sink]\ntopic = 't'", r"table \[source\] is missing"),
        (changed('checkpoint = "/data/checkpoint"', ""), "key checkpoint is missing .* or set trigger to 'batch'"),
        ("trigger = 'batch'\n" + ARCHIVE, "key checkpoint has no effect with trigger='batch'"),
        ("trigger = 'sometimes'\n" + ARCHIVE, "trigger='sometimes': allowed: batch, once, available-now, or"),
        ("name = 3\n" + ARCHIVE, "name=3: text that is not empty is needed"),
        ("spark = 3\n" + ARCHIVE, r"spark=3: a table is needed, \[spark\]"),
        (
            changed("[sink]", "table = 't'\n[sink]"),
            r"\[source\] needs exactly one of .*; got subscribe and table",
        ),
        (changed('subscribe = "flights"', 'format = "parquet"'), r"\[source\] needs exactly one of .*; got none"),
        (changed("[sink]", "schema = 'a int'\n[sink]"), "source.schema is for files"),
        (changed("[sink]", "columns = 'value'\n[sink]"), "source.columns='value': a list of names is needed"),
        (changed('subscribe = "flights"', 'path = "p"'), "key source.format is missing"),
        (changed('subscribe = "flights"', 'table = "t"\ncolumns = ["a"]'), "source.columns is for topics"),
        (changed('subscribe = "flights"', 'table = "t"\nformat = "a"'), "source.format is for files"),
        (changed('subscribe = "flights"', 'table = "t"'), r"table \[kafka\] has no effect"),
        (changed('"h:1"', "[1]"), r"kafka.bootstrap.servers=\[1\]: text, a number or true and false are needed"),
        (changed('"bootstrap.servers" = "h:1"', ""), r"\[source\]: option kafka.bootstrap.servers is missing"),
        (
            changed("[sink]", "options.maxOffsetPerTrigger = 1\n[sink]"),
            r"\[source\]: unknown option 'maxOffsetPerTrigger'",
        ),
        (
            changed("[sink]", "options.endingOffsets = 'latest'\n[sink]"),
            r"\[source\]: option endingOffsets: a stream has no",
        ),
        (
            changed('path = "/data/flights"', ""),
            r"\[sink\] needs exactly one of topic, table and path; got none",
        ),
        (ARCHIVE + "topic = 't'", "got topic and path"),
        (ARCHIVE + "delivery = 'exactly-once'", "sink.delivery is for topics"),
        (ARCHIVE + "mode = 'overwrite'", "sink.mode='overwrite': allowed: append, complete, update"),
        (ARCHIVE + "options = 3", r"sink.options=3: a table of options is needed, \[sink.options\]"),
        (ARCHIVE + "[decode]\nbad = 'null'", "needs either decode.json, for JSON, or decode.registry, for Avro"),
        (ARCHIVE + "[decode]\njson = 'a int'\nregistry.url = 'u'", "needs either decode.json, for JSON, or"),
        (ARCHIVE + "[decode]\njson = 'a int'\nsubject = 's'", "decode.subject is for Avro, with decode.registry"),
        (ARCHIVE + "[decode]\nregistry.url = 'u'\ncolumn = 'key'", "decode.column is for decode.json"),
        (ARCHIVE + "[decode]\nregistry.url = 'u'\nbad = 'x'", "decode.bad='x': allowed: null, error, dead-letter"),
        (ARCHIVE + "[decode]\nregistry.uri = 'u'", r"\[source\]: unknown option 'schemaRegistry.uri': did you mean"),
        (
            changed('subscribe = "flights"', 'table = "t"').replace("[kafka]", "[spark.conf]")
            + "[decode]\nregistry.url = 'u'",
            "decode.registry decodes values of a topic",
        ),
        (ARCHIVE + "[decode]\njson = 'a int'\nbad = 'skip'", "decode.bad='skip': allowed: null, error"),
        (ARCHIVE + "[sql]\nwatermark = 'timestamp 3'", "key sql.query is missing"),
        (ARCHIVE + "[sql]\nquery = 'SELECT 1'\nwatermark = 'timestamp'", "a column and a delay are needed"),
        (
            changed("[sink]", "columns = ['key']\n[decode]\njson = 'a int'\n[sink]"),
            "decode.column='value' is not among source.columns",
        ),
    ],
)
def test_a_mistake_is_named(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        job(text)


TOPICS = """
[kafka]
"bootstrap.servers" = "h:1"
[source]
subscribe = "a"
[sink]
topic = "b"
"""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("trigger = 'batch'\n" + TOPICS + "delivery = 'exactly-once'", "'exactly-once' is for streams"),
        ("checkpoint = 'c'\n" + TOPICS + "delivery = 'atomic'", "'atomic' is for trigger='batch'"),
        (
            "checkpoint = 'c'\n" + TOPICS + "delivery = 'twice'",
            "sink.delivery='twice': allowed: at-least-once, exactly",
        ),
        (
            "name = 'two words'\ncheckpoint = 'c'\n" + TOPICS + "delivery = 'exactly-once'",
            r"\[sink\]: option sink='two words': up to 120 letters",
        ),
        ("checkpoint = 'c'\n" + TOPICS + "options.sink = 's'", r"\[sink\]: option sink needs delivery=exactly-once"),
        ("checkpoint = 'c'\n" + TOPICS + "format = 'x'", "sink.format is for files and tables"),
        ("trigger = 'batch'\n" + TOPICS + "mode = 'update'", "sink.mode='update' is for streams"),
        ("checkpoint = 'c'\n" + TOPICS + "mode = 'update'", "sink.mode='update': Spark has no such mode for Python"),
        ("trigger = 'batch'\n" + TOPICS + "options.'kafka.acks' = 'some'", r"\[sink\]: kafka\.\* options: option acks"),
        ("trigger = 'batch'\n" + TOPICS + "[sql]\nquery='q'\nwatermark='t 1 s'", "sql.watermark is for streams"),
    ],
)
def test_a_combination_that_cannot_run_is_named(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        job(text)
