"""`from_config`: every option of Java's clients and of librdkafka is mapped, taken without effect, or refused."""

from __future__ import annotations

import json
import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig, from_config
from kafwire.config import names as config_names
from kafwire.errors import ConfigError

LISTS = json.loads((Path(__file__).parents[2] / "data" / "config_names.json").read_text())
NAMES = sorted({name for source in LISTS.values() for name in source["names"]})
SERVERS = {"bootstrap.servers": "h:1"}
KINDS: dict[str, type[ClientConfig]] = {"A": ClientConfig, "P": ProducerConfig, "C": ConsumerConfig}
# Names that neither list has any more, or that libraries around librdkafka add.
OLD = {
    *("auto_include_jmx_reporter", "oauth_cb", "default_topic_config", "logger", "on_commit", "on_delivery"),
}


def translated(kind: type[ClientConfig], **options: Any) -> dict[str, Any]:
    found = from_config(kind, {**SERVERS, **options})
    del found["bootstrap_servers"]
    return found


def own(kind: type[ClientConfig]) -> set[str]:
    return {item.name for item in fields(kind)}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_an_option_or_without_effect_or_refused(
    name: str, kind: type[ClientConfig], caplog: pytest.LogCaptureFixture
) -> None:
    """A value that no option takes: an option's own check refuses it, or the table, or nothing does."""
    plain = name.replace(".", "_")
    target = config_names.ALIASES[plain][0] if plain in config_names.ALIASES else plain
    try:
        found = from_config(kind, {**SERVERS, name: {"no": "value"}} if target != "bootstrap_servers" else {name: 5})
    except ConfigError as error:
        text = str(error)
        assert "unknown" not in text
        of_option = ("is not supported: ", "has no effect ")
        assert text.startswith(
            (*(f"option {name} {what}" for what in of_option), f"option {name}=", f"option {name}: ")
        )
        assert "{'no'" not in text or target in own(kind), "a refused value is not repeated"
    else:
        assert found == {"bootstrap_servers": "h:1"} or target in own(kind)
        assert target in own(kind) or caplog.messages == [f"options without effect: {name}"]


def test_the_table_has_no_name_that_no_client_has() -> None:
    listed = {name.replace(".", "_") for name in NAMES}
    table = {
        *config_names.ALIASES,
        *config_names.LEVELS,
        *config_names.WITHOUT_EFFECT,
        *config_names.ONLY,
        *config_names.REFUSED,
        *config_names.SERIALIZERS,
    }
    assert table - listed == OLD
    options = own(ProducerConfig) | own(ConsumerConfig)
    assert {target for target, _ in config_names.ALIASES.values()} <= options


