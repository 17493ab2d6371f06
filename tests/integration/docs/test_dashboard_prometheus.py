"""docs/operate/dashboard.json by its reader: a Prometheus that scrapes a program responds to each query of a panel."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from scripts import dashboard
from tests.support.deadlines import until
from tests.support.monitored_program import CLIENTS, monitored
from tests.support.prometheus import Line, Prometheus, as_sent, lines_of, promtool, scraping

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="no Prometheus here")

DASHBOARD = json.loads(dashboard.FILE.read_text())
LINES = lines_of(DASHBOARD)


class Scene(NamedTuple):
    """A program's port, and the Prometheus that scrapes it."""

    port: int
    prometheus: Prometheus


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A running program after two scrapes."""
    with monitored() as port, scraping(port) as prometheus:
        yield Scene(port, prometheus)


def test_promtool_accepts_names_types_and_help(scene: Scene) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{scene.port}/metrics", timeout=10) as response:
        text = response.read().decode()
    assert text.count("# HELP ") > 90
    assert promtool("check", "metrics", text=text) == ""


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.panel}: {line.legend}")
def test_each_line_of_each_panel_has_series(scene: Scene, line: Line) -> None:
    expression = as_sent(line.expression)
    until(lambda: scene.prometheus.series(expression), expression)
    found = scene.prometheus.series(expression)
    legend = set(re.findall(r"{{(\w+)}}", line.legend))
    assert all(series["metric"].keys() == legend for series in found), "the legend has each label, and no other"
    assert all(series["value"][1] != "NaN" for series in found if "mean" not in line.panel.lower())


def test_the_variable_lists_the_clients(scene: Scene) -> None:
    (variable,) = [each for each in DASHBOARD["templating"]["list"] if each["name"] == "client"]
    (selector,) = re.findall(r"^label_values\((.+), client\)$", variable["query"])
    assert scene.prometheus.get("label/client/values", **{"match[]": selector}) == CLIENTS


@pytest.mark.parametrize("chosen", [["billing"], ["billing", "orders"]])
def test_a_choice_of_clients_leaves_the_others_out(scene: Scene, chosen: list[str]) -> None:
    (line,) = [each for each in LINES if each.panel == "Connects"]
    found = scene.prometheus.series(as_sent(line.expression, *chosen))
    assert {series["metric"]["client"] for series in found} == set(chosen)
