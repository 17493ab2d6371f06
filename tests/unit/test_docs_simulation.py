"""docs/internals/simulation.md lists the planted mistakes of `make mutants AREA=simulation`, in their order."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.support.doc_names import rows, spans

ROOT = Path(__file__).parents[2]


def test_the_table_has_each_planted_mistake_with_its_module() -> None:
    planted = tomllib.loads((ROOT / "scripts" / "mutants" / "planted.toml").read_text())["planted"]
    _, _, table = (ROOT / "docs" / "internals" / "simulation.md").read_text().partition("\n| mistake | module |")
    listed = [(mistake, f"kafwire/{spans(module)[0]}.py") for mistake, module, *_ in rows(table)]
    assert listed == [(each["what"], each["file"]) for each in planted]
