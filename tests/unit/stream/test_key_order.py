"""`KeyOrder`: one element of a lane runs at a time, in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.stream.key_order import KeyOrder
from tests.support import seeds


@settings(max_examples=seeds.examples(200), deadline=None)
@given(lanes=st.lists(st.integers(0, 3), max_size=30), data=st.data())
def test_lanes_run_in_parallel_and_in_order(lanes: list[int], data: st.DataObject) -> None:
    order: KeyOrder[tuple[int, int]] = KeyOrder()
    running: dict[int, tuple[int, int]] = {}
    ran: list[tuple[int, int]] = []

    def run(element: tuple[int, int]) -> None:
        assert element[0] not in running
        running[element[0]] = element
        ran.append(element)

    def finish() -> None:
        lane: int = data.draw(st.sampled_from(sorted(running)))
        del running[lane]
        following = order.finish(lane)
        if following is not None:
            run(following)

    for number, lane in enumerate(lanes):
        if order.add(lane, (lane, number)):
            run((lane, number))
        assert set(running) == set(lanes[: number + 1]) - {lane for lane in range(4) if lane not in running}
        for _ in range(data.draw(st.integers(0, len(running)))):
            finish()
    while running:
        finish()
    assert len(order) == 0, "a lane without elements takes memory"
    for lane in range(4):
        numbers = [number for one, number in ran if one == lane]
        assert numbers == [number for number, one in enumerate(lanes) if one == lane]


def test_a_lane_that_is_given_up_is_free() -> None:
    order: KeyOrder[int] = KeyOrder()
    assert order.add("a", 1)
    assert not order.add("a", 2)
    assert not order.add("a", 3)
    assert order.close("a") == [2, 3]
    assert order.add("a", 4)
