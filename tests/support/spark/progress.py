"""Reports of Spark about batches, as `StreamingQueryProgress.json` has them."""

from __future__ import annotations

import datetime as dt
from typing import Any


def report(
    at_s: float, end: dict[str, Any], latest: dict[str, Any] | None, start: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """A report of a batch with one source, planned `at_s` seconds after a fixed time, which took two seconds."""
    when = dt.datetime(2026, 11, 27, 20, tzinfo=dt.UTC) + dt.timedelta(seconds=at_s)
    source = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    return {
        "id": "id",
        "runId": "run",
        "name": None,
        "batchId": 3,
        "batchDuration": 2000,
        "numInputRows": 30,
        "timestamp": when.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "sources": [source],
        **fields,
    }
