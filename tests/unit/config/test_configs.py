"""`config`: every option has a check, and an error that names it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafwire.compression import compress, decompress
from kafwire.config import (
    CODECS,
    PARTITIONERS,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    ScanConfig,
    from_config,
    from_dotted,
)
from kafwire.errors import ConfigError
from tests.support.sasl_traps import CANARY, reported

SERVERS = {"bootstrap_servers": "localhost:9092"}
CONFIGS: list[type[ClientConfig]] = [ClientConfig, ProducerConfig, ScanConfig]


@pytest.mark.parametrize("kind", CONFIGS)
def test_defaults_pass_their_own_checks(kind: type[ClientConfig]) -> None:
    config = kind.build(SERVERS)
    for item in dataclasses.fields(kind):
        if item.name != "bootstrap_servers":
            assert item.metadata["check"](item.default) == getattr(config, item.name)


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_option_refuses_nonsense(kind: type[ClientConfig]) -> None:
    for item in dataclasses.fields(kind):
        for nonsense in (object(), b"\xff", [], {}, float("nan"), ("a", 1)):
            with pytest.raises(ConfigError, match=item.name):
                kind.build({**SERVERS, item.name: nonsense})


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        ("a:1", (("a", 1),)),
        ("a:1, b:2 ,c:3", (("a", 1), ("b", 2), ("c", 3))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
        ("localhost", (("localhost", 9092),)),
        ("a, b:2,", (("a", 9092), ("b", 2))),
        (["a", "b:2,c"], (("a", 9092), ("b", 2), ("c", 9092))),
        ("[::1]", (("::1", 9092),)),
        ("PLAINTEXT://a:1,plaintext://b,PLAINTEXT://[::1]:2", (("a", 1), ("b", 9092), ("::1", 2))),
        ("[fe80::1%eth0]:9092,a:1", (("fe80::1%eth0", 9092), ("a", 1))),
    ],
)
def test_bootstrap_servers(given: Any, servers: object) -> None:
    assert ClientConfig.build({"bootstrap_servers": given}).bootstrap_servers == servers


@pytest.mark.parametrize(
    "given",
    [
        *("", ",", "a:", ":1", "a:b", "a:0", "a:65536", "a:\u0661", "a b:1", "a/b:1", "[::1]9092", "[]:1", "a:1/path"),
        *([], [1], [b"a"], [("a", 1)], 9092, None, b"a:1"),
    ],
)
def test_wrong_bootstrap_servers(given: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        ClientConfig.build({"bootstrap_servers": given})


@pytest.mark.parametrize("given", ["::1:9092", "fe80::1", "[::1:9092", "::1]:9092"])
def test_an_ipv6_address_without_brackets_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"an IPv6 address goes in brackets, \[::1\]:9092"):
        ClientConfig.build({"bootstrap_servers": given})


@pytest.mark.parametrize("host", ["foo..bar", ".foo", "x" * 64 + ".example"])
def test_a_host_name_that_cannot_be_one(host: str) -> None:
    with pytest.raises(ConfigError, match=f"'{host}' is not a host name: .* 1 to 63 characters"):
        ClientConfig.build({"bootstrap_servers": f"{host}:9092"})


@pytest.mark.parametrize("scheme", ["SSL", "SASL_SSL", "sasl_plaintext", "PLAINTEXT"])
def test_a_protocol_before_an_address_agrees_with_security_protocol(scheme: str) -> None:
    other = "SSL" if scheme == "PLAINTEXT" else "PLAINTEXT"
    with pytest.raises(ConfigError, match=f"{scheme.upper()}:// before an address.*set security_protocol="):
        ClientConfig.build({"bootstrap_servers": f"{scheme}://b:9093", "security_protocol": other})
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"} if "SASL" in scheme.upper() else {}
    options = {"bootstrap_servers": f"{scheme}://b:9093", "security_protocol": scheme.upper(), **login}
    assert ClientConfig.build(options).bootstrap_servers == (("b", 9093),)


@pytest.mark.parametrize("text", ["a:1 b:2", "a:1;b:2", "['a:1', 'b:2']"])
def test_addresses_without_a_comma_between_them_are_no_ipv6_address(text: str) -> None:
    with pytest.raises(ConfigError, match="comma") as caught:
        ClientConfig.build({"bootstrap_servers": text})
    assert "IPv6" not in str(caught.value)


def test_another_scheme_is_to_be_left_out() -> None:
    with pytest.raises(ConfigError, match="leave 'http://' out"):
        ClientConfig.build({"bootstrap_servers": "http://a:9092"})


@pytest.mark.parametrize("kind", [ClientConfig, ProducerConfig, ConsumerConfig])
def test_a_dict_of_options_is_shown_the_way_and_not_printed(kind: type[ClientConfig]) -> None:
    with pytest.raises(ConfigError, match=r"from_config\(\{\"bootstrap.servers\": ...\}\)") as caught:
        kind.build({"bootstrap_servers": {"bootstrap.servers": "a:1", "sasl.password": "secret"}})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        f"alice:{CANARY}@h:9092",
        f"SASL_SSL://alice:{CANARY}@h:9092",
        f"alice:{CANARY},{CANARY[-4:]}@h:9092",
        f"alice:{CANARY}@g:9092,alice:{CANARY}@h:9092",
        ["g", f"alice:{CANARY}@h:9092"],
        f"alice:{CANARY}@h:9092".encode(),
        [f"alice:{CANARY}@h:9092".encode()],
    ],
)
def test_a_password_in_bootstrap_servers_is_not_shown(given: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.build({"bootstrap_servers": given})
    assert CANARY not in reported(caught.value)
    assert CANARY[-4:] not in str(caught.value)
    if not isinstance(given, bytes) and not isinstance(given[-1], bytes):
        assert "@h:9092" in str(caught.value)
        assert "are options of their own, sasl_username and sasl_password" in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={CANARY}=",
        [f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={CANARY}="],
        f"kafka://h:9092?sasl_password={CANARY}",
        f"bootstrap.servers=h:9092,sasl.password={CANARY}",
        f"sasl.password={CANARY}".encode(),
    ],
)
def test_a_key_in_bootstrap_servers_is_not_shown(given: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.build({"bootstrap_servers": given})
    assert CANARY not in reported(caught.value)
    if isinstance(given, str):
        assert "an address has no '='" in str(caught.value)
    assert ("sasl_username='$ConnectionString'" in str(caught.value)) == ("Endpoint=" in str(given))


def test_no_bootstrap_servers() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ClientConfig.build({})


def test_a_wrong_name_is_named_with_the_nearest_right_one() -> None:
    with pytest.raises(ConfigError, match="unknown option 'linger'; did you mean 'linger_ms'"):
        ProducerConfig.build({**SERVERS, "linger": 5})
    with pytest.raises(ConfigError, match="unknown option 'xyzzy'; known: .*client_id"):
        ClientConfig.build({**SERVERS, "xyzzy": 5})


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("linger_ms", "7", 7),
        ("linger_ms", 7.0, 7),
        ("acks", "all", -1),
        ("acks", "-1", -1),
        ("acks", "1", 1),
        ("acks", 0, 0),
        ("enable_idempotence", "true", True),
        ("enable_idempotence", False, False),
        ("enable_idempotence", None, None),
        ("compression_level", None, None),
        ("buffer_memory", 1 << 40, 1 << 40),
        *(("compression_type", codec, codec) for codec in CODECS),
        *(("partitioner", name, name) for name in PARTITIONERS),
        ("partitioner", max, max),
        ("partitioner_availability_timeout_ms", "0", 0),
    ],
)
def test_good_values(name: str, value: object, stored: object) -> None:
    assert getattr(ProducerConfig.build({**SERVERS, name: value}), name) == stored


@pytest.mark.parametrize(
    ("name", "value", "because"),
    [
        ("linger_ms", -1, "allowed: 0 to 2147483647"),
        ("linger_ms", -0.5, "allowed: 0 to"),
        ("linger_ms", float("inf"), "whole number"),
        ("batch_size", 1.5, "whole number"),
        ("linger_ms", True, "whole number"),
        ("linger_ms", "five", "whole number"),
        ("linger_ms", 2**31, "allowed"),
        ("batch_size", 0, "allowed: 1 to"),
        ("acks", 2, "allowed"),
        ("acks", True, "allowed"),
        ("compression_type", "brotli", "none, gzip, snappy, lz4, zstd"),
        ("security_protocol", "TLS", "allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("client_id", 3, "text is needed"),
        ("enable_idempotence", "yes", "allowed: True, False"),
        ("partitioner", "murmur3", "allowed: murmur2_random, murmur2, .*round_robin, or a function"),
        ("partitioner", int, r"or a function \(topic, key, partitions, available\) -> partition"),
        ("partitioner_availability_timeout_ms", -1, "allowed: 0 to"),
    ],
)
def test_bad_values_are_named_with_the_allowed_ones(name: str, value: object, because: str) -> None:
    with pytest.raises(ConfigError, match=because) as caught:
        ProducerConfig.build({**SERVERS, name: value})
    assert f"{name}={value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "idempotent"),
    [
        ({}, True),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"max_in_flight_requests_per_connection": 6}, False),
        ({"enable_idempotence": False}, False),
        ({"enable_idempotence": True, "acks": "all"}, True),
    ],
)
def test_idempotence_is_on_unless_something_forbids_it(options: dict[str, object], *, idempotent: bool) -> None:
    assert ProducerConfig.build({**SERVERS, **options}).idempotent is idempotent


@pytest.mark.parametrize(
    ("options", "because"),
    [
        ({"enable_idempotence": True, "acks": 1}, 'needs acks="all"'),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "<= 5"),
        ({"partitioner": "consistent", "partitioner_ignore_keys": True}, 'take "consistent_random", or leave it out'),
        ({"partitioner": "murmur2", "partitioner_ignore_keys": True}, "sends everything to one partition"),
        ({"partitioner": "fnv1a", "partitioner_ignore_keys": True}, "sends everything to one partition"),
        ({"partitioner": max, "partitioner_ignore_keys": True}, "no effect on a function"),
        (
            {"delivery_timeout_ms": 1000, "linger_ms": 5, "request_timeout_ms": 30_000},
            r"below linger_ms \+ request_timeout_ms \(30005\)",
        ),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, object], because: str) -> None:
    with pytest.raises(ConfigError, match=because):
        ProducerConfig.build({**SERVERS, **options})


LEVELS = {"gzip": [-1, 1, 9], "lz4": [0, 1, 17], "zstd": [-131_072, -1, 0, 22]}


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels])
def test_a_level_that_its_codec_has_compresses(codec: str, level: int) -> None:
    config = ProducerConfig.build({**SERVERS, "compression_type": codec, "compression_level": str(level)})
    assert config.compression_level == level
    data = b"a level " * 100
    packed = compress(codec, data, level)
    assert decompress(codec, packed) == data


@pytest.mark.parametrize(
    ("codec", "level", "because"),
    [
        ("none", 1, "'none' has no levels: leave it out, or choose gzip, lz4, zstd"),
        ("snappy", 1, "'snappy' has no levels: leave it out"),
        ("gzip", 0, "allowed with compression_type='gzip': 1 to 9, or -1 for the default"),
        ("gzip", 10, "1 to 9"),
        ("gzip", -2, "1 to 9"),
        ("lz4", -1, "allowed with compression_type='lz4': 0 to 17"),
        ("lz4", 18, "0 to 17"),
        ("zstd", 23, "allowed with compression_type='zstd': -131072 to 22"),
        ("zstd", -131_073, "-131072 to 22"),
    ],
)
def test_a_level_that_its_codec_does_not_have_is_an_error(codec: str, level: int, because: str) -> None:
    with pytest.raises(ConfigError, match=f"option compression_level={level}.*{because}"):
        ProducerConfig.build({**SERVERS, "compression_type": codec, "compression_level": level})


def test_dotted_names() -> None:
    dotted = {"bootstrap.servers": "a:1", "linger.ms": 3}
    assert ProducerConfig.build(from_dotted(dotted)).linger_ms == 3


def test_a_configuration_does_not_change() -> None:
    config = ClientConfig.build(SERVERS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.client_id = "other"  # type: ignore[misc]


def test_one_connection_is_not_one_per_partition() -> None:
    options = {"bootstrap_servers": "h:1", "single_socket": True}
    assert ConsumerConfig.build({**options, "fetch_strategy": "per_node"}).single_socket
    with pytest.raises(ConfigError, match="leave one of the two out"):
        ConsumerConfig.build({**options, "fetch_strategy": "per_partition"})


def test_new_partitions_begin_as_one_of_the_reset_policies_or_auto() -> None:
    name = "auto_offset_reset_new_partitions"

    def built(value: str) -> str:
        return ConsumerConfig.build({"bootstrap_servers": "h:1", name: value}).auto_offset_reset_new_partitions

    assert ConsumerConfig.build({"bootstrap_servers": "h:1"}).auto_offset_reset_new_partitions == "auto"
    assert [built(value) for value in ("auto", "earliest", "none", "by_duration:PT1H")] == [
        *("auto", "earliest", "error", "by_duration:PT1H"),
    ]
    with pytest.raises(ConfigError, match=f"option {name}='beginning': allowed: auto, earliest, latest, error, by_dur"):
        built("beginning")
    with pytest.raises(ConfigError, match="option auto_offset_reset='auto': allowed: earliest, latest, error"):
        ConsumerConfig.build({"bootstrap_servers": "h:1", "auto_offset_reset": "auto"})


@pytest.mark.parametrize(
    "option", ["check_crcs", "isolation_level", "fetch_max_bytes", "auto_offset_reset", "group_id"]
)
def test_values_of_no_sense_are_errors_by_name(option: str) -> None:
    with pytest.raises(ConfigError, match=rf"option {option}=\[\]: .*(allowed|needed)"):
        ConsumerConfig.build({"bootstrap_servers": "h:1", option: []})


@pytest.mark.parametrize(
    ("kind", "name", "value", "kept"),
    [
        (ProducerConfig, "compression_type", None, "none"),
        (ProducerConfig, "partitioner", None, "murmur2_random"),
        (ProducerConfig, "client_id", None, "kafwire"),
        (ConsumerConfig, "client_rack", None, ""),
        (ProducerConfig, "linger_ms", 0.5, 1),
        (ProducerConfig, "linger_ms", "0.5", 1),
        (ProducerConfig, "linger_ms", 5.0, 5),
        (ProducerConfig, "linger_ms", "0", 0),
        (ProducerConfig, "enable_idempotence", "False", False),
        (ConsumerConfig, "enable_auto_commit", "TRUE", True),
        (ConsumerConfig, "consumer_timeout_ms", 3000, 3000),
        (ConsumerConfig, "consumer_timeout_ms", "0", 0),
        (ConsumerConfig, "consumer_timeout_ms", float("inf"), None),
        (ConsumerConfig, "consumer_timeout_ms", -1, None),
    ],
)
def test_values_of_other_clients_are_understood(kind: type[ClientConfig], name: str, value: Any, kept: Any) -> None:
    assert getattr(kind.build({"bootstrap_servers": "h:1", name: value}), name) == kept
    assert getattr(kind.build(from_config(kind, {"bootstrap.servers": "h:1", name: value})), name) == kept


@pytest.mark.parametrize("value", [-2, "soon", float("nan"), True, [3]])
def test_a_consumer_timeout_is_milliseconds(value: Any) -> None:
    with pytest.raises(ConfigError, match="option consumer_timeout_ms="):
        ConsumerConfig.build({"bootstrap_servers": "h:1", "consumer_timeout_ms": value})
