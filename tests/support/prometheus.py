"""A Prometheus of Debian's package that scrapes one kafwire program, and the queries of a Grafana dashboard to it."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kafwire.broker.ports import free_ports
from tests.support.deadlines import until

SCRAPE_S = 1
_CONFIG = """
global: {{scrape_interval: {seconds}s}}
scrape_configs:
  - job_name: kafwire
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Line(NamedTuple):
    """One line of a panel: its title and its target."""

    panel: str
    legend: str
    expression: str


def lines_of(dashboard: Mapping[str, Any]) -> list[Line]:
    """List the lines of all panels."""
    return [
        Line(panel["title"], target["legendFormat"], target["expr"])
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]


def as_sent(expression: str, *clients: str, scrape_s: float = SCRAPE_S, step_s: float = 0) -> str:
    """Replace the variables of a query as Grafana does.

    `clients`: the chosen values of the variable `client`; none: All, whose value the dashboard sets. Several values
    become alternatives of a regular expression. `$__rate_interval` is the larger one of four scrape intervals, and of
    a step and a scrape interval (grafana.com/docs/grafana/latest/datasources/prometheus/template-variables).
    """
    chosen = "|".join(re.sub(r"([\\.*+?^${}()|\[\]])", r"\\\\\1", name) for name in clients)
    value = ".*" if not clients else chosen if len(clients) == 1 else f"({chosen})"
    interval = max(4 * scrape_s, step_s + scrape_s)
    return expression.replace("$__rate_interval", f"{interval:g}s").replace("$client", value)


def promtool(*arguments: str, text: str = "") -> str:
    """Run promtool, and return its complaints."""
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **arguments: str | float) -> Any:
        """Return the data of a response; an error of Prometheus is an `AssertionError` with its text."""
        query = urllib.parse.urlencode(arguments)
        try:
            with urllib.request.urlopen(f"{self._url}/{path}?{query}", timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from None

    def series(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query, each with `metric` and `value`."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def scrapes(self) -> int:
        """Return the number of scrapes that succeeded."""
        try:
            found = self.series("sum(sum_over_time(up[1h]))")
        except (OSError, AssertionError):  # it starts
            return 0
        return int(found[0]["value"][1]) if found else 0


@contextmanager
def scraping(port: int, scrapes: int = 2) -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes the port, and wait for its first scrapes."""
    with free_ports(1) as (own,):
        pass
    with tempfile.TemporaryDirectory(prefix="kafwire-prometheus-") as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(_CONFIG.format(seconds=SCRAPE_S, port=port))
        assert not promtool("check", "config", str(config))
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data"]
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)
        try:
            prometheus = Prometheus(own)
            until(
                lambda: process.poll() is not None or prometheus.scrapes() >= scrapes,
                "the scrapes",
                60 + 2 * scrapes * SCRAPE_S,
            )
            assert process.poll() is None, (Path(folder) / "log").read_text()
            yield prometheus
        finally:
            process.terminate()
            process.wait(30)
