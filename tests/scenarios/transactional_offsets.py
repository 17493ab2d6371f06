"""Offsets that are committed as part of transactions."""

from __future__ import annotations

from tests.scenarios.scene import Scene
from tests.scenarios.script import scenario
from tests.scenarios.steps import T0, T1, following, open_, write_offsets


@scenario(versions=(1, 2))
def offsets_are_part_of_a_transaction(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a", "x")
    s.commit({T0: 3})
    write_offsets(s, "a", 5)
    s.transaction("x")
    s.committed()
    s.committed(stable=True)
    s.committed(stable=True, places=[T1])
    s.committed(stable=True, places=None)
    s.commit({T0: 4})
    s.committed()
    s.committed(stable=True)
    s.end("a")
    s.committed()
    s.committed(stable=True)
    write_offsets(s, "a", 6)
    s.txn_commit("a", {T0: 7, T1: 8})
    s.committed(stable=True, places=[T0, T1])
    s.end("a", commit=False)
    s.committed(stable=True, places=[T0, T1])
    write_offsets(s, "a", 9)
    s.txn_commit("a", {T0: 8})
    s.end("a")
    s.committed()


@scenario(versions=(1, 2))
def a_commit_beside_a_transaction(s: Scene) -> None:
    """Offsets committed while a transaction is open come before or after the offsets of the transaction."""
    s.topic()
    s.init("a", "x")
    write_offsets(s, "a", 5)
    s.commit({T0: 8})
    s.end("a", commit=False)
    s.committed(stable=True)
    write_offsets(s, "a", 6)
    s.commit({T0: 9})
    s.committed()
    s.end("a")
    s.committed(stable=True)


@scenario(versions=(1, 2))
def two_transactions_of_a_group(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a", "x")
    s.init("b", "y")
    write_offsets(s, "a", 1)
    if s.transaction_version == 1:
        s.add_offsets("b")
    s.txn_commit("b", {T1: 2})
    s.end("a")
    s.committed(places=[T0, T1])
    s.committed(places=[T0, T1], stable=True)
    s.end("b")
    s.committed(places=[T0, T1], stable=True)


@scenario(versions=(1, 2))
def two_transactions_of_a_partition(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    s.init("b", "y")
    write_offsets(s, "a", 1)
    write_offsets(s, "b", 2)
    s.end("b")
    s.committed()
    s.committed(stable=True)
    s.end("a", commit=False)
    s.committed(stable=True)


@scenario(versions=(1,))
def offsets_of_a_group_that_was_not_added(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    s.txn_commit("a", {T0: 1})
    s.txn_commit("a", {T0: 1}, version=3)
    s.add_offsets("a", "h")
    s.txn_commit("a", {T0: 1})
    s.txn_commit("a", {T0: 2}, "h")
    s.end("a")
    s.committed("g", "h")


@scenario(versions=(1, 2))
def offsets_of_wrong_producers_and_members(s: Scene) -> None:
    s.topic()
    s.init("o", "x")
    s.init("a", "x")
    write_offsets(s, "a", 1)
    if s.kafka.version >= "4":  # 3.9 takes it, and never gets rid of the transaction: its markers' epoch is lower
        s.txn_commit("a", {T0: 2}, epoch=1)
    s.txn_commit("a", {T0: 2}, epoch=-1)
    s.txn_commit("a", {("t", 7): 2, ("unknown", 0): 3})
    s.txn_commit("a", {T0: 4}, generation=3)
    s.txn_commit("a", {T0: 4}, generation=3, member="stranger")
    s.join("M1")
    s.txn_commit("a", {T0: 5})
    s.txn_commit("a", {T0: 6}, generation=1, member="M1")
    s.txn_commit("a", {T0: 7}, generation=2, member="M1")
    s.txn_commit("a", {T0: 7}, generation=1, member="stranger")
    s.txn_commit("a", {T0: 7}, member="M1")
    s.end("a")
    s.committed()
    s.leave("M1")


@scenario(versions=(1, 2))
def offsets_of_a_member_of_an_absent_group(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    if s.transaction_version == 1:
        s.add_offsets("a")
    s.txn_commit("a", {T0: 1}, generation=3, member="stranger")
    s.txn_commit("a", {T0: 1}, generation=-1, member="stranger")
    s.end("a", commit=False)
    s.committed()


@scenario(versions=(1, 2))
def offsets_of_a_fenced_producer(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    write_offsets(s, "a", 1)
    s.init("b", "x")
    s.settle("x")
    s.committed(stable=True)
    s.init("b", "x")
    s.add_offsets("a")
    s.txn_commit("a", {T0: 2})
    write_offsets(s, "b", 3)
    s.end("b")
    s.committed(stable=True)


@scenario(versions=(1, 2))
def offsets_and_records_together(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    write_offsets(s, "a", 7)
    s.transaction("x")
    s.end("a")
    s.read(committed=True)
    s.committed(stable=True)
    open_(s, "a", following(s, 1))
    write_offsets(s, "a", 8)
    s.end("a", commit=False)
    s.read(committed=True)
    s.committed(stable=True)
