"""The options that decode values. No pyspark needed."""

from __future__ import annotations

import logging
import re

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.options import read_options
from kafwire.spark.value_options import ValueFormat

AVRO = {"valueFormat": "avro", "schemaRegistry.url": "http://r:1"}


def value(**options: str) -> ValueFormat | None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"} | options
    return read_options({name.lower(): text for name, text in given.items()}).value


def test_values_stay_bytes_by_default() -> None:
    assert value() is None
    assert value(valueFormat="Binary") is None


def test_avro_is_read_by_the_latest_schema_of_the_topic() -> None:
    found = value(**AVRO)
    assert found == ValueFormat("avro", None, "a-value", "error", {"url": "http://r:1"})
    named = value(**AVRO, valueSubject=" other ", badRecords="DEADLETTER", subscribe="a,b")
    assert named is not None
    assert (named.subject, named.bad, named.keeps_bad) == ("other", "deadLetter", True)


def test_the_reader_s_schema_may_be_given() -> None:
    found = value(**AVRO, valueSchema=' "string" ', subscribe="a,b", badRecords="null")
    assert found == ValueFormat("avro", '"string"', None, "null", {"url": "http://r:1"})


def test_a_registry_with_a_login() -> None:
    login = {"schemaRegistry.username": "reader", "schemaRegistry.password": "swordfish"}
    found = value(**AVRO, **login, **{"schemaRegistry.ca.pem": "PEM", "schemaRegistry.timeout.ms": "1500"})
    assert found is not None
    assert found.registry == {
        "url": "http://r:1",
        "username": "reader",
        "password": "swordfish",
        "ca_pem": "PEM",
        "timeout_s": 1.5,
    }
    assert "swordfish" not in repr(found)


def test_json_has_columns() -> None:
    assert value(valueFormat="json", valueSchema="n INT") == ValueFormat("json", "n INT", None, "error", {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"valueFormat": "protobuf"}, "option valueFormat='protobuf': allowed: binary, avro, json"),
        ({"badRecords": "null"}, "option badRecords needs valueFormat=avro, valueFormat=json or valueFormat=text"),
        (
            {"schemaRegistry.url": "http://localhost"},
            "option schemaRegistry.url needs valueFormat=avro; valueFormat=binary has no registry",
        ),
        ({**AVRO, "badRecords": "skip"}, "option badRecords='skip': allowed: error, null, deadLetter"),
        ({**AVRO, "valueFormat": "json"}, "option schemaRegistry.url needs valueFormat=avro"),
        ({"valueFormat": "avro"}, "needs the option schemaRegistry.url"),
        ({**AVRO, "subscribe": "a,b"}, "needs the option valueSubject or valueSchema"),
        ({**AVRO, "valueSchema": "[1]"}, "option valueSchema: Avro schema: 1 is not a type"),
        ({**AVRO, "valueSchema": '"int"', "valueSubject": "s"}, "options valueSchema and valueSubject both name"),
        ({**AVRO, "valueSubject": " "}, "option valueSubject is empty"),
        ({**AVRO, "schemaRegistry.username": "me"}, "schemaRegistry.username and schemaRegistry.password need each"),
        ({**AVRO, "schemaRegistry.timeout.ms": "0"}, "option schemaRegistry.timeout.ms='0': milliseconds are needed"),
        ({"schemaRegistry.uri": "x"}, "unknown option 'schemaregistry.uri': did you mean schemaRegistry.url?"),
        ({"columns": " , "}, "option columns is empty"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        value(**options)


def test_a_write_ignores_them(caplog: pytest.LogCaptureFixture) -> None:
    from kafwire.spark.options import write_options

    with caplog.at_level(logging.WARNING):
        write_options({"kafka.bootstrap.servers": "h:1", "topic": "a", "valueformat": "avro"})
    assert "options that concern reading are ignored by a write: valueFormat" in caplog.text


def key(**options: str) -> ValueFormat | None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"} | options
    return read_options({name.lower(): text for name, text in given.items()}).key


def test_keys_have_options_of_their_own() -> None:
    assert key() is None
    assert key(keyFormat="text") == ValueFormat("text", None, None, "error", {}, "key")
    found = key(keyFormat="avro", **{"schemaRegistry.url": "http://r:1"}, badRecords="null")
    assert found == ValueFormat("avro", None, "a-key", "null", {"url": "http://r:1"}, "key")
    assert value(keyFormat="text", badRecords="null") is None
    assert value(valueFormat="text") == ValueFormat("text", None, None, "error", {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keySchema": "n INT"}, "option keySchema needs keyFormat=avro or keyFormat=json"),
        ({"keyFormat": "text", "keySchema": "n INT"}, "keyFormat=text has no schema"),
        ({"valueFormat": "text", "schemaRegistry.url": "http://r:1"}, "valueFormat=text has no registry"),
        ({"keyFormat": "avro"}, "keyFormat=avro needs the option schemaRegistry.url"),
        ({"keyFormat": "xml"}, "option keyFormat='xml': allowed: binary, avro, json, text"),
    ],
)
def test_options_of_keys_that_cannot_be(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        key(**options)
