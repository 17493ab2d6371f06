"""The registry has every value of every snapshot, and docs/operate/metrics.md its tables."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.outbox import Outbox
from kafwire.spark.stream_progress import ProgressHistory
from kafwire.stream import MemorySource, Pipeline, StreamMonitor
from kafwire.telemetry import flat
from kafwire.telemetry.registry import METRICS, of_section
from kafwire.telemetry.registry import SECTIONS as REGISTERED
from kafwire.testing.simulation.cluster import ClusterWorld
from scripts import dashboard, metric_tables
from tests.support.doc_names import rows, spans
from tests.support.spark.progress import report

TEXT = (Path(__file__).parents[2] / "docs" / "operate" / "metrics.md").read_text()


@functools.cache
def of_clients() -> Mapping[str, Any]:
    """The snapshots of a producer and of two consumers in one simulated cluster."""
    with ClusterWorld(brokers=1, seed=1) as world:
        world.state.topics.create("t", partitions=1)
        common: Any = {"topics": "t", "engine": world.engine}
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("t", b"v").result(30)
            written = producer.metrics()
        with kafwire.Consumer(world.bootstrap, group_id="g", auto_offset_reset="earliest", **common) as consumer:
            assert consumer.poll(timeout=30.0)
            read = consumer.metrics()
        with kafwire.ShareConsumer(world.bootstrap, group_id="s", **common) as sharing:
            sharing.poll(timeout=5.0)
            shared = sharing.metrics()
    return {"written": written, "read": read, "shared": shared}


def only(values: Iterable[Any]) -> Any:
    """The first of several dicts, which all have the same names."""
    first, *others = values
    assert all(each.keys() == first.keys() for each in others)
    return first


def of_stream() -> Mapping[str, float]:
    monitor = StreamMonitor()
    Pipeline().run(MemorySource({"t": [b"v"]}), monitor=monitor)
    return monitor.metrics()


def of_outbox() -> Mapping[str, Any]:
    outbox = Outbox(lambda: None, "localhost:1", transactional_id="shop")  # type: ignore[arg-type, return-value]
    found = outbox.metrics()
    outbox.close()
    return found


def of_query() -> Mapping[str, Any]:
    return ProgressHistory().add(report(0, {"a": {"0": 20}}, {"a": {"0": 50}})).as_metrics()


SECTIONS: Mapping[str, Callable[[], Iterable[str]]] = {
    "Producer": lambda: of_clients()["written"]["producer"],
    "Producer: partitions": lambda: only(of_clients()["written"]["partitions"].values()),
    "Consumer: fetcher": lambda: of_clients()["read"]["fetcher"],
    "Consumer: broker fetchers": lambda: only(of_clients()["read"]["fetcher"]["broker_fetchers"]),
    "Consumer: partitions": lambda: only(of_clients()["read"]["partitions"].values()),
    "Consumer: group": lambda: of_clients()["read"]["group"],
    "Connections": lambda: only(each for part in of_clients().values() for each in part["connections"]),
    "Share consumer": lambda: of_clients()["shared"],
    "Stream": of_stream,
    "Outbox": of_outbox,
    "Spark query": of_query,
    "Spark query: topics": lambda: of_query()["topics"]["a"],
}


def section(title: str) -> str:
    """The text of a section, up to the next one."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("title", SECTIONS)
def test_every_value_of_a_snapshot_is_registered(title: str) -> None:
    assert set(of_section(title)) == set(SECTIONS[title]())


def test_streams_and_outboxes_are_exported() -> None:
    assert flat({**of_outbox(), "connections": 3})["kafwire_outbox_connections_total"] == 3
    assert flat({**of_stream(), "oldest_s": 2})["kafwire_stream_oldest_seconds"] == 2


def test_the_page_has_the_tables_of_the_registry() -> None:
    assert metric_tables.written(TEXT) == TEXT, "run `python -m scripts.metric_tables`"


def test_the_dashboard_uses_registered_names() -> None:
    assert dashboard.FILE.read_text() == dashboard.text(), "run `python -m scripts.dashboard`"
    used = set(re.findall(r"kafwire_\w+", dashboard.FILE.read_text()))
    known = {metric.name: metric for metric in METRICS if metric.name}
    assert used <= known.keys()
    for panel in dashboard.dashboard()["panels"]:
        for target in panel.get("targets", ()):
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            for name in re.findall(r"kafwire_\w+", target["expr"]):
                assert labels <= {"client", *known[name].labels}


def test_each_line_of_the_dashboard_has_its_own_legend() -> None:
    for panel in dashboard.dashboard()["panels"]:
        targets = panel.get("targets", ())
        assert len({target["legendFormat"] for target in targets}) == len(targets)
        for target in targets:
            legend = ", ".join(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert set(re.findall(r"by \(([^)]*)\)", target["expr"])) == {legend}


def test_no_event_lies_between_the_spans_of_two_points() -> None:
    targets = [target for panel in dashboard.dashboard()["panels"] for target in panel.get("targets", ())]
    for target in targets:
        functions = re.findall(r"(?:rate|increase)\(\w+{[^}]*}\[(.*?)\]", target["expr"])
        assert len(functions) == target["expr"].count("_total{")
        assert set(functions) <= {"$__rate_interval"}


def test_each_kind_of_client_can_be_chosen_on_the_dashboard() -> None:
    (variable,) = [each for each in dashboard.dashboard()["templating"]["list"] if each["name"] == "client"]
    (pattern,) = re.findall(r'^label_values\({__name__=~"(.+)"}, client\)$', variable["query"])
    assert all(re.fullmatch(pattern, metric.name) for metric in METRICS if metric.name)


def test_the_dashboard_has_the_form_of_grafanas_schema() -> None:
    made = dashboard.dashboard()
    assert re.fullmatch(r"[\w-]{8,40}", made["uid"])
    names = {variable["name"] for variable in made["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", dashboard.text())) - {"__all", "__rate_interval"} == names
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
    cells: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        at = panel["gridPos"]
        own = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not own & cells, "panels overlap"
        assert max(x for x, _ in own) < 24
        cells |= own
        assert [target["refId"] for target in panel.get("targets", ())] == [*"ABCDE"][: len(panel.get("targets", ()))]


def test_every_section_is_compared() -> None:
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == list(SECTIONS) == list(REGISTERED)


def test_a_snapshot_has_these_parts() -> None:
    for snapshot, title in (("written", "Producer"), ("read", "Consumer: fetcher")):
        (parts,) = re.findall(r"metrics\(\)` has (.*?)\.", section(title))
        assert set(spans(parts)) == set(of_clients()[snapshot])


def test_alerts_name_metrics() -> None:
    known = {name for found in SECTIONS.values() for name in found()}
    alerts = [name for cells in rows(TEXT.partition("\n## ")[0]) for name in spans(cells[0])]
    assert alerts
    assert {name.rpartition(".")[2] for name in alerts} <= known
