"""Options that limit each other: one row for each pair. Pure.

If two options conflict, a default yields to the option that the user gave. Two given options that conflict are an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafwire.config.checks import HIGHEST
from kafwire.errors import ConfigError

# The least bytes of a response beside its records, as librdkafka counts.
HEADERS = 512


class Pair(NamedTuple):
    """The sum of the `lower` options must not exceed the limit of the option `upper`."""

    lower: tuple[str, ...]
    upper: str
    why: str  # the consequence of a violation, for the error
    least: Callable[[int], int] = lambda lower: lower  # the least allowed upper value for a lower one
    room: Callable[[int], int] = lambda upper: upper  # the lower value of a lower option that yields to an upper one
    enough: Callable[[int], int] = lambda lower: lower  # the upper value of an upper option that yields to a lower one


PAIRS = (
    *(
        Pair(
            (records_option,),
            "max_frame_bytes",
            f"a response has at least {HEADERS} bytes beside its records, and a longer frame is refused",
            least=lambda records: min(records + HEADERS, HIGHEST),  # a frame cannot be longer than HIGHEST
            room=lambda frame: frame - HEADERS - frame // 16,
            enough=lambda records: records + HEADERS + records // 8,
        )
        for records_option in ("fetch_max_bytes", "max_partition_fetch_bytes")
    ),
    Pair(("fetch_min_bytes",), "fetch_max_bytes", "no response has so many bytes"),
    Pair(("retry_backoff_ms",), "retry_backoff_max_ms", "the backoff never reaches its first step"),
    Pair(("reconnect_backoff_ms",), "reconnect_backoff_max_ms", "the backoff never reaches its first step"),
    Pair(("batch_size",), "max_request_size", "a batch would be larger than a request"),
    Pair(("linger_ms", "request_timeout_ms"), "delivery_timeout_ms", "no response could come in time"),
    Pair(
        ("heartbeat_interval_ms",),
        "session_timeout_ms",
        "the coordinator would remove the member between two heartbeats",
        least=lambda interval: interval + 1,
        room=lambda session: session // 3,
        enough=lambda interval: 3 * interval,
    ),
    Pair(
        ("revocation_timeout_ms",),
        "rebalance_timeout_ms",
        "the coordinator would remove the member before",
        least=lambda window: window + 1,
        room=lambda rebalance: rebalance * 9 // 10,
        enough=lambda window: window + window // 9 + 1,
    ),
)


def yielding(values: Mapping[str, Any], given: frozenset[str]) -> dict[str, int]:
    """Return new values of defaults that yield to `given` options; `ConfigError` for given options that conflict.

    `values` has all options of one client. Rows with options that the client lacks, or that are None, do not apply.
    """
    known = dict(values)
    changed: dict[str, int] = {}
    for pair in PAIRS:
        names = (*pair.lower, pair.upper)
        if any(known.get(name) is None for name in names):
            continue
        total = sum(known[name] for name in pair.lower)
        if pair.least(total) <= known[pair.upper]:
            continue
        found = _raised(pair, known) if pair.upper not in given else _lowered(pair, known, given)
        if found is None:
            raise _conflict(pair, known)
        known |= found
        changed |= found
    return changed


def _raised(pair: Pair, known: Mapping[str, Any]) -> dict[str, int] | None:
    """Raise the upper option, which is a default; None if no value is high enough."""
    total = sum(known[name] for name in pair.lower)
    value = min(HIGHEST, pair.enough(total))
    return {pair.upper: value} if pair.least(total) <= value else None


def _lowered(pair: Pair, known: Mapping[str, Any], given: frozenset[str]) -> dict[str, int] | None:
    """Lower the lower options that are defaults, small ones least; None if there is no room for them."""
    free = sorted((name for name in pair.lower if name not in given), key=lambda name: int(known[name]))
    room = pair.room(known[pair.upper]) - sum(known[name] for name in pair.lower if name in given)
    found: dict[str, int] = {}
    for index, name in enumerate(free):
        found[name] = min(known[name], room // (len(free) - index))
        room -= found[name]
    return found if found and min(found.values()) >= 1 else None


def _conflict(pair: Pair, known: Mapping[str, Any]) -> ConfigError:
    lower = " + ".join(pair.lower)
    total = sum(known[name] for name in pair.lower)
    need = pair.least(total)
    return ConfigError(
        f"{pair.upper}={known[pair.upper]} is below {lower} ({total}){'' if need == total else f', {need} is needed'}: "
        f"{pair.why}; raise {pair.upper}, or lower {' or '.join(pair.lower)}"
    )
