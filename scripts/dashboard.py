"""Writes docs/operate/dashboard.json, a Grafana dashboard of kafwire's metrics in Prometheus.

`python -m scripts.dashboard` writes it; a test compares it, and its names with the registry.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "docs" / "operate" / "dashboard.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
CHOSEN = 'client=~"$client"'
SPAN = "$__rate_interval"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3

# By row, the panels: title, unit of Grafana, and the lines by their legends. `{}` stands for the chosen clients.
# Each query groups by the labels of its legend: processes and connections of one name are one line. `[]` stands for a
# span from point to point of the graph at least: a fixed one would hide events between the points of a month.
ROWS: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "Consumers": [
        ("Lag", "short", {"{{client}} {{topic}}": "sum by (client, topic) (kafwire_consumer_partition_lag{})"}),
        (
            "Fetched",
            "Bps",
            {"{{client}} {{topic}}": "sum by (client, topic) (rate(kafwire_consumer_partition_bytes_total{}[]))"},
        ),
        (
            "Delivered and not committed",
            "short",
            {"{{client}} {{topic}}": "sum by (client, topic) (kafwire_consumer_partition_uncommitted{})"},
        ),
        (
            "Longest failure of a partition",
            "s",
            {"{{client}}": "max by (client) (kafwire_consumer_partition_failing_seconds{})"},
        ),
        (
            "Rebalances and lost partitions",
            "short",
            {
                "{{client}} rebalances": "sum by (client) (increase(kafwire_consumer_group_rebalances_total{}[]))",
                "{{client}} lost": "sum by (client) (increase(kafwire_consumer_group_lost_partitions_total{}[]))",
            },
        ),
        (
            "State of the group",
            "short",
            {"{{client}} {{state}}": "sum by (client, state) (kafwire_consumer_group_state{})"},
        ),
    ],
    "Producers": [
        (
            "Records",
            "cps",
            {"{{client}}": "sum by (client) (rate(kafwire_producer_records_delivered_total{}[]))"},
        ),
        ("Bytes", "Bps", {"{{client}}": "sum by (client) (rate(kafwire_producer_bytes_total{}[]))"}),
        (
            "Records given up",
            "short",
            {"{{client}}": "sum by (client) (increase(kafwire_producer_records_failed_total{}[]))"},
        ),
        (
            "Failed attempts",
            "short",
            {"{{client}} {{error}}": "sum by (client, error) (increase(kafwire_producer_errors_total{}[]))"},
        ),
        (
            "Time in the queue",
            "s",
            {
                "{{client}} highest mean": "max by (client) (kafwire_producer_queue_mean_seconds{})",
                "{{client}} longest": "max by (client) (kafwire_producer_queue_max_seconds{})",
            },
        ),
        (
            "Buffer in use",
            "percentunit",
            {
                "{{client}}": "max by (client) "
                "(kafwire_producer_buffer_used_bytes{} / kafwire_producer_buffer_memory_bytes{})"
            },
        ),
    ],
    "Connections": [
        (
            "Mean latency",
            "s",
            {
                "{{client}} {{role}}": "sum by (client, role) (rate(kafwire_connection_latency_seconds_total{}[]))"
                " / sum by (client, role) (rate(kafwire_connection_responses_total{}[]))"
            },
        ),
        (
            "Connects",
            "short",
            {"{{client}} {{node}}": "sum by (client, node) (increase(kafwire_connection_connects_total{}[]))"},
        ),
        (
            "Throttled",
            "percentunit",
            {"{{client}} {{node}}": "sum by (client, node) (rate(kafwire_connection_throttle_seconds_total{}[]))"},
        ),
    ],
    "Share consumers, streams, outboxes": [
        (
            "Share consumers: records",
            "cps",
            {
                "{{client}} acquired": "sum by (client) (rate(kafwire_share_consumer_acquired_total{}[]))",
                "{{client}} acknowledged": "sum by (client) (rate(kafwire_share_consumer_acknowledged_total{}[]))",
                "{{client}} expired": "sum by (client) (rate(kafwire_share_consumer_expired_total{}[]))",
            },
        ),
        (
            "Streams: age of the oldest record",
            "s",
            {"{{client}}": "max by (client) (kafwire_stream_oldest_seconds{})"},
        ),
        (
            "Streams and outboxes: dead letters",
            "short",
            {
                "{{client}}": "sum by (client) (increase(kafwire_stream_dead_letters_total{}[]))",
                "{{client}} (outbox)": "sum by (client) (increase(kafwire_outbox_dead_letters_total{}[]))",
            },
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, charts in ROWS.items():
        place = {"h": 1, "w": WIDTH * COLUMNS, "x": 0, "y": top}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": row, "collapsed": False, "gridPos": place, "panels": []}
        )
        top += 1
        for index, chart in enumerate(charts):
            line, column = divmod(index, COLUMNS)
            place = {"h": HEIGHT, "w": WIDTH, "x": WIDTH * column, "y": top + HEIGHT * line}
            panels.append(_panel(len(panels) + 1, place, *chart))
        top += HEIGHT * -(-len(charts) // COLUMNS)
    client = {
        "name": "client",
        "label": "Client",
        "type": "query",
        "datasource": SOURCE,
        "query": 'label_values({__name__=~"kafwire_.+"}, client)',
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "title": "kafwire",
        "uid": "kafwire-clients",
        "schemaVersion": 39,
        "tags": ["kafka", "kafwire"],
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [source, client]},
        "panels": panels,
    }


def _panel(number: int, place: dict[str, int], title: str, unit: str, lines: dict[str, str]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": expression.replace("{}", f"{{{CHOSEN}}}").replace("[]", f"[{SPAN}]"),
            "legendFormat": legend,
        }
        for index, (legend, expression) in enumerate(lines.items())
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def text() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=2) + "\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(text())


if __name__ == "__main__":
    main()
