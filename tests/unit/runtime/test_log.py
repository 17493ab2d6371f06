"""`runtime.log`: loggers by area, and the fields of events."""

from __future__ import annotations

import ast
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafwire
from kafwire.errors import ErrorCode, broker_error
from kafwire.runtime import log as logs
from kafwire.runtime.engine import NativeEngine
from kafwire.runtime.log import AREAS, EngineLog, cluster_log, consumer_log, log
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.doc_names import rows, spans

ROOT = Path(__file__).parents[3]
LOGS: dict[str, EngineLog] = {area: getattr(logs, f"{area}_log") for area in AREAS}


@pytest.fixture
def engine() -> Iterator[NativeEngine]:
    it = NativeEngine()
    yield it
    it.stop()


@pytest.mark.parametrize("area", AREAS)
def test_each_area_has_a_logger_below_kafwires(area: str, caplog: pytest.LogCaptureFixture) -> None:
    LOGS[area].warning("it %s", "is so", topic="t")
    (record,) = caplog.records
    assert (record.name, record.getMessage(), record.levelname) == (f"kafwire.{area}", "it is so", "WARNING")
    assert record.funcName == "test_each_area_has_a_logger_below_kafwires"


def test_an_area_can_be_silenced_alone(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("kafwire.cluster")
    logger.setLevel(logging.ERROR)
    try:
        cluster_log.warning("a connection is lost")
        consumer_log.warning("a partition is lost")
    finally:
        logger.setLevel(logging.NOTSET)
    assert [record.getMessage() for record in caplog.records] == ["a partition is lost"]


@pytest.mark.parametrize("where", ["here", "engine"])
def test_fields_are_plain_values(where: str, engine: NativeEngine, caplog: pytest.LogCaptureFixture) -> None:
    error = broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "reading t-0")

    async def say() -> None:
        log.warning(
            "an event", topic="t", partition=3, error=error, other=OSError("x"), names=["a", 1], none=None, path=ROOT
        )

    if where == "here":
        log.warning(
            "an event", topic="t", partition=3, error=error, other=OSError("x"), names=["a", 1], none=None, path=ROOT
        )
    else:
        engine.run(say)
        assert engine.reports.settle(10)
    (record,) = caplog.records
    fields = vars(record)["kafwire"]
    assert json.loads(json.dumps(fields)) == {
        "topic": "t",
        "partition": 3,
        "error": "NOT_LEADER_OR_FOLLOWER",
        "other": "OSError",
        "names": ["a", 1],
        "none": None,
        "path": str(ROOT),
    }


@pytest.mark.parametrize("error", [AttributeError("m", name="attribute"), ModuleNotFoundError("m", name="module")])
def test_the_field_of_an_error_is_its_class_and_not_its_subject(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    log.error("it failed", error=error)
    assert vars(caplog.records[0])["kafwire"] == {"error": type(error).__name__}


def test_a_line_without_fields_has_an_empty_dict(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("an event")
    assert vars(caplog.records[0])["kafwire"] == {}


@pytest.mark.parametrize("area", AREAS)
def test_arguments_of_each_logger_are_printable(area: str, caplog: pytest.LogCaptureFixture) -> None:
    LOGS[area].warning("a topic %s", "a\nforged line")
    assert "\n" not in caplog.records[0].getMessage()


def test_a_members_lines_have_its_group(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    with ClusterWorld(brokers=1, seed=1) as world:
        world.state.topics.create("t", partitions=1)
        with kafwire.Consumer(world.bootstrap, topics="t", group_id="g", engine=world.engine) as consumer:
            consumer.poll(timeout=5.0)
    (record,) = [each for each in caplog.records if "protocol" in each.getMessage()]
    assert record.name == "kafwire.consumer"
    fields = vars(record)["kafwire"]
    assert (fields["group"], fields["protocol"]) == ("g", "consumer")


def test_the_page_names_loggers_and_fields() -> None:
    text = (ROOT / "docs" / "guide" / "logging.md").read_text()
    listed = [name for cells in rows(text) for name in spans(cells[0])]
    assert {f"kafwire.{area}" for area in AREAS} <= set(listed)
    used = set()
    for area in (*AREAS, "telemetry", "database", "sync"):
        for file in (ROOT / "kafwire" / area).rglob("*.py"):
            used |= _fields_of(file.read_text())
    assert used
    assert used <= set(listed)


def test_an_area_logs_by_its_logger() -> None:
    others = {"telemetry": "cluster", "calls": "cluster"}
    found: dict[str, set[str]] = {}
    for area in (*AREAS, *others):
        for file in (ROOT / "kafwire" / area).rglob("*.py"):
            names = set(re.findall(r"import (\w+) as log\b|^log = (.*)", file.read_text(), re.MULTILINE))
            found.setdefault(area, set()).update("".join(pair) for pair in names)
    assert {area: names for area, names in found.items() if names != {f"{others.get(area, area)}_log"} and names} == {}


def _fields_of(source: str) -> set[str]:
    """The fields of the calls of `log` in a module."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    methods = {name for name in vars(EngineLog) if not name.startswith("_")}
    return {
        keyword.arg
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in methods
        and isinstance(call.func.value, ast.Name)
        and re.fullmatch("log", call.func.value.id)
        for keyword in call.keywords
        if keyword.arg not in {None, "exc_info"}
    }
