"""A second, longer look at a response that did not come in time: a slow API is no hang."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kafwire.errors import KafkaError
from kafwire.testing.fuzzer import damage, execute
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.connection import Target
from kafwire.testing.fuzzer.execute import ForbiddenError


def late_seconds(
    target: Target, case: Case, patience_s: float, *, destructive: bool, topics: dict[str, UUID]
) -> float | None:
    """Send a case again; return the seconds until its slowest response, if that is late.

    None: a response is still missing after `patience_s`, or all are in time now.
    """
    patient = replace(target, timeout=max(patience_s, target.timeout))
    try:
        ran = execute.execute(patient, case, destructive=destructive, topics=topics)
    except (ForbiddenError, damage.NotApplicableError, KafkaError):
        return None
    if any(exchange.status == execute.SILENT for exchange in ran.exchanges):
        return None
    longest = max(exchange.seconds - exchange.waits for exchange in ran.exchanges)
    return longest if longest > target.timeout else None
