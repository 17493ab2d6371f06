"""Transactions as leaders see them: which batches are refused. See KIP-98, KIP-890."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.testing.broker.batch_header import BatchHeader
    from kafwire.testing.broker.partition import Partition
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.state import ClusterState


def refuses_batch(state: ClusterState, request: Request, partition: Partition, header: BatchHeader) -> int:
    """The error code for a batch that is not in an open transaction of its producer."""
    del state, request, partition, header
    return 0
