"""The partitions that a consumer reads, as its constructor names them, and where reading begins."""

from __future__ import annotations

from typing import NamedTuple

from kafwire.cluster.offset_spec import ResolvedOffset
from kafwire.types import TopicPartition

# One start for all partitions, or a dict by partition; None: no start is given.
Start = ResolvedOffset | dict[TopicPartition, ResolvedOffset] | None


class Selection(NamedTuple):
    """All partitions of `topics`, or of topics that match `pattern`, or those of `assign`; checked by `calls`."""

    topics: list[str] | None = None
    assign: list[TopicPartition] | None = None
    start: Start = None
    pattern: str | None = None
