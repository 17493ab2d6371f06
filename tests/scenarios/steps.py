"""Steps that scenarios about transactions have in common."""

from __future__ import annotations

from tests.scenarios.scene import Scene

T0, T1 = ("t", 0), ("t", 1)


def open_(s: Scene, producer: str, *sequences: int, partition: int = 0, count: int = 1) -> None:
    """Write to `t` as a producer. With version 1 of transactions, AddPartitionsToTxn comes first."""
    if s.transaction_version == 1:
        s.add(producer, ("t", partition))
    for sequence in sequences:
        s.produce(producer, sequence, count, to=("t", partition))


def write_offsets(s: Scene, producer: str, offset: int, group: str = "g") -> None:
    """Commit an offset in a producer's transaction. With version 1 of transactions, AddOffsetsToTxn comes first."""
    if s.transaction_version == 1:
        s.add_offsets(producer, group)
    s.txn_commit(producer, {T0: offset}, group)


def following(s: Scene, sequence: int) -> int:
    """The sequence of a new transaction's first batch: version 2 restarts at 0 in a new epoch."""
    return 0 if s.transaction_version == 2 else sequence
