"""Options of subscriptions of clients' metrics, with Kafka's names. See KIP-714."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafwire.broker.topics.config_def import INT, LIST, ConfigDef, by_name, elements
from kafwire.errors import ErrorCode

INTERVAL, MATCH = "interval.ms", "match"
LEAST_MS, MOST_MS = 100, 3_600_000
CLIENT_METRICS_CONFIGS = by_name(
    ConfigDef(INTERVAL, INT, "300000", "time between two pushes of a client, in milliseconds"),
    ConfigDef(MATCH, LIST, "", "the clients: patterns for what a client says about itself, field=pattern"),
    ConfigDef("metrics", LIST, "", "prefixes of the metrics' names; * for all metrics"),
)
# A client's fields that a subscription may match.
FIELDS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def metrics_problem(configs: Mapping[str, str]) -> tuple[ErrorCode, str] | None:
    """Return the fault of a subscription's options: an error code, and Kafka's words; None: no fault."""
    for name in configs:
        if name not in CLIENT_METRICS_CONFIGS:
            return ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
    if INTERVAL in configs:
        if problem := CLIENT_METRICS_CONFIGS[INTERVAL].problem(configs[INTERVAL]):
            return ErrorCode.INVALID_CONFIG, problem
        interval_ms = int(configs[INTERVAL])
        if not LEAST_MS <= interval_ms <= MOST_MS:
            return ErrorCode.INVALID_REQUEST, (
                f"Invalid value {interval_ms} for {INTERVAL}, interval must be between 100 and 3600000 (1 hour)"
            )
    for each in elements(configs.get(MATCH, "")):
        if not _is_match(each):
            return ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {each}"
    return None


def _is_match(text: str) -> bool:
    """True for a field and a valid pattern."""
    parts = text.split("=")
    if len(parts) != 2 or not parts[1] or parts[0].strip() not in FIELDS:
        return False
    try:
        re.compile(parts[1].strip())
    except re.error:
        return False
    return True
