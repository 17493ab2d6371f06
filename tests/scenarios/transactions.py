"""Transactions: the permitted requests in each state, the records in the logs, and the responses to readers.

In version 1 partitions are added before they are written to, in version 2 brokers add them (KIP-890) and each end of a
transaction brings a new epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.scenarios.scene import Scene
from tests.scenarios.script import Needs, Restart, scenario
from tests.scenarios.steps import T0, T1, following, open_, write_offsets


@scenario(versions=(1, 2))
def a_transaction_is_committed(s: Scene) -> None:
    s.topic(partitions=2)
    s.transaction("x")
    s.init("a", "x")
    s.transaction("x")
    open_(s, "a", 0, 1)
    open_(s, "a", 0, partition=1)
    s.transaction("x")
    s.producers()
    s.read(committed=True)
    s.read()
    s.ends()
    s.end("a")
    s.transaction("x")
    s.producers()
    s.read(committed=True)
    s.read(partition=1, committed=True)
    s.ends()
    open_(s, "a", following(s, 2))
    s.end("a")
    s.transaction("x")
    s.read(committed=True)


@scenario(versions=(1, 2))
def a_transaction_is_aborted(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a", "x")
    open_(s, "a", 0, 1)
    s.end("a", commit=False)
    s.transaction("x")
    s.read(committed=True)
    s.read(committed=True, offset=2)
    s.read(committed=True, offset=3)
    s.read()
    s.ends()
    open_(s, "a", following(s, 2))
    s.end("a")
    s.read(committed=True)
    s.producers()


@scenario(versions=(1, 2))
def transactions_interleave(s: Scene) -> None:
    s.topic()
    s.init("p")
    for producer, name in (("a", "x"), ("b", "y"), ("c", "z")):
        s.init(producer, name)
    s.produce("p", 0)
    open_(s, "a", 0)
    open_(s, "b", 0)
    s.produce("p", 1)
    open_(s, "c", 0)
    s.ends()
    s.end("b", commit=False)
    s.ends()
    s.read(committed=True)
    s.end("a", commit=False)
    s.ends()
    s.read(committed=True)
    s.produce("p", 2)
    s.end("c")
    open_(s, "b", following(s, 1))
    s.read(committed=True)
    s.read(committed=True, offset=4)
    s.read(committed=True, offset=6)
    s.read(committed=True, offset=8)
    s.end("b")
    s.read(committed=True)
    s.producers()


@scenario(versions=(1, 2))
def a_transaction_is_ended_twice(s: Scene) -> None:
    """The response was lost, and the request comes again."""
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    s.end("a")
    again = -1 if s.transaction_version == 2 else 0
    s.end("a", epoch=again)
    s.end("a", commit=False, epoch=again)
    s.end("a", epoch=again - 1)
    s.transaction("x")
    open_(s, "a", following(s, 1))
    s.end("a", epoch=again - 1)
    s.end("a", epoch=again - 1, commit=False)
    s.end("a", commit=False)
    s.end("a", commit=False, epoch=again)
    s.end("a", epoch=again)
    s.read(committed=True)
    s.transaction("x")


@scenario(versions=(1, 2))
def a_transaction_that_has_nothing_is_ended(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    s.end("a")
    s.transaction("x")
    s.end("a", commit=False)
    s.transaction("x")
    s.end("a", commit=False)
    s.end("a")
    open_(s, "a", 0)
    s.end("a")
    s.end("a", commit=False)
    s.transaction("x")
    s.end("a")
    s.read()


@scenario(versions=(1, 2))
def a_wrong_producer_ends(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    s.end("a", epoch=1)
    s.end("a", epoch=-1)
    s.init("b", "y")
    s.identities["b"].transactional_id = "x"
    s.end("b")
    s.add("b", T0)
    s.identities["b"].transactional_id = "unknown"
    s.end("b")
    s.add("b", T0)
    s.add_offsets("b")
    s.transaction("x")
    s.end("a")
    s.read(committed=True)


@scenario(versions=(1, 2))
def a_producer_that_restarts_fences_the_one_before(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    s.init("b", "x")
    s.settle("x")
    s.transaction("x")
    s.init("b", "x")
    s.transaction("x")
    s.read(committed=True)
    s.produce("a", 1)
    s.add("a", T0)
    s.add_offsets("a")
    s.end("a")
    s.end("a", commit=False)
    open_(s, "b", 0)
    s.produce("a", 1)
    s.end("b")
    s.read(committed=True)
    s.producers()


@scenario(versions=(1, 2))
def a_producer_that_restarts_with_nothing_open(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    s.init("b", "x")
    s.init("c", "x")
    s.end("a", commit=False)
    s.add("b", T0)
    s.produce("c", 0)
    open_(s, "c", 0)
    s.end("c")
    s.init("d", "x")
    s.transaction("x")
    s.add("c", T0)
    s.produce("c", 1)
    open_(s, "d", 0)
    s.end("d", commit=False)
    s.read()


@scenario(versions=(1, 2))
def a_producer_bumps_its_epoch(s: Scene) -> None:
    """KIP-360: InitProducerId with its own id, again as the response was lost, and with an old id."""
    s.topic()
    s.init("a", "x")
    s.init("b", "x", current=("a", 0))
    s.init("c", "x", current=("a", 0))
    s.init("d", "x", current=("b", 1))
    s.init("d", "x", current=("b", 0))
    s.init("e", "x", current=("a", 0))
    s.init("e", "x", current=("b", 0))
    s.transaction("x")
    s.init("o", "y")
    s.identities["o"].transactional_id = "x"
    s.init("f", "x", current=("o", 0))
    open_(s, "d", 0)
    s.end("d")
    s.init("g", "x", current=("d", 0))
    s.init("h", "x", current=("d", 0))
    open_(s, "g", 0)
    s.end("g")
    s.read()


@scenario(versions=(1, 2))
def a_producer_bumps_its_epoch_in_the_name_of_another(s: Scene) -> None:
    s.init("a", "x")
    s.init("o", "y")
    s.identities["o"].transactional_id = "x"
    s.init("b", "x", current=("o", 0))
    s.init("b", "x")
    s.init("c", "x", current=("a", 0))
    s.transaction("x")


@scenario(versions=(1, 2))
def a_producer_bumps_its_epoch_while_a_transaction_is_open(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    s.init("b", "x", current=("a", 0))
    s.settle("x")
    s.transaction("x")
    s.init("b", "x", current=("a", 0))
    s.transaction("x")
    s.end("a", commit=False)
    s.read(committed=True)


@scenario(versions=(1, 2))
def a_fenced_producer_bumps_its_epoch_while_another_has_a_transaction(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    s.init("b", "x")
    open_(s, "b", 0)
    s.init("c", "x", current=("a", 0))
    s.settle("x")
    s.transaction("x")
    s.end("b")
    s.read(committed=True)


@scenario(versions=(1,))
def partitions_that_were_not_added(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a", "x")
    for version in (3, 9, 10, 11):
        s.produce("a", 0, version=version)
    s.add("a", T0)
    s.produce("a", 0, to=T1)
    s.produce("a", 0)
    s.produce("a", 1)
    s.produce("a", 0, to=T1, version=9)
    s.end("a")
    s.produce("a", 2)
    s.add("a", T1)
    s.produce("a", 2)
    s.produce("a", 0, to=T1)
    s.end("a")
    s.read(committed=True)
    s.read(partition=1, committed=True)


@scenario(versions=(2,))
def brokers_add_partitions(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a", "x")
    s.produce("a", 3)
    s.transaction("x")
    s.produce("a", 0)
    s.transaction("x")
    s.produce("a", 0, to=T1)
    s.produce("a", 1, to=T1)
    s.transaction("x")
    s.end("a")
    s.produce("a", 1, epoch=-1)
    s.produce("a", 1)
    s.produce("a", 0, epoch=1)
    s.produce("a", 0)
    s.transaction("x")
    s.end("a")
    s.producers()
    s.read(committed=True)


@scenario(versions=(1, 2))
def adding_partitions(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a", "x")
    s.add("a", T0)
    s.add("a", T0)
    s.add("a", T0, T1)
    s.transaction("x")
    s.add("a", T0, epoch=1)
    s.add("a", T0, epoch=-1)
    s.add("a", ("t", 2))
    s.add("a", T1, ("t", 7), ("unknown", 0))
    s.transaction("x")
    s.end("a")
    s.read(partition=1)
    s.add("a", ("t", 7), T0)
    s.transaction("x")


@scenario(versions=(1, 2))
def a_producer_writes_outside_of_its_transaction(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    s.produce("a", 1, transactional=False)
    s.produce("a", 1)
    s.ends()
    s.end("a", commit=False)
    s.produce("a", following(s, 2), transactional=False)
    s.ends()
    s.read(committed=True)


@scenario(versions=(1, 2))
def duplicates_in_transactions(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0, 1, 2)
    s.produce("a", 1)
    s.produce("a", 4)
    s.end("a")
    first = following(s, 3)
    open_(s, "a", first)
    s.produce("a", first)
    s.produce("a", 2)
    s.produce("a", 0)
    s.end("a", commit=False)
    first = following(s, 4)
    open_(s, "a", first)
    s.end("a")
    s.producers()
    s.read(committed=True)


@scenario(versions=(1, 2), needs={Needs.HELD_MARKERS})
def while_the_markers_are_on_their_way(s: Scene) -> None:
    """Decided, and not yet written to where the transaction was."""
    s.topic()
    s.init("a", "x")
    for commit in (True, False):
        open_(s, "a", 0 if commit else following(s, 1))
        write_offsets(s, "a", 5 if commit else 6)
        with s.kafka.hold_markers():
            s.end("a", commit=commit, settle=False)
            again = -1 if s.transaction_version == 2 else 0
            s.transaction("x")
            s.end("a", commit=commit, epoch=again, settle=False)
            s.end("a", commit=not commit, epoch=again, settle=False)
            s.end("a", commit=commit, epoch=again - 1, settle=False)
            s.end("a", commit=commit, epoch=again + 1, settle=False)
            s.add("a", T0)
            s.add("a", T0, epoch=-1)
            s.add_offsets("a")
            s.init("b", "x")
            s.init("b", "x", current=("a", 0))
            s.init("b", "x", current=("a", 7))
            s.transaction("x")
        s.settle("x")
        s.transaction("x")
    s.init("b", "x")
    s.read(committed=True)
    s.committed(stable=True)


@scenario(versions=(1, 2), needs={Needs.HELD_MARKERS})
def while_a_fenced_transaction_is_aborted(s: Scene) -> None:
    s.topic()
    s.init("a", "x")
    open_(s, "a", 0)
    with s.kafka.hold_markers():
        s.init("b", "x")
        s.transaction("x")
        s.init("b", "x")
        s.end("a", commit=False, settle=False)
        s.end("a", settle=False)
        s.end("a", commit=False, epoch=1, settle=False)
        s.end("a", epoch=1, settle=False)
        s.add("a", T0)
        s.add("a", T0, epoch=1)
        s.init("b", "x", current=("a", 0))
    s.settle("x")
    s.init("b", "x")
    s.transaction("x")
    s.read(committed=True)


@scenario(versions=(1, 2), needs={Needs.SOON_TIMED_OUT})
def a_transaction_takes_too_long(s: Scene) -> None:
    s.topic()
    s.init("a", "x", timeout_ms=100)
    open_(s, "a", 0)
    write_offsets(s, "a", 5)
    s.settle("x", until=lambda state: state == "CompleteAbort")
    s.transaction("x")
    s.read(committed=True)
    s.committed(stable=True)
    s.producers()
    s.produce("a", 1)
    s.add("a", T0)
    s.end("a")
    s.end("a", commit=False)
    s.init("b", "x", current=("a", 0))
    s.transaction("x")
    s.init("c", "x")
    open_(s, "c", 0)
    s.end("c", commit=False)
    s.read(committed=True)


@scenario(versions=(1, 2), needs={Needs.SOON_TIMED_OUT})
def a_producer_recovers_from_a_timeout(s: Scene) -> None:
    """KIP-588 and KIP-360: a producer that only the time-out aborted goes on with a fresh epoch."""
    s.topic()
    s.init("a", "x", timeout_ms=100)
    open_(s, "a", 0)
    s.settle("x", until=lambda state: state == "CompleteAbort")
    s.init("b", "x", current=("a", 0))
    s.init("c", "x", current=("a", 0))
    s.init("c", "x", current=("a", 1))
    s.transaction("x")


@scenario(versions=(1, 2))
def wrong_timeouts_and_ids(s: Scene) -> None:
    s.init("a", "x", timeout_ms=0)
    s.init("a", "x", timeout_ms=-1)
    s.init("a", "x", timeout_ms=900_000)
    s.init("a", "x", timeout_ms=900_001)
    s.init("b", timeout_ms=-1)
    s.transaction("x")


def _broken_off(s: Scene) -> Iterator[None]:
    """One transaction after another that ended, and one beside it; both go on where the scene yields."""
    s.topic()
    s.init("a", "x")
    s.init("b", "y")
    open_(s, "a", 0, 1)
    s.end("a", commit=False)
    first = following(s, 2)
    open_(s, "a", first, first + 1)
    open_(s, "b", 0)
    yield
    s.ends()
    s.producers()
    s.read(committed=True)
    s.produce("a", first)
    s.produce("a", first + 1)
    s.produce("a", first + 2)
    s.end("a")
    s.ends()
    s.end("b", commit=False)
    s.read(committed=True)
    s.producers()


@scenario(versions=(1, 2), restart=Restart.CLEAN)
def a_restart_in_the_middle_of_a_transaction(s: Scene) -> Iterator[None]:
    return _broken_off(s)


@scenario(versions=(1, 2), restart=Restart.CRASH)
def a_crash_in_the_middle_of_a_transaction(s: Scene) -> Iterator[None]:
    return _broken_off(s)
