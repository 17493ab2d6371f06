"""A streams group's topology and the topics that exist."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.broker.groups.streams_topics import ConfiguredTopology, Status, configure, summary
from kafwire.broker.groups.streams_topology import topology_of
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode
from tests.support.stream.streams_group_walk import HEARTBEAT, subtopology

FAILED = "Failed to compute number of partitions for all repartition topics"
EXISTING = {"four": 4, "two": 2, "also": 4}


def configured(*parts: Any, **more: int) -> ConfiguredTopology:
    return configure(topology_of(HEARTBEAT.Topology(subtopologies=[*parts])), {**EXISTING, **more})


def test_a_topology_without_internal_topics_is_ready() -> None:
    found = configured(subtopology("0", ("four", "two")), subtopology("1", ("also",)))
    assert found.is_ready
    assert found.missing == ()
    assert found.subtopologies is not None
    assert {name: each.tasks for name, each in found.subtopologies.items()} == {"0": 4, "1": 4}


def test_internal_topics_have_the_partition_count_of_their_sources() -> None:
    parts = (
        subtopology("0", ("two",), sinks=("r",)),
        subtopology("1", ("four",), repartition={"r": 0}, together=((0,), (0,)), stores=("s",)),
        subtopology("2", repartition={"q": 3}, stores=("t",)),
    )
    found = configured(*parts)
    assert {each.name: each.partitions for each in found.missing} == {"r": 4, "q": 3, "s": 4, "t": 3}
    assert found.problem is not None
    assert found.problem[0] is Status.MISSING_INTERNAL_TOPICS
    ready = configured(*parts, r=4, q=3, s=4, t=3)
    assert (ready.is_ready, ready.missing) == (True, ())


@pytest.mark.parametrize("repartition", [{}, {"r": 3, "q": 2}])
def test_topics_without_a_copartition_group_may_differ(repartition: dict[str, int]) -> None:
    found = configured(subtopology("0", ("four",), repartition=repartition, together=((), ())), **repartition)
    assert found.is_ready


@pytest.mark.parametrize(("parts", "more", "status", "detail"), [
    (
        [subtopology("0", ("c", "four", "b")), subtopology("1", ("d", "a"))], {},
        Status.MISSING_SOURCE_TOPICS, "Source topics a, b, c and 1 additional topics are missing.",
    ),
    (
        [subtopology("0", ("four", "two"), together=((0, 1), ()))], {},
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{four=4, two=2}]",
    ),
    (
        [subtopology("0", ("four",), repartition={"r": 3}, together=((0,), (0,)))], {},
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [4] of the source topic.",
    ),
    (
        [subtopology("0", repartition={"r": 3, "q": 2}, together=((), (0, 1)))], {},
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{q=2, r=3}]",
    ),
    (
        [subtopology("0", ("four",), stores=("s",))], {"s": 2},
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic s has different number of partitions: expected 4, found 2",
    ),
])  # fmt: skip
def test_topics_that_do_not_fit(parts: list[Any], more: dict[str, int], status: Status, detail: str) -> None:
    found = configured(*parts, **more)
    assert (found.problem, found.subtopologies, found.missing) == ((status, detail), None, ())


@pytest.mark.parametrize(("parts", "code", "text"), [
    ([subtopology("0")], ErrorCode.STREAMS_INVALID_TOPOLOGY, "No source topics found for subtopology 0"),
    (
        [subtopology("0", sinks=("r",), repartition={"r": 0})], ErrorCode.STREAMS_INVALID_TOPOLOGY,
        f"{FAILED}. There may be loops in the topology that cannot be resolved.",
    ),
    (
        [subtopology("0", ("four",), repartition={"r": 0})], ErrorCode.STREAMS_INVALID_TOPOLOGY,
        f"{FAILED}, because a repartition source topic is never used as a sink topic.",
    ),
    ([subtopology("0", ("four",), repartition={"r": -1})], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
    ([subtopology("0", ("four",), together=((1,), ()))], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
    ([subtopology("0", ("four",), together=((-1,), ()))], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
    ([subtopology("0", ("four",), stores=("s", "s"))], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
    ([subtopology("0", ("four",)), subtopology("0", ("two",))], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
])  # fmt: skip
def test_topologies_that_no_topics_make_work(parts: list[Any], code: ErrorCode, text: str) -> None:
    with pytest.raises(Refusal) as found:
        configured(*parts)
    assert (found.value.code, found.value.message) == (code, text)


@pytest.mark.parametrize(("count", "text"), [(0, ""), (3, "a, b, c"), (5, "a, b, c and 2 additional topics")])
def test_a_summary_of_topics(count: int, text: str) -> None:
    assert summary("abcde"[:count]) == text
