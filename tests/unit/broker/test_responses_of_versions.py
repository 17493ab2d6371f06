"""Every response has a form in the version of the request."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.frames import write_response
from kafwire.broker.request import Request
from kafwire.broker.state import ClusterState
from tests.support.broker.samples import sample


def cluster() -> ClusterState:
    state = ClusterState()
    for name in ("name", "topic", "topic_name", "resource_name"):  # as the samples call theirs
        state.topics.create(f"{name}-0", 2)
    return state


def frames(state: ClusterState, message: Any, version: int) -> list[bytes]:
    request = Request(state.connect(1), message, version)
    dispatch.receive(state, request, 0.0)
    state.advance(10_000.0)
    return [write_response(its, response) for its, response in state.take_replies() if hasattr(response, "encode")]


@pytest.mark.parametrize("api", [each.name for each in dispatch.served().values()])
def test_samples_get_responses(api: str) -> None:
    its = next(each for each in dispatch.served().values() if each.name == api)
    for version in range(its.versions[0], its.versions[1] + 1):
        frames(cluster(), sample(its.request_class, version), version)


@pytest.mark.parametrize("timestamp", [-1, -2, 5])
def test_offsets_are_returned_in_every_version(timestamp: int) -> None:
    asked = protocol.ListOffsetsRequest
    wanted = asked.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    message = asked(replica_id=-1, topics=[asked.ListOffsetsTopic(name="name-0", partitions=[wanted])])
    for version in range(asked.min_version, asked.max_version + 1):
        state = cluster()
        state.topics.by_name["name-0"].partitions[0].append_values([b"x"])
        (frame,) = frames(state, message, version)
        response = protocol.ListOffsetsResponse.decode(frame[5 if version >= asked.flexible_from else 4 :], version)
        assert response.topics[0].partitions[0].error_code == 0
