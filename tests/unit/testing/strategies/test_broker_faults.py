"""Scripts of faults are such as a broker plays, and leave it as they found it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from kafwire.broker.dispatch import served
from kafwire.broker.faults import Faults
from kafwire.broker.response_levels import depth
from kafwire.broker.state import ClusterState
from kafwire.testing.strategies import BrokerEvent, broker_events, fault_scripts
from kafwire.testing.strategies.broker_faults import KINDS, RETRIABLE

WORLD: dict[str, Any] = {"nodes": 3, "topics": {"flights": 2, "trains": 1}, "groups": ["riders"]}


def cluster() -> tuple[ClusterState, Faults]:
    state = ClusterState((1, 2, 3))
    state.topics.create("flights", 2, 3)
    state.topics.create("trains", 1, 3)
    return state, state.part(Faults)


@given(fault_scripts(**WORLD))
def test_every_script_can_be_played(script: list[BrokerEvent]) -> None:
    state, faults = cluster()
    for event in script:
        event.play(faults)
        assert sum(not node.is_up for node in state.nodes.values()) <= 1
        assert all(state.nodes[p.leader].is_up for topic in state.topics for p in topic.partitions)
    assert all(node.is_up for node in state.nodes.values())


@given(broker_events(apis=list(RETRIABLE), **WORLD))
def test_the_printed_text_is_the_call(event: BrokerEvent) -> None:
    class Target:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments, **options: BrokerEvent(name, arguments, options)

    assert eval(f"kafka.{event!r}", {"kafka": Target()}) == event
    event.play(cluster()[1])


@given(fault_scripts())
def test_one_broker_stays(script: list[BrokerEvent]) -> None:
    assert {event.name for event in script} <= {"fail_next", "hang_up", "drop_response", "delay"}


def test_every_kind_is_drawn() -> None:
    for kind in (*KINDS, "start_node"):
        script = find(
            fault_scripts(**WORLD),
            lambda script, kind=kind: any(event.name == kind for event in script),  # type: ignore[misc]
            settings=settings(max_examples=2000, database=None),
        )
        assert len(script) <= 2
    shortest = find(broker_events(kinds=["fail_next"]), lambda event: True, settings=settings(database=None))
    assert repr(shortest) == "fail_next('Produce', 'NOT_ENOUGH_REPLICAS', times=1)"


@given(st.data())
def test_kinds_and_apis_are_those_asked_for(data: st.DataObject) -> None:
    event = data.draw(broker_events(kinds=["hang_up", "delay"], apis=["Heartbeat"], max_times=1, max_delay=0.01))
    assert event.name in ("hang_up", "delay")
    assert event.arguments[0] == "Heartbeat"
    assert event.options == {"times": 1}
    assert event.name == "hang_up" or event.arguments[1] <= 0.01


def test_mistakes_are_errors() -> None:
    with pytest.raises(ValueError, match="nothing can happen"):
        find(broker_events(kinds=["move_leader"]), lambda event: True)
    with pytest.raises(ValueError, match="client survives for CreateAcls"):
        find(broker_events(kinds=["fail_next"], apis=["CreateAcls"]), lambda event: True)


def test_errors_have_places() -> None:
    by_name = {each.name: each for each in served().values()}
    for api, errors in RETRIABLE.items():
        for error in errors:
            assert any(depth(api, version, error) is not None for version in range(by_name[api].versions[1] + 1))
