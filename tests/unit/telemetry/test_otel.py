"""`telemetry.otel`: observable instruments of OpenTelemetry's API."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, NoOpMeter, NoOpMeterProvider

from kafwire.errors import ConfigError
from kafwire.telemetry import METRICS, observe


class Collecting(NoOpMeter):
    """A meter that keeps its instruments, and calls their callbacks as an SDK does."""

    def __init__(self, name: str, version: str | None) -> None:
        super().__init__(name, version)
        self.made: dict[str, tuple[str, Sequence[Any], str]] = {}

    def create_observable_counter(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        return self._keep("counter", name, callbacks, unit)

    def create_observable_gauge(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        return self._keep("gauge", name, callbacks, unit)

    def _keep(self, kind: str, name: str, callbacks: Sequence[Any], unit: str) -> None:
        assert name not in self.made
        self.made[name] = kind, callbacks, unit

    def collect(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        found = {}
        for name, (_, callbacks, _) in self.made.items():
            values = [value for each in callbacks for value in each(CallbackOptions())]
            if values:
                found[name] = {tuple(sorted(value.attributes.items())): value.value for value in values}
        return found


class Provider(NoOpMeterProvider):
    """A provider of one such meter."""

    meter: Collecting

    def get_meter(self, name: str, version: str | None = None, schema_url: Any = None, attributes: Any = None) -> Any:
        self.meter = Collecting(name, version)
        return self.meter


class Client:
    """An object with metrics."""

    def __init__(self) -> None:
        self.snapshots = 0

    def metrics(self) -> dict[str, Any]:
        self.snapshots += 1
        return {"acquired": self.snapshots, "state": "stable", "partitions": 4}


def test_one_collection_reads_one_snapshot() -> None:
    provider, client = Provider(), Client()
    with observe(meter_provider=provider, billing=client):
        assert provider.meter.collect() == {
            "kafwire.share.consumer.acquired": {(("client", "billing"),): 1.0},
            "kafwire.share.consumer.state": {(("client", "billing"), ("state", "stable")): 1.0},
            "kafwire.share.consumer.partitions": {(("client", "billing"),): 4.0},
        }
        assert client.snapshots == 1
    assert provider.meter.collect() == {}, "the observation is closed"


def test_every_metric_has_an_instrument() -> None:
    provider = Provider()
    observe(meter_provider=provider).close()
    assert provider.meter.name == "kafwire"
    made = provider.meter.made
    assert set(made) == {metric.otel_name for metric in METRICS if metric.name}
    assert made["kafwire.producer.records"][::2] == ("counter", "{record}")
    assert made["kafwire.producer.queue_max"][::2] == ("gauge", "s")
    assert made["kafwire.connection.bytes_in"][::2] == ("counter", "By")
    assert made["kafwire.producer.compression_ratio"][::2] == ("gauge", "1")


def test_semantic_conventions_name_topics_partitions_and_errors() -> None:
    provider = Provider()
    snapshot = {
        "producer": {"errors": {"REQUEST_TIMED_OUT": 2}},
        "partitions": {"t-3": {"records": 5}},
        "connections": [],
    }
    observe(snapshot, meter_provider=provider)
    found = provider.meter.collect()
    attributes = (
        ("client", "producer"),
        ("messaging.destination.name", "t"),
        ("messaging.destination.partition.id", "3"),
    )
    assert found["kafwire.producer.partition.records"] == {attributes: 5.0}
    assert found["kafwire.producer.errors"] == {(("client", "producer"), ("error.type", "REQUEST_TIMED_OUT")): 2.0}


def test_an_observation_keeps_no_client_alive() -> None:
    provider, client = Provider(), Client()
    observation = observe(client, meter_provider=provider)
    del client
    gc.collect()
    assert provider.meter.collect() == {}
    assert "1 sources" in repr(observation)


def test_a_client_keeps_its_name_when_another_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", itertools.count(100).__next__)
    provider, first, second = Provider(), Client(), Client()
    observation = observe(first, second, meter_provider=provider)
    name = "kafwire_share_consumer_acquired_total"
    assert [sample.labels["client"] for sample in observation.of(name)] == ["share_consumer", "share_consumer_2"]
    del first
    gc.collect()
    assert [sample.labels["client"] for sample in observation.of(name)] == ["share_consumer_2"]
    observation.close()
    assert observation.of(name) == []


def test_a_function_that_raises_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    provider, client = Provider(), Client()
    observe(client, meter_provider=provider, bad=lambda: vars()["bad"])
    assert len(provider.meter.collect()) == 3
    assert client.snapshots == 1
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("kafwire", "ERROR")


def test_without_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install kafwire\[otel\]"):
        observe()


def test_without_an_sdk_nothing_is_read() -> None:
    client = Client()
    observe(client).close()
    assert client.snapshots == 0
