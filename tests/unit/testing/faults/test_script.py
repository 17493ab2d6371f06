"""Which request meets which fault: aim, counts, times, and choices that follow from the seed alone."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Fault,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
)
from kafwire.testing.faults.script import FaultScript, Occasion

PRODUCE = Occasion(broker=1, connection=1, api="Produce", version=9, correlation_id=5, client_id="me")


def seeded(seed: int) -> Callable[[str], Callable[[], float]]:
    return lambda name: random.Random(f"{seed}/{name}").random


def script(*rules: Rule, seed: int = 7) -> FaultScript:
    made = FaultScript(seeded(seed))
    for rule in rules:
        made.add(rule)
    return made


def met(made: FaultScript, occasion: Occasion, now: float = 0.0) -> Fault | None:
    decision = made.decide(occasion, now)
    return decision.fault if decision is not None else None


@pytest.mark.parametrize(
    ("rule", "hits", "misses"),
    [
        (Rule(Reset()), {"api": "Fetch"}, {"api": CONNECT}),
        (Rule(Reset(), api="Produce"), {}, {"api": "Fetch"}),
        (Rule(Reset(), api=("Fetch", "EndTxn")), {"api": "EndTxn"}, {}),
        (Rule(Reset(), api=CONNECT), {"api": CONNECT}, {}),
        (Rule(Reset(), broker=2), {"broker": 2}, {}),
        (Rule(Reset(), broker=(2, 3)), {"broker": 3}, {}),
        (Rule(Reset(), client_id="me"), {}, {"client_id": None}),
    ],
)
def test_rules_are_aimed(rule: Rule, hits: dict[str, object], misses: dict[str, object]) -> None:
    assert met(script(rule), replace(PRODUCE, **hits)) == Reset()  # type: ignore[arg-type]
    assert met(script(rule), replace(PRODUCE, **misses)) is None  # type: ignore[arg-type]


def test_some_pass_first_and_so_many_are_met() -> None:
    made = script(Rule(Reset(), api="Produce", skip=2, count=3))
    others = [met(made, replace(PRODUCE, api="Fetch")) for _ in range(5)]
    assert others == [None] * 5
    found = [met(made, PRODUCE) is not None for _ in range(8)]
    assert found == [False, False, True, True, True, False, False, False]


def test_a_fault_that_was_not_played_is_not_counted() -> None:
    made = script(Rule(Corrupt(), count=1))
    decision = made.decide(PRODUCE, 0)
    assert decision is not None
    assert met(made, PRODUCE) is None
    made.give_back(decision)
    assert met(made, PRODUCE) is not None
    assert met(made, PRODUCE) is None


def test_the_first_rule_that_wants_it_has_it() -> None:
    made = script(Rule(Reset(), count=1), Rule(Duplicate(), api="Produce"))
    assert [met(made, PRODUCE), met(made, PRODUCE)] == [Reset(), Duplicate()]


def test_rules_have_their_time() -> None:
    made = script(Rule(Reset(), after=1.5, until=3.0))
    assert [met(made, PRODUCE, now) is not None for now in (0, 1.4, 1.5, 2.9, 3.0)] == [False, False, True, True, False]


def test_chance_is_met_as_often_as_it_says() -> None:
    made = script(Rule(Reset(), probability=0.2))
    hits = sum(met(made, PRODUCE) is not None for _ in range(10_000))
    assert 1_800 < hits < 2_200
    assert all(met(script(Rule(Reset(), probability=0.0)), PRODUCE) is None for _ in range(100))


def test_choices_follow_from_the_seed_whatever_comes_between() -> None:
    """The nth request that a rule looks at, at one broker, has one fate."""
    rules = [
        Rule(Delay((0.1, 0.9)), api="Produce", probability=0.3),
        Rule(Cut(), api="Fetch", probability=0.5),
        Rule(Corrupt(), api="Produce", probability=0.5),
    ]

    def play(seed: int, noise: random.Random) -> dict[tuple[str, int], list[Fault | None]]:
        made, found = script(*rules, seed=seed), dict[tuple[str, int], list[Fault | None]]()
        while min((len(fates) for fates in found.values()), default=0) < 50 or len(found) < 4:
            occasion = replace(PRODUCE, api=noise.choice(["Produce", "Fetch"]), broker=noise.choice([1, 2]))
            found.setdefault((occasion.api, occasion.broker), []).append(met(made, occasion))
        return {which: fates[:50] for which, fates in found.items()}

    once = play(1, random.Random(11))
    assert once == play(1, random.Random(12))
    assert once != play(2, random.Random(11))
    assert once["Produce", 1] != once["Produce", 2]
    assert {type(fate) for fate in once["Produce", 1]} == {type(None), Delay, Corrupt}


@pytest.mark.parametrize("draw", [0.0, 0.25, math.nextafter(1, 0)])
def test_nothing_is_left_to_chance(draw: float) -> None:
    def chance() -> float:
        return draw

    delay = Delay((0.2, 0.4)).drawn(chance)
    assert 0.2 <= delay.duration <= 0.4
    assert delay.duration == pytest.approx(0.2 + 0.2 * draw, abs=1e-5)
    assert Hold(0.3).drawn(chance) == Hold(0.3)
    assert Cut(way="request").drawn(chance) == Cut(part=draw, way="request")
    assert Cut(0.5).drawn(chance).part == 0.5
    corrupt = Corrupt().drawn(chance)
    assert corrupt.spot == draw
    assert corrupt.mask == 1 + int(draw * 255)
    assert Corrupt(spot=0.0, mask=4).drawn(chance) == Corrupt(spot=0.0, mask=4)
    for fault in (DropResponse(), Reset(), Duplicate(), Reorder(), BlackHole(), Throttle(10), Refuse()):
        assert fault.drawn(chance) == fault


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rule(Reset(), api="Produces"), "no API is called 'Produces'; 'Produce'?"),
        (lambda: Rule(Reset(), api=("Fetch", "xyz")), "no API is called 'xyz'"),
        (lambda: Rule(Reset(), probability=1.1), "a probability is 0 to 1, not 1.1"),
        (lambda: Rule(Reset(), count=-1), "not negative"),
        (lambda: Rule(Reset(), skip=-1), "not negative"),
        (lambda: Rule(DropResponse(), api=CONNECT), "a connection without a request"),
        (lambda: Rule(Delay(1), api=("Fetch", CONNECT)), "a connection without a request"),
        (lambda: Delay(-0.1), "seconds are not negative"),
        (lambda: Delay((0.5, 0.1)), "the least comes first"),
        (lambda: Hold((-1, 1)), "seconds are not negative"),
        (lambda: Cut(1.0), "part is a part of the whole"),
        (lambda: Corrupt(spot=-0.1), "spot is a part of the whole"),
        (lambda: Corrupt(mask=0), "a mask is 1 to 255"),
        (lambda: Corrupt(mask=256), "a mask is 1 to 255"),
        (lambda: Throttle(0), "bytes_per_second is above 0"),
    ],
)
def test_impossible_rules_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
