"""Steps that scenarios about transactions have in common."""

from __future__ import annotations

from tests.scenarios.scene import Scene

T0, T1 = ("t", 0), ("t", 1)


def open_(s: Scene, who: str, *sequences: int, partition: int = 0, count: int = 1) -> None:
    """`who` writes to `t`, after the request that its version needs before."""
    if s.transaction_version == 1:
        s.add(who, ("t", partition))
    for sequence in sequences:
        s.produce(who, sequence, count, to=("t", partition))


def write_offsets(s: Scene, who: str, offset: int, group: str = "g") -> None:
    """`who` commits an offset as part of its transaction, after the request that its version needs before."""
    if s.transaction_version == 1:
        s.add_offsets(who, group)
    s.txn_commit(who, {T0: offset}, group)


def following(s: Scene, sequence: int) -> int:
    """The sequence of a new transaction's first batch: version 2 restarts at 0 in a new epoch."""
    return 0 if s.transaction_version == 2 else sequence
