"""ApiVersions of the embedded broker: the cluster and the node that a client means to reach (KIP-1242)."""

from __future__ import annotations

import pytest

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.request import Request
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode


def code(cluster_id: str | None, node: int, version: int = 5, *, is_ready: bool = True) -> int:
    """The error code of node 1's response. `{}` in `cluster_id` stands for the cluster's own id."""
    state = ClusterState()
    message = protocol.ApiVersionsRequest(client_software_name="test", client_software_version="1", node_id=node)
    message.cluster_id = None if cluster_id is None else cluster_id.format(state.cluster_id)
    connection = state.connect(1)
    connection.is_ready = is_ready
    dispatch.receive(state, Request(connection, message, version), 0.0)
    ((_, response),) = state.take_replies()
    return int(response.error_code)


def test_the_meant_broker_responds() -> None:
    assert code("{}", 1) == 0
    assert code(None, -1) == 0


@pytest.mark.parametrize(("cluster_id", "node"), [("another", 1), ("{}", 2)])
def test_another_broker_refuses(cluster_id: str, node: int) -> None:
    assert code(cluster_id, node) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert code(cluster_id, node, version=4) == 0, "a version without the fields"
    assert code(cluster_id, node, is_ready=False) == 0, "brokers compare nothing before a login"


@pytest.mark.parametrize(("cluster_id", "node"), [("{}", -1), (None, 1)])
def test_one_without_the_other_is_invalid(cluster_id: str | None, node: int) -> None:
    assert code(cluster_id, node) == ErrorCode.INVALID_REQUEST
