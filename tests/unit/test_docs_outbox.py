"""docs/guide/outbox.md shows the table that kafwire makes, and names the defaults of its options."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from kafwire.outbox import Outbox, postgresql_schema

TEXT = (Path(__file__).parents[2] / "docs" / "guide" / "outbox.md").read_text()


def test_the_table_is_the_one_that_is_made() -> None:
    (shown,) = re.findall(r"^```sql\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert shown == postgresql_schema()


def test_defaults_are_those_of_the_code() -> None:
    options = inspect.signature(Outbox).parameters
    shown = {
        "batch_rows": r"`batch_rows`, (\d+)",
        "poll_interval": r"`poll_interval` \((\d+) s\)",
        "long_transaction_s": r"`long_transaction_s`, (\d+) s",
    }
    for name, pattern in shown.items():
        (value,) = re.findall(pattern, TEXT)
        assert float(value) == options[name].default, name
    assert f"`{options['state_topic'].default}`" in TEXT
