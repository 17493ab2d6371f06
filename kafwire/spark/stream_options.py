"""The options of a stream, checked on the driver and frozen; names and meaning are those of Spark's own Kafka source.

Pure, as `options`, which reads the options that batch reads and streams share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafwire.errors import ConfigError
from kafwire.spark.offsets import EARLIEST, LATEST, parse_numbers
from kafwire.spark.options import BATCH_ONLY, GROUP, Bound, ReadOptions, bound, positive, reading, sort_out
from kafwire.spark.trigger_limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp")
_BY_TOPIC_SHAPE = '{"topicA": 1000} (offsets per trigger)'
_DEFAULT_DELAY = "15m"
_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "": 1,
}
_DURATION = re.compile(r"([0-9]{1,15})\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """A stream. It starts at `read.start`, or at the committed offsets of `start_group` if that is not None."""

    read: ReadOptions
    start_group: str | None
    commit_group: str | None
    limits: Limits
    attempts: int
    retry_interval_ms: int

    @property
    def start_moves(self) -> bool:
        """True if a second lookup may find another start: neither earliest nor named by offset."""
        start = self.read.start
        named = start.named.values() if start.everywhere is None else [start.everywhere]
        return self.start_group is not None or start.by_timestamp or LATEST in named


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Check the options of a stream; raises `ConfigError`."""
    own, kafka = sort_out(given)
    for name, why in BATCH_ONLY.items():
        if name in own:
            raise ConfigError(f"option {name}: {why}; leave it out, or read a batch")
    group = _start_group(own)
    if group is None:
        start = bound(own, "starting", LATEST)
    else:
        start = Bound("startingOffsets", by_timestamp=False, everywhere=EARLIEST, named={})
    end = Bound("endingOffsets", by_timestamp=False, everywhere=LATEST, named={})
    return StreamOptions(
        read=reading(own, kafka, start, end),
        start_group=group,
        commit_group=_commit_group(own),
        limits=_limits(own),
        attempts=_count(own, "fetchOffset.numRetries", 3),
        retry_interval_ms=_count(own, "fetchOffset.retryIntervalMs", 1000, lowest=0),
    )


def _start_group(own: Mapping[str, str]) -> str | None:
    if any(name in own for name in _STARTS):  # they win over startingOffsets
        return None
    text = own.get("startingOffsets", "").strip()
    if not text.startswith(GROUP):
        return None
    group = text.removeprefix(GROUP).strip()
    if not group:
        raise ConfigError(f"option startingOffsets={text!r} names no group: give group:<id>")
    return group


def _commit_group(own: Mapping[str, str]) -> str | None:
    group = own.get("commitGroup")
    if group is not None and not group.strip():
        raise ConfigError("option commitGroup is empty: name the group that gets the stream's offsets, or leave it out")
    return None if group is None else group.strip()


def _limits(own: Mapping[str, str]) -> Limits:
    by_topic = own.get("maxOffsetsPerTriggerByTopic")
    return Limits(
        max_offsets=positive(own, "maxOffsetsPerTrigger"),
        min_offsets=positive(own, "minOffsetsPerTrigger"),
        max_delay_ms=_duration_ms("maxTriggerDelay", own.get("maxTriggerDelay", _DEFAULT_DELAY)),
        max_bytes=positive(own, "maxBytesPerTrigger"),
        max_by_topic={}
        if by_topic is None
        else parse_numbers("maxOffsetsPerTriggerByTopic", by_topic, _BY_TOPIC_SHAPE),
    )


def _count(own: Mapping[str, str], option: str, default: int, *, lowest: int = 1) -> int:
    text = own.get(option, str(default)).strip()
    if not (text.isascii() and text.isdigit()) or not lowest <= int(text) < 2**31:
        raise ConfigError(f"option {option}={own[option]!r}: a whole number from {lowest} on is needed")
    return int(text)


def _duration_ms(option: str, text: str) -> int:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ConfigError(f"option {option}={text!r}: a time is needed, such as 500ms, 30s, 15m, 1h or 1d")
    return int(int(found[1]) * _UNITS_MS[found[2]])
