"""The exactly-once sink in random schedules; and each of its rules removed once, which a schedule must notice."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kafwire.spark.exactly_once import outcomes, sink
from tests.support import seeds
from tests.support.exactly_once_model import Violation, run_schedule

SCHEDULES = 2_000
PLANTED = 4_000  # at most, until a removed rule is noticed

# (rule, module, text, text without the rule)
RULES = [
    (
        "a driver fences earlier ones before it reads",
        sink,
        "self._identity = fenced = await self._cluster.fence()\n        end = await self._cluster.high_watermark()",
        "end = await self._cluster.high_watermark()\n        self._identity = fenced = await self._cluster.fence()",
    ),
    (
        "the state is read once no open transaction hides a part of it",
        sink,
        "while await self._cluster.last_stable_offset() < end:",
        "while False:",
    ),
    ("a decision is rolled forward", sink, "if not decision.is_done:", "if False:"),
    (
        "a batch is decided once",
        sink,
        ("return batch == last", "return last is not None and last.batch >= batch"),
        ("return False", "return False"),
    ),
    (
        "a batch is decided only if no driver fenced the sink since it was planned",
        sink,
        "if not follows(fenced, planned):",
        "if False:",
    ),
    (
        "only open transactions are committed",
        sink,
        "if state is None or not state.is_open(each.handle):",
        "if state is None:",
    ),
    (
        "a transaction with little time left is not committed",
        sink,
        "elif state.left_ms(now_ms) < self._margin_ms:",
        "elif False:",
    ),
    ("a decision is written first", sink, "await self._write(encode(self.name, decision))", "pass"),
    (
        "a decision is done after its transactions are committed",
        sink,
        "        handles = [each.handle for each in decision.prepared]\n",
        "        await self._mark_done(decision)\n        handles = [each.handle for each in decision.prepared]\n",
    ),
    (
        "abort looks for the decision first",
        sink,
        "            return False\n        await self._take_over()\n",
        "            return False\n",
    ),
    (
        "nothing is swept before the decision",
        sink,
        "fenced = await self._take_over()\n",
        "fenced = await self._take_over()\n        await self._sweep()\n",
    ),
    ("strays are aborted", sink, "if not strays:", "if True:"),
    (
        "the list of strays is older than a record that only the last driver can write",
        sink,
        "await self._confirm()\n        await self._cluster.end(strays",
        "await self._cluster.end(strays",
    ),
    (
        "only the last driver reports a half-committed batch",
        sink,
        "await self._confirm()  # the batch",
        "pass  # the batch",
    ),
    (
        "an aborted part of a decision is an error",
        outcomes,
        "return Outcome.ABORTED\n    if code in",
        "return Outcome.COMMITTED\n    if code in",
    ),
    (
        "a fenced EndTxn says nothing of the outcome",
        outcomes,
        "return Outcome.UNKNOWN\n    raise",
        "return Outcome.COMMITTED\n    raise",
    ),
    ("a time-out is found by DescribeTransactions", outcomes, "ahead in (0, 1)", "ahead == 5"),
]


# Seeds that notice most of the rules, before any others.
NOTICING = (0, 1, 3, 5, 8, 11, 41, 47, 121, 277, 316, 1691, 133_702)


def without(module: ModuleType, texts: str | tuple[str, ...], others: str | tuple[str, ...]) -> ModuleType:
    """The sink's module, with a rule of `module` removed."""
    pairs = zip(*(((each,) if isinstance(each, str) else each) for each in (texts, others)), strict=True)
    made = _loaded(module, pairs)
    if module is sink:
        return made
    # The sink's module with two functions of the changed one, which return the outcomes that the sink knows.
    changed = _loaded(sink, ())
    for name in ("committed", "found"):
        setattr(changed, name, _with_known_outcomes(getattr(made, name)))
    return changed


def _with_known_outcomes(function: Callable[..., Any]) -> Callable[..., outcomes.Outcome]:
    return lambda *args: outcomes.Outcome(function(*args).value)


def _loaded(module: ModuleType, pairs: Iterable[tuple[str, str]]) -> ModuleType:
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    for text, other in pairs:
        assert source.count(text) == 1, text
        source = source.replace(text, other)
    made = ModuleType(module.__name__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, made.__name__, made)  # dataclasses look for their module
        exec(compile(source, str(module.__file__), "exec"), made.__dict__)
    return made


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "kafwire.spark")


@pytest.mark.parametrize("quarter", range(4))
def test_no_row_is_lost_or_repeated_in_random_schedules(quarter: int) -> None:
    first = seeds.of_test() * 1_000_000
    each = seeds.examples(SCHEDULES) // 4
    for seed in range(first + quarter * each, first + (quarter + 1) * each):
        try:
            run_schedule(seed)
        except Exception as error:
            error.add_note(f"run_schedule({seed})")
            raise


@pytest.mark.parametrize(("rule", "module", "texts", "others"), RULES, ids=[rule[0] for rule in RULES])
def test_each_rule_is_needed(
    rule: str, module: ModuleType, texts: str | tuple[str, ...], others: str | tuple[str, ...]
) -> None:
    planted = without(module, texts, others)
    for seed in (*NOTICING, *range(PLANTED)):
        try:
            run_schedule(seed, planted)
        except Violation:
            return
    pytest.fail(f"{PLANTED} schedules did not notice that a rule is removed: {rule}")
