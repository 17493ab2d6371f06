"""For every pytest suite: record node ids, leave out tests that must not run, run only tests that use a broker.

The environment variable `FOREIGN_SUITE` has the settings as JSON: `never`, reasons by regular expressions of node ids
that must not run; `fixtures`, of which a test must use one.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from scripts.foreign_suites.outcomes import NODE_ID

SETTINGS = "FOREIGN_SUITE"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests without a broker; mark those that must not run."""
    settings: dict[str, Any] = json.loads(os.environ[SETTINGS])
    fixtures = set(settings["fixtures"])
    chosen = [item for item in items if not fixtures or fixtures & set(getattr(item, "fixturenames", ()))]
    for item in chosen:
        item.user_properties.append((NODE_ID, item.nodeid))
        for pattern, reason in settings["never"].items():
            if re.fullmatch(pattern, item.nodeid, re.DOTALL):
                item.add_marker(pytest.mark.skip(reason=f"left out: {reason}"))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
