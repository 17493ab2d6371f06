"""Options of the Spark data source: accepted ones, refused ones, and the text of the refusal. No pyspark needed."""

from __future__ import annotations

import logging
import pickle
import re

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.offsets import parse_offsets
from kafwire.spark.options import ReadOptions, WriteOptions, read_options, write_options
from kafwire.types import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
A0, A1, B2 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2)


def read(**options: str) -> ReadOptions:
    return read_options({**SERVERS, "subscribe": "a", **{name.lower(): value for name, value in options.items()}})


def test_the_defaults_read_a_topic_whole() -> None:
    options = read()
    assert options.topics == ("a",)
    assert (options.assign, options.pattern) == (None, None)
    assert (options.start.of(A0), options.end.of(A0)) == (-2, -1)
    assert not options.start.by_timestamp
    assert options.fail_on_data_loss
    assert (options.min_partitions, options.max_records, options.include_headers) == (None, None, False)
    assert options.client == {"bootstrap_servers": "127.0.0.1:9092"}


def test_names_are_taken_in_any_case_and_client_options_lose_their_prefix() -> None:
    options = read_options(
        {
            "Kafka.Bootstrap.Servers": "h:1",
            "SUBSCRIBEPATTERN": " a.* ",
            "kafka.isolation.level": "read_committed",
            "kafka.client.id": "me",
            "FailOnDataLoss": "FALSE",
            "minPartitions": "7",
            "maxRecordsPerPartition": "9",
            "includeHeaders": "true",
            "groupIdPrefix": "anything",
        }
    )
    assert options.client == {"bootstrap_servers": "h:1", "isolation_level": "read_committed", "client_id": "me"}
    assert options.pattern == "a.*"
    assert (options.fail_on_data_loss, options.include_headers) == (False, True)
    assert (options.min_partitions, options.max_records) == (7, 9)


def test_subscribe_and_assign_lists() -> None:
    assert read(subscribe=" a, b ,,a").topics == ("a", "b")
    options = read_options({**SERVERS, "assign": '{"b":[2],"a":[1,0,1]}'})
    assert options.assign == (A0, A1, B2)


def test_a_timestamp_beats_timestamps_beat_offsets() -> None:
    every = {
        "startingOffsets": '{"a":{"0":5}}',
        "startingOffsetsByTimestamp": '{"a":{"0":1000}}',
        "startingTimestamp": "2000",
        "endingOffsets": "latest",
        "endingOffsetsByTimestamp": '{"a":{"0":3000}}',
        "endingTimestamp": "4000",
    }
    options = read(**every)
    assert (options.start.by_timestamp, options.start.of(A0), options.end.of(A0)) == (True, 2000, 4000)
    del every["startingTimestamp"], every["endingTimestamp"]
    options = read(**every)
    assert (options.start.by_timestamp, options.start.of(A0), options.end.of(A0)) == (True, 1000, 3000)
    del every["startingOffsetsByTimestamp"], every["endingOffsetsByTimestamp"]
    options = read(**every)
    assert (options.start.by_timestamp, options.start.of(A0), options.end.of(A0)) == (False, 5, -1)