@pytest.mark.parametrize(
    ("kind", "name", "value", "option", "taken"),
    [
        (ProducerConfig, "message.timeout.ms", 50_000, "delivery_timeout_ms", 50_000),
        (ProducerConfig, "message.timeout.ms", "0", "delivery_timeout_ms", 2**31 - 1),
        (ProducerConfig, "delivery.timeout.ms", "50000", "delivery_timeout_ms", "50000"),
        (ProducerConfig, "queue.buffering.max.ms", 3, "linger_ms", 3),
        (ProducerConfig, "queue.buffering.max.kbytes", "1024", "buffer_memory", 1 << 20),
        (ProducerConfig, "max.in.flight", 3, "max_in_flight_requests_per_connection", 3),
        (ProducerConfig, "message.max.bytes", 3000, "max_request_size", 3000),
        (ProducerConfig, "request.required.acks", "-1", "acks", "-1"),
        (ProducerConfig, "compression.codec", "lz4", "compression_type", "lz4"),
        (ProducerConfig, "compression.codec", "inherit", "compression_type", "none"),
        (ProducerConfig, "compression_codec", "lz4", "compression_type", "lz4"),
        (ProducerConfig, "compression.level", -1, "compression_level", None),
        (ProducerConfig, "partitioner", "fnv1a", "partitioner", "fnv1a"),
        (
            ProducerConfig,
            "partitioner.class",
            "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "partitioner",
            "round_robin",
        ),
        (ConsumerConfig, "metadata.broker.list", "a:1", "bootstrap_servers", "a:1"),
        (ConsumerConfig, "socket.timeout.ms", 5, "request_timeout_ms", 5),
        (ConsumerConfig, "topic.metadata.refresh.interval.ms", -1, "metadata_max_age_ms", 2**31 - 1),
        (ConsumerConfig, "receive.message.max.bytes", 5000, "max_frame_bytes", 5000),
        (ConsumerConfig, "security.protocol", "plaintext", "security_protocol", "plaintext"),
        (ConsumerConfig, "auto.offset.reset", "smallest", "auto_offset_reset", "earliest"),
        (ConsumerConfig, "auto.offset.reset", "end", "auto_offset_reset", "latest"),
        (
            ConsumerConfig,
            "auto.offset.reset.new.partitions",
            "beginning",
            "auto_offset_reset_new_partitions",
            "earliest",
        ),
        (ConsumerConfig, "auto.commit.enable", "false", "enable_auto_commit", "false"),
        (ConsumerConfig, "fetch.wait.max.ms", 7, "fetch_max_wait_ms", 7),
        (ConsumerConfig, "fetch.message.max.bytes", 7, "max_partition_fetch_bytes", 7),
        (ConsumerConfig, "queued.max.messages.kbytes", 7, "fetch_memory", 7168),
        (ConsumerConfig, "fetch_strategy", "per_node", "fetch_strategy", "per_node"),
        (ClientConfig, "client.rack", "r1", "client_rack", "r1"),
    ],
)
def test_names_and_values_that_are_mapped(
    kind: type[ClientConfig], name: str, value: Any, option: str, taken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    given = {name: value} if option == "bootstrap_servers" else {**SERVERS, name: value}
    assert from_config(kind, given)[option] == taken
    assert not caplog.messages


def test_java_s_level_of_the_codec_that_is_chosen(caplog: pytest.LogCaptureFixture) -> None:
    levels = {"compression.gzip.level": 3, "compression.lz4.level": 9, "compression.zstd.level": 5}
    assert translated(ProducerConfig, **levels, **{"compression.type": "lz4"})["compression_level"] == 9
    assert caplog.messages == ["options without effect: compression.gzip.level, compression.zstd.level"]
    assert "compression_level" not in translated(ProducerConfig, **levels)


def test_one_warning_names_all_that_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    options = {"log_level": 7, "debug": "all", "linger.ms": 5, "socket.nagle.disable": "true", "retries": 5}
    with caplog.at_level(logging.WARNING, "kafwire"):
        assert translated(ConsumerConfig, **options) == {}
    assert caplog.messages == ["options without effect: debug, linger.ms, log_level, retries, socket.nagle.disable"]
    caplog.clear()
    assert translated(ProducerConfig, retries=2**31 - 1, interceptors=None, **{"ssl.truststore.type": None}) == {}
    assert translated(ConsumerConfig, **{"interceptor.classes": "", "enable.partition.eof": False}) == {}
    assert not caplog.messages, "an option with the default's effect needs no warning"


@pytest.mark.parametrize(
    ("kind", "options", "because"),
    [
        (ProducerConfig, {"retries": 0}, "option retries=0 is not supported: .* delivery_timeout_ms is over"),
        (ProducerConfig, {"message.send.max.retries": "0"}, r"delivery\.timeout\.ms is over"),
        (ProducerConfig, {"ssl.ca.location": "x"}, "option ssl.ca.location has no effect with security.protocol=PLAIN"),
        (ProducerConfig, {"sasl.password": "hush"}, "option sasl.password has no effect with security.protocol=PLAIN"),
        (ProducerConfig, {"ssl.engine.id": "x"}, "option ssl.engine.id is not supported: OpenSSL's own configuration"),
        (ProducerConfig, {"dr_msg_cb": print}, "would never be called: use what `send` returns"),
        (ProducerConfig, {"partitioner.class": "a.b.C"}, "a Java class does not run here: name one of kafwire's"),
        (ProducerConfig, {"interceptor.classes": "a.b.C"}, "a Java class does not run here"),
        (ProducerConfig, {"queuing.strategy": "lifo"}, "in the order in which they were sent"),
        (
            ConsumerConfig,
            {"enable.auto.offset.store": False},
            r"set enable\.auto\.commit=False, and write consumer.commit",
        ),
        (
            ConsumerConfig,
            {"enable_auto_offset_store": "false"},
            "set enable_auto_commit=False, and write consumer.commit",
        ),
        (ConsumerConfig, {"rebalance_cb": print}, "on_assigned"),
        (ClientConfig, {"bootstrap.controllers": "h:1"}, r"give bootstrap\.servers"),
        (
            ProducerConfig,
            {"message.timeout.ms": 5, "delivery.timeout.ms": 6},
            "options message.timeout.ms and delivery.timeout.ms are the same",
        ),
    ],
)
def test_refusals_with_the_reason(kind: type[ClientConfig], options: dict[str, Any], because: str) -> None:
    with pytest.raises(ConfigError, match=because) as caught:
        translated(kind, **options)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"linger.ms": -1}, "option linger.ms=-1: allowed"),
        ({"linger_ms": -1}, "option linger_ms=-1: allowed"),
        ({"queue.buffering.max.ms": -1}, "option queue.buffering.max.ms=-1: allowed"),
        ({"lingr.ms": 5}, "unknown option 'lingr.ms'; did you mean 'linger.ms'?"),
        ({"lingr_ms": 5}, "unknown option 'lingr_ms'; did you mean 'linger_ms'?"),
        ({"mesage.timeout.ms": 5}, "unknown option 'mesage.timeout.ms'; did you mean 'delivery.timeout.ms'?"),
        ({"xyzzy": 5}, "unknown option 'xyzzy'; known: "),
        (
            {"delivery.timeout.ms": 1000, "request.timeout.ms": 30_000, "linger.ms": 5},
            r"delivery.timeout.ms=1000 is below linger.ms \+ request.timeout.ms \(30005\)",
        ),
        ({"enable.idempotence": True, "acks": 1}, 'enable.idempotence=True needs acks="all"'),
    ],
)
def test_an_error_spells_as_the_user_does(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        translated(ProducerConfig, **options)


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (ProducerConfig, "message_timeout_ms", "unknown option 'message_timeout_ms': it is 'delivery_timeout_ms' here"),
        (ProducerConfig, "compression_zstd_level", ": it is 'compression_level' here"),
        (ProducerConfig, "partitioner_class", ": it is 'partitioner' here"),
        (ProducerConfig, "dr_cb", ": it would never be called: use what `send` returns"),
        (ProducerConfig, "max_poll_records", ", which would have no effect here: leave it out"),
        (ConsumerConfig, "ssl_truststore_location", ": it is 'ssl_ca_location' here"),
        (ConsumerConfig, "ssl_providers", ": OpenSSL's own configuration file sets it"),
        (ConsumerConfig, "stert", "; did you mean 'start'"),
    ],
)
def test_a_keyword_that_is_another_client_s_option_is_explained(kind: type[ClientConfig], name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        kind.build({"bootstrap_servers": "h:1", name: 5}, others=["start"])


SERIALIZATION = "org.apache.kafka.common.serialization."


def test_java_s_classes_for_bytes_are_the_default(caplog: pytest.LogCaptureFixture) -> None:
    options = {"key.serializer": f"{SERIALIZATION}ByteArraySerializer", "value.serializer": None}
    assert translated(ProducerConfig, **options) == {}
    assert translated(ConsumerConfig, **{"value.deserializer": f"{SERIALIZATION}BytesDeserializer"}) == {}
    assert not caplog.messages


def test_other_classes_of_java_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"option key.serializer is not supported: a Java class does not run here"):
        translated(ProducerConfig, **{"key.serializer": "com.example.Mine"})


