"""Committed offsets: what a group's coordinator keeps, and the clients that may change it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scenarios.scene import Scene
from tests.scenarios.script import Restart, scenario

T0, T1 = ("t", 0), ("t", 1)


@scenario()
def what_is_committed_is_kept(s: Scene) -> None:
    s.topic(partitions=2)
    s.committed(places=[T0, T1])
    s.commit({T0: 5})
    s.committed(places=[T0, T1])
    s.commit({T0: 3, T1: 0})
    s.committed(places=[T0, T1])
    s.committed(places=None)


@scenario()
def every_version_of_the_protocol(s: Scene) -> None:
    s.topic()
    latest = 10 if s.kafka.version >= "4.1" else 9
    for version in range(2, latest + 1):
        s.commit({T0: version}, leader_epoch=0, metadata=f"version {version}", version=version)
        s.committed(version=version)
        s.committed(places=None, version=version)


@scenario()
def metadata_and_leader_epochs(s: Scene) -> None:
    s.topic()
    s.commit({T0: 1}, metadata="note", leader_epoch=0)
    s.committed()
    s.commit({T0: 2}, metadata=None, leader_epoch=7)
    s.committed()
    s.commit({T0: 3}, metadata="x" * 4096)
    s.commit({T0: 4}, metadata="x" * 4097)
    s.commit({T0: -1}, metadata="minus")
    s.committed()


@scenario()
def groups_and_places_that_do_not_exist(s: Scene) -> None:
    s.topic()
    s.committed("nobody")
    s.committed("nobody", places=None)
    s.committed("nobody", stable=True)
    s.commit({("t", 7): 1, T0: 2, ("unknown", 0): 3})
    s.committed(places=[("t", 7), T0, ("unknown", 0)])
    s.committed(places=None)
    s.committed("g", places=[])


@scenario()
def places_that_do_not_exist_by_their_id(s: Scene) -> None:
    if s.kafka.version < "4.1":
        return
    s.topic()
    s.commit({("t", 7): 1, T0: 2, ("unknown", 0): 3}, version=10)
    s.committed(places=[("t", 7), T0, ("unknown", 0)], version=10)
    s.committed(places=None, version=10)


@scenario()
def several_groups_at_once(s: Scene) -> None:
    s.topic(partitions=2)
    s.commit({T0: 1}, "g")
    s.commit({T0: 2, T1: 3}, "h")
    s.committed("h", "nobody", "g")
    s.committed("h", "nobody", "g", places=None)
    s.committed("h", "g", "h")


@scenario()
def commits_of_those_who_are_no_members(s: Scene) -> None:
    s.topic()
    s.commit({T0: 1}, generation=0)
    s.commit({T0: 1}, generation=0, member="stranger")
    s.commit({T0: 1}, member="stranger")
    s.commit({T0: 2})
    s.commit({T0: 3}, generation=0)
    s.commit({T0: 4}, generation=5, member="stranger")
    s.commit({T0: 5}, member="stranger")
    s.committed()


@scenario()
def commits_of_members(s: Scene) -> None:
    s.topic()
    s.commit({T0: 1})
    s.join("M1")
    s.commit({T0: 2})
    s.commit({T0: 3}, generation=1)
    s.commit({T0: 4}, generation=1, member="stranger")
    s.commit({T0: 5}, generation=0, member="M1")
    s.commit({T0: 6}, generation=2, member="M1")
    s.commit({T0: 7}, member="M1")
    s.committed()
    s.commit({T0: 8}, generation=1, member="M1")
    s.committed()
    s.join("M1")
    s.commit({T0: 9}, generation=2, member="M1")
    s.leave("M1")
    s.commit({T0: 10}, generation=2, member="M1")
    s.commit({T0: 11}, generation=3)
    s.commit({T0: 12})
    s.committed()


@scenario()
def offsets_are_deleted(s: Scene) -> None:
    s.topic(partitions=2)
    s.delete_offsets(T0)
    s.commit({T0: 1, T1: 2})
    s.delete_offsets(T0)
    s.committed(places=[T0, T1])
    s.delete_offsets(T0, ("t", 7), ("unknown", 0))
    s.committed(places=None)
    s.delete_offsets(T1)
    s.committed(places=None)
    s.commit({T1: 3})
    s.committed(places=None)


@scenario()
def offsets_of_a_group_with_members_are_deleted(s: Scene) -> None:
    s.topic()
    s.commit({T0: 1})
    s.join("M1")
    s.delete_offsets(T0)
    s.committed()
    s.leave("M1")
    s.commit({T0: 2})
    s.delete_offsets(T0)
    s.committed()


@scenario(versions=(1, 2))
def offsets_are_deleted_beside_a_transaction(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    s.commit({T0: 1})
    if s.transaction_version == 1:
        s.add_offsets("a")
    s.txn_commit("a", {T0: 5})
    s.delete_offsets(T0)
    s.committed()
    s.committed(stable=True)
    s.end("a")
    s.committed(stable=True)


@scenario(restart=Restart.CLEAN)
def a_restart_keeps_offsets(s: Scene) -> Iterator[None]:
    s.topic(partitions=2)
    s.commit({T0: 5, T1: 6}, metadata="kept", leader_epoch=0)
    s.delete_offsets(T1)
    yield
    s.committed(places=[T0, T1])
    s.commit({T1: 7})
    s.committed(places=None)