def test_offsets_keep_the_shape_of_sparks_own() -> None:
    offsets = parse_offsets("startingOffsets", '{"b":{"2":-2},"a":{"1":-1,"0":23}}')
    assert offsets == {A0: 23, A1: -1, B2: -2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a read needs exactly one of the options assign, subscribe, subscribePattern; got none"),
        ({"subscribe": "a", "subscribePattern": "a"}, "got subscribe and subscribePattern"),
        ({"subscribe": " ,"}, "option subscribe=' ,' names no topic"),
        ({"assign": "a"}, 'option assign: expected JSON like {"topicA": [0, 1], "topicB": [2]}, got \'a\''),
        ({"assign": '{"a":{"0":1}}'}, "option assign: expected JSON"),
        ({"assign": '{"a":[-1]}'}, "option assign: expected JSON"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "option startingOffsets can't be latest"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, "option startingOffsets of a-0 can't be -1"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "option endingOffsets can't be earliest"),
        ({"subscribe": "a", "endingOffsets": '{"a":{"0":-2}}'}, "option endingOffsets of a-0 can't be -2"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "option startingOffsets='soon': allowed: earliest, latest, or"),
        ({"subscribe": "a", "startingOffsets": ""}, "option startingOffsets='': allowed"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, "option startingOffsets: expected JSON like"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"x":3}}'}, "option startingOffsets: expected JSON like"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":true}}'}, "option startingOffsets: expected JSON like"),
        ({"subscribe": "a", "startingOffsets": '{"a":3'}, "option startingOffsets: expected JSON like"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "option startingTimestamp='yesterday': milliseconds"),
        ({"subscribe": "a", "endingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "option endingOffsetsByTimestamp: expected"),
        (
            {"subscribe": "a", "startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"a":{"0":8}}'},
            "option startingOffsets of a-0 is 9, after endingOffsets, 8",
        ),
        (
            {"subscribe": "a", "startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"a":{"1":18}}'},
            "startingOffsets and endingOffsets name different partitions: a-0, a-1",
        ),
        (
            {"subscribe": "a", "startingTimestamp": "9", "endingTimestamp": "8"},
            "option startingTimestamp=9 is after endingTimestamp=8",
        ),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "earliest"}, "allowed: error, latest"),
        ({"subscribe": "a", "failOnDataLoss": "no"}, "option failOnDataLoss='no': allowed: true, false"),
        ({"subscribe": "a", "includeHeaders": "1"}, "option includeHeaders='1': allowed: false, true"),
        ({"subscribe": "a", "clientRackByHost": "x"}, "option clientRackByHost: expected JSON like {"),
        ({"subscribe": "a", "clientRackByHost": '{"h": 1}'}, "option clientRackByHost: expected JSON like {"),
        ({"subscribe": "a", "minPartitions": "0"}, "option minPartitions='0': a whole number above 0"),
        ({"subscribe": "a", "maxRecordsPerPartition": "-5"}, "option maxRecordsPerPartition='-5': a whole number"),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "option minOffsetsPerTrigger=5 is above maxOffsetsPerTrigger=4",
        ),
        (
            {"subscribe": "a", "startingoffset": "earliest"},
            "unknown option 'startingoffset': did you mean startingOffsets",
        ),
        ({"subscribe": "a", "bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"subscribe": "a", "path": "some/x"}, "take no path here, got 'some/x'"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "earliest"}, "set the option startingOffsets"),
        ({"subscribe": "a", "kafka.key.deserializer": "X"}, "kafka.key.deserializer is not supported: keys arrive as"),
        ({"subscribe": "a", "kafka.value.deserializer": "X"}, "kafka.value.deserializer is not supported"),
        ({"subscribe": "a", "kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"subscribe": "a", "kafka.interceptor.classes": "X"}, "transform the DataFrame"),
        ({"subscribe": "a", "kafka.ssl.truststore.location": "x"}, "has no effect with security.protocol=PLAINTEXT"),
        ({"subscribe": "a", "kafka.security.protocol": "SASL_SSL"}, "needs sasl.mechanism, one of PLAIN,"),
        ({"subscribe": "a", "kafka.ssl.engine.factory.class": "X"}, "a Java class does not run here"),
        ({"subscribe": "a", "kafka.sasl.oauthbearer.token.provider": "X"}, "options are text: set kafka.sasl.oauth"),
        (
            {"subscribe": "a", "kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "x required;"},
            "kafka.* options: sasl.jaas.config: kafwire knows no login module 'x'",
        ),
        ({"subscribe": "a", "kafka.isolation.level": "serializable"}, "allowed: read_uncommitted, read_committed"),
        ({"subscribe": "a", "kafka.fetch.max.byte": "1"}, "did you mean 'fetch.max.bytes'?"),
    ],
)
def test_a_wrong_read_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_options({**SERVERS, **{name.lower(): value for name, value in options.items()}})


def test_the_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"option kafka\.bootstrap\.servers is missing"):
        read_options({"subscribe": "a"})
    with pytest.raises(ConfigError, match=r"option kafka\.bootstrap\.servers is missing"):
        write_options({"topic": "a"})


def test_options_of_streams_and_java_are_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafwire.spark"):
        read(maxOffsetsPerTrigger="5", maxTriggerDelay="1m", **{"fetchOffset.numRetries": "3", "kafka.group.id": "g"})
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "option maxOffsetsPerTrigger concerns streams; a batch read ignores it" in said
    assert "option maxTriggerDelay concerns streams" in said
    assert "options without effect when reading: kafka.group.id" in said
    assert "fetchOffset" not in said


def test_write_options() -> None:
    options = write_options({**SERVERS, "topic": " t ", "kafka.linger.ms": "7", "kafka.compression.type": "lz4"})
    assert options == WriteOptions(
        client={"bootstrap_servers": "127.0.0.1:9092", "linger_ms": "7", "compression_type": "lz4"}, topic="t"
    )
    assert write_options(SERVERS).topic is None
    pushing = write_options({**SERVERS, "kafka.enable.metrics.push": "false"})
    assert pushing.client["enable_metrics_push"] == "false", "the sink's producers push metrics"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": " "}, "option topic is empty"),
        ({"kafka.key.serializer": "X"}, "cast the column to string or binary"),
        ({"kafka.value.serializer": "X"}, "cast the column to string or binary"),
        ({"kafka.partitioner.class": "X"}, "write a `partition` column"),
        ({"kafka.transactional.id": "X"}, "the option sink"),
        ({"kafka.acks": "2"}, 'allowed: "all", 1, 0'),
        ({"tpic": "a"}, "unknown option 'tpic': did you mean topic?"),
        ({"zzzzzz": "a"}, "unknown option 'zzzzzz': options of the client begin with kafka."),
    ],
)
def test_a_wrong_write_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        write_options({**SERVERS, **options})


JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required username='alice' password='hunter2';"
TLS = {"kafka.security.protocol": "SASL_SSL", "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----"}


def test_options_of_logins_have_javas_names() -> None:
    login = {**TLS, "kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": JAAS}
    for options in (
        read_options({**SERVERS, **login, "subscribe": "a"}),
        write_options({**SERVERS, **login, "topic": "a"}),
    ):
        assert options.client == {
            "bootstrap_servers": "127.0.0.1:9092",
            "security_protocol": "SASL_SSL",
            "ssl_ca_pem": "-----BEGIN CERTIFICATE-----",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": "alice",
            "sasl_password": "hunter2",
        }
        assert "hunter2" not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options


def test_a_delegation_token_is_given_as_javas_clients_take_it() -> None:
    jaas = JAAS.replace(";", " tokenauth='true';")
    login = {**TLS, "kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": jaas}
    for options in (
        read_options({**SERVERS, **login, "subscribe": "a"}),
        write_options({**SERVERS, **login, "topic": "a"}),
    ):
        assert options.client["sasl_tokenauth"] is True
        assert options.client["sasl_password"] == "hunter2"


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.pem", "sasl.oauthbearer.token.provider", "sasl.pasword"])
def test_an_error_does_not_repeat_a_secret(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options({**SERVERS, "subscribe": "a", "kafka.fetch.max.bytes": "x", f"kafka.{name}": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_reading_options_on_a_write_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafwire.spark"):
        write_options({**SERVERS, "topic": "t", "subscribe": "a", "includeheaders": "true"})
    assert [record.getMessage() for record in caplog.records] == [
        "options that concern reading are ignored by a write: subscribe"
    ]


# --- transactions


WRITE = {"kafka.bootstrap.servers": "b:1", "topic": "t"}


def test_a_transactional_write() -> None:
    given = {**WRITE, "delivery": "exactly-once", "sink": "flights", "checkpointlocation": "/c"}
    options = write_options(given, is_stream=True)
    assert (options.sink, options.state_topic) == ("flights", "kafwire-sink-flights")
    assert options.client["transaction_timeout_ms"] == 900_000
    options = write_options(
        {**WRITE, "delivery": "Atomic", "sink": "s", "statetopic": "x", "kafka.transaction.timeout.ms": "5000"}
    )
    assert (options.state_topic, options.client["transaction_timeout_ms"]) == ("x", "5000")
    assert write_options(WRITE, is_stream=True).sink is None


@pytest.mark.parametrize(
    ("given", "is_stream", "said"),
    [
        ({"delivery": "exactly-once"}, True, "delivery=exactly-once needs the option sink"),
        ({"delivery": "exactly-once", "sink": "s"}, False, "a batch write takes at-least-once or atomic"),
        ({"delivery": "atomic", "sink": "s"}, True, "a stream takes at-least-once or exactly-once"),
        ({"delivery": "twice"}, True, "option delivery='twice': allowed: at-least-once, exactly-once"),
        ({"sink": "s"}, True, "option sink needs delivery=exactly-once"),
        ({"delivery": "atomic", "sink": "a b"}, False, "option sink='a b'"),
        ({"delivery": "atomic", "sink": "s", "stateTopic": " "}, False, "option stateTopic is empty"),
        ({"delivery": "atomic", "sink": "s", "kafka.acks": "1"}, False, "need kafka.acks=all"),
        ({"delivery": "atomic", "sink": "s", "kafka.enable.idempotence": "false"}, False, "need kafka.acks=all"),
        ({"kafka.transaction.two.phase.commit.enable": "true"}, True, "commit.enable needs delivery=exactly-once"),
        ({"kafka.transaction.two.phase.commit.enable": "true"}, False, "commit.enable needs delivery=atomic"),
        (
            {"delivery": "exactly-once", "sink": "s", "asyncProgressTrackingEnabled": "true"},
            True,
            "with asyncProgressTrackingEnabled Spark may replay",
        ),
        ({"kafka.transactional.id": "x"}, True, "makes its own from the option sink"),
    ],
)
def test_a_transactional_write_that_is_refused(given: dict[str, str], is_stream: bool, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        write_options(WRITE | given, is_stream=is_stream)
