"""Confluent's own client against the small registry: its responses are those that it expects."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.registry import SchemaRegistry
from tests.support.schema_registry import RegistryServer

FLIGHT = '{"type":"record","name":"Flight","fields":[{"name":"carrier","type":"string"}]}'
WIDER = '{"type":"record","name":"Flight","fields":[{"name":"carrier","type":"string"},{"name":"n","type":"int"}]}'


def test_confluents_client_agrees() -> None:
    theirs: Any = pytest.importorskip("confluent_kafka.schema_registry")
    with RegistryServer() as server:
        client, ours = theirs.SchemaRegistryClient({"url": server.url}), SchemaRegistry(server.url)
        number = client.register_schema("flights-value", theirs.Schema(FLIGHT, "AVRO"))
        assert number == ours.register("flights-value", FLIGHT) == ours.lookup("flights-value", FLIGHT)
        proto = theirs.Schema('syntax = "proto3";', "PROTOBUF", [])
        other = ours.register("other", 'syntax = "proto3";', "PROTOBUF")
        assert client.lookup_schema("other", proto).schema_id == other
        assert client.get_subjects() == ours.subjects() == ["flights-value", "other"]
        assert client.get_versions("other") == ours.versions("other") == [1]
        latest = client.get_latest_version("flights-value")
        assert (latest.schema_id, latest.version, str(latest.guid)) == (number, 1, str(ours.registered(number).guid))
        assert client.get_schema_by_guid(str(latest.guid)).schema_str == FLIGHT
        assert client.test_compatibility("flights-value", theirs.Schema(WIDER, "AVRO")) is False
        assert not ours.compatibility("flights-value", WIDER)
        client.set_compatibility("flights-value", "NONE")
        assert ours.compatibility_level("flights-value") == "NONE"
        ours.set_compatibility_level("FULL", "flights-value")
        assert client.get_compatibility("flights-value") == "FULL"
        assert client.delete_version("other", 1) == 1
        assert ours.subjects() == ["flights-value"]
        assert client.delete_subject("flights-value") == client.delete_subject("flights-value", permanent=True) == [1]
        assert ours.subjects(deleted=True) == ["other"]
