"""`telemetry.prometheus`: the text format, as Prometheus reads it, and the server."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire.errors import ConfigError, KafkaError
from kafwire.telemetry import METRICS, prometheus_text, serve_prometheus
from kafwire.testing.simulation.cluster import ClusterWorld

HELP = re.compile(r"# HELP (?P<name>[a-z_]+) (?P<text>.*)")
TYPE = re.compile(r"# TYPE (?P<name>[a-z_]+) (?P<kind>counter|gauge)")
SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Parsed = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parse(text: str) -> Parsed:
    """The samples of a text, by the rules of the format: help, type and samples of a metric stand together."""
    found: Parsed = {}
    lines = iter(text.splitlines())
    name = ""
    for line in lines:
        if helped := HELP.fullmatch(line):
            name = helped["name"]
            assert name not in found, f"{name} stands in two places"
            typed = TYPE.fullmatch(next(lines))
            assert typed is not None
            assert typed["name"] == name
            assert (typed["kind"] == "counter") == name.endswith("_total")
            found[name] = {}
        elif not line.startswith("#"):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample["name"] == name
            labels = _labels(sample["labels"] or "")
            assert labels not in found[name], f"{line}: twice"
            found[name][labels] = float(sample["value"])
    assert text.endswith("\n") or not text
    return found


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    end = 0
    for label in LABEL.finditer(text):
        assert label.start() == end, text
        end = label.end()
        value = re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], label[2])
        pairs.append((label[1], value))
    assert end == len(text), text
    return tuple(sorted(pairs))


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    with ClusterWorld(brokers=1, seed=1) as world:
        world.state.topics.create("t", partitions=2)
        yield world


def test_clients_of_several_kinds(world: ClusterWorld) -> None:
    common: Any = {"engine": world.engine}
    with (
        kafwire.Producer(world.bootstrap, **common) as orders,
        kafwire.Producer(world.bootstrap, **common) as other,
        kafwire.Consumer(world.bootstrap, topics="t", auto_offset_reset="earliest", **common) as consumer,
    ):
        orders.send("t", b"v", partition=1).result(30)
        consumer.poll(timeout=30.0)
        found = parse(prometheus_text(other, consumer, orders=orders))
    records = found["kafwire_producer_records_total"]
    assert records == {(("client", "orders"),): 1.0, (("client", "producer"),): 0.0}
    lag = found["kafwire_consumer_partition_lag"]
    assert {dict(labels)["partition"] for labels in lag} == {"0", "1"}
    assert {dict(labels)["client"] for labels in found["kafwire_connection_requests_total"]} == {"orders", "consumer"}
    known = {metric.name: metric for metric in METRICS}
    for name, group in found.items():
        for labels in group:
            assert {label for label, _ in labels} == {"client", *known[name].labels}


def test_sources_of_one_kind_get_numbers() -> None:
    found = parse(prometheus_text({"acquired": 1}, {"acquired": 2}, share_consumer={"acquired": 3}))
    assert found["kafwire_share_consumer_acquired_total"] == {
        (("client", "share_consumer"),): 3.0,
        (("client", "share_consumer_2"),): 1.0,
        (("client", "share_consumer_3"),): 2.0,
    }


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "\\n", "ü{}=,", ""])
def test_any_text_may_be_a_label(text: str) -> None:
    query = {"query": text, "rows_per_second": 0.5, "topics": {text: {"lag": 1}}}
    found = parse(prometheus_text(**{text or "x": query}))
    labels = {"client": text or "x", "query": text, "topic": text}
    assert found["kafwire_spark_topic_lag"] == {tuple(sorted(labels.items())): 1.0}
    assert list(found["kafwire_spark_query_rows_per_second"].values()) == [0.5]


def test_sources_without_metrics() -> None:
    class Later:
        async def metrics(self) -> dict[str, int]:
            return {"acquired": 1}

    with pytest.raises(ConfigError, match="has no metrics"):
        prometheus_text(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is a coroutine"):
        prometheus_text(Later())
    with pytest.raises(ConfigError, match="returned no dict"):
        prometheus_text(lambda: None)  # type: ignore[arg-type, return-value]


def test_a_closed_client_raises(world: ClusterWorld) -> None:
    producer = kafwire.Producer(world.bootstrap, engine=world.engine)
    producer.close()
    with pytest.raises(KafkaError, match="closed"):
        prometheus_text(producer)


def test_scrapes_get_new_values_and_leave_failed_sources_out() -> None:
    numbers = iter((1, 2))

    def failing() -> dict[str, int]:
        raise KafkaError("this producer is closed")

    with serve_prometheus(0, lambda: {"acquired": next(numbers)}, failing) as server:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        for number in (1, 2):
            with urllib.request.urlopen(url, timeout=10) as response:
                text = response.read().decode()
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert parse(text)["kafwire_share_consumer_acquired_total"] == {(("client", "share_consumer"),): number}
            assert "# this producer is closed\n" in text
        server.shutdown()


def scrape(server: Any) -> str:
    host = server.server_address[0]
    url = f"http://[{host}]:{server.server_port}/" if ":" in host else f"http://{host}:{server.server_port}/"
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def test_a_function_that_raises_leaves_the_scrape_alone() -> None:
    def bad() -> dict[str, int]:
        raise ValueError("a\nforged_total 1")

    with serve_prometheus(0, {"acquired": 1}, bad=bad, other=lambda: {"a": 1}) as server:
        text = scrape(server)
        server.shutdown()
    assert parse(text)["kafwire_share_consumer_acquired_total"] == {(("client", "share_consumer"),): 1}
    assert "# ValueError: a forged_total 1\n# not a snapshot of metrics(): its keys are a\n" in text


def test_a_client_keeps_its_name_when_another_closes() -> None:
    is_closed = False

    def first() -> dict[str, int]:
        if is_closed:
            raise KafkaError("this share consumer is closed")
        return {"acquired": 1}

    with serve_prometheus(0, first, {"acquired": 2}) as server:
        found = [parse(scrape(server))["kafwire_share_consumer_acquired_total"]]
        is_closed = True
        found.append(parse(text := scrape(server))["kafwire_share_consumer_acquired_total"])
        server.shutdown()
    names = [(("client", name),) for name in ("share_consumer", "share_consumer_2")]
    assert "# this share consumer is closed\n" in text
    assert "# HELP kafwire_share_consumer_acquired_total From brokers\n" in text
    assert found == [{names[0]: 1, names[1]: 2}, {names[1]: 2}]


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_the_server_takes_an_address_of_ipv6() -> None:
    with serve_prometheus(0, {"acquired": 1}, host="::1") as server:
        assert "acquired_total" in scrape(server)
        server.shutdown()
