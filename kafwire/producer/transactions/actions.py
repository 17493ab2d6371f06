"""The requests of a transaction, as `state.py` decides on them and `manager.py` sends them."""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.lazy_dataclass import dataclass
from kafwire.producer.outcome.sequencer import Identity
from kafwire.types import ConsumerGroupMetadata

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Initialize:
    """InitProducerId; with an identity: raise its epoch (KIP-360)."""

    current: Identity | None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """AddOffsetsToTxn."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffsets:
    """TxnOffsetCommit; `offsets` are the caller's, and are not examined."""

    group: ConsumerGroupMetadata
    offsets: Mapping[Partition, object]


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn."""

    committed: bool


Action = Initialize | AddPartitions | AddOffsets | CommitOffsets | End

API = {
    Initialize: "InitProducerId",
    AddPartitions: "AddPartitionsToTxn",
    AddOffsets: "AddOffsetsToTxn",
    CommitOffsets: "TxnOffsetCommit",
    End: "EndTxn",
}