@pytest.mark.parametrize("kind", [kafwire.Producer, kafwire.Consumer, kafwire.Client])
def test_the_clients_take_them(kind: Any) -> None:
    with pytest.raises(ConfigError, match="option ssl.key.location has no effect with security.protocol=PLAINTEXT"):
        kind.from_config({**SERVERS, "ssl.key.location": "x"})


@pytest.mark.parametrize(
    ("options", "request_timeout_ms"),
    [
        ({"message.timeout.ms": 5000}, 4995),
        ({"message.timeout.ms": 5000, "socket.timeout.ms": 60_000}, 4995),
        ({"message.timeout.ms": "5000", "request.timeout.ms": "30000"}, 4995),
        ({"message.timeout.ms": 5000, "socket.timeout.ms": 60_000, "linger.ms": 0.5}, 4999),
        ({"message.timeout.ms": 5000, "socket.timeout.ms": 1000}, 1000),
        ({"message_timeout_ms": 5000, "request_timeout_ms": 30_000}, 4995),
        ({"message.timeout.ms": 0, "socket.timeout.ms": 60_000}, 60_000),
    ],
)
def test_the_time_of_a_request_yields_to_the_message_timeout(options: Any, request_timeout_ms: int) -> None:
    assert ProducerConfig.build(from_config(ProducerConfig, {**SERVERS, **options})).request_timeout_ms == (
        request_timeout_ms
    )


@pytest.mark.parametrize(
    "options",
    [
        {"delivery.timeout.ms": 5000, "request.timeout.ms": 30_000},
        {"message.timeout.ms": 5000, "linger.ms": 5000, "socket.timeout.ms": 60_000},
        {"message.timeout.ms": 5000, "socket.timeout.ms": "soon"},
        {"message.timeout.ms": "soon", "socket.timeout.ms": 60_000},
    ],
)
def test_times_that_cannot_both_hold_are_errors(options: Any) -> None:
    with pytest.raises(ConfigError, match="timeout.ms"):
        from_config(ProducerConfig, {**SERVERS, **options})


def test_a_program_that_stores_offsets_gets_the_line_to_write() -> None:
    options: Any = {"enable_auto_offset_store": False}
    line = r"write consumer\.commit\(batch\) for store_offsets\(message\)"
    with pytest.raises(ConfigError, match=line):
        kafwire.Consumer("127.0.0.1:1", topics="t", **options)
    with pytest.raises(ConfigError, match=line):
        kafwire.Consumer.from_config({**SERVERS, **options})
