"""The judge of simulated share groups: pure. Acquired records are in sight, and accepted records are done.

every record is handed out in time, whatever a slow broker does
a delivery that a record has spent was handed out, apart from those of members that left or died
a record that is accepted and confirmed is never handed out again
no program ends by an error
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.group.history import Ended, Where
from tests.support.group.judge import Finding

Place = tuple[Where, int]  # a partition and an offset
NAMED = 3


class HandOut(NamedTuple):
    """A member's program got a record."""

    at_s: float
    member: str
    place: Place
    deliveries: int  # with this one, as the broker counts


class Accepted(NamedTuple):
    """A member accepted a record, and the broker confirmed that."""

    at_s: float
    member: str
    place: Place


@dataclass(slots=True)
class ShareHistory:
    """The events of one schedule. `wait_s`: how soon each record is handed out."""

    wait_s: float
    written: dict[Place, float] = field(default_factory=dict)  # records, and when each was written
    handed_out: list[HandOut] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    gone_s: list[float] = field(default_factory=list)  # members: what each had acquired spends a delivery
    ended: list[Ended] = field(default_factory=list)
    until_s: float = 0.0


def judge(history: ShareHistory) -> list[Finding]:
    """All broken promises of a history."""
    return [finding for check in (_unseen, _spent, _again, _ended) for finding in check(history)]


def _text(places: list[Place]) -> str:
    return ", ".join(f"{where[0]}-{where[1]} at {offset}" for (where, offset) in sorted(places)[:NAMED])


def _unseen(history: ShareHistory) -> Iterator[Finding]:
    first: dict[Place, float] = {}
    for each in history.handed_out:
        first.setdefault(each.place, each.at_s)
    unseen = [place for place in history.written if place not in first]
    if unseen:
        yield Finding("never handed out", f"{len(unseen)} records, as {_text(unseen)}")
    late = [place for place, at_s in history.written.items() if first.get(place, at_s) - at_s > history.wait_s]
    if late:
        longest_s = max(first[place] - history.written[place] for place in late)
        yield Finding("handed out late", f"{len(late)} records by up to {longest_s:.0f} s, as {_text(late)}")


def _spent(history: ShareHistory) -> Iterator[Finding]:
    seen: Counter[Place] = Counter()
    unseen = []
    for each in history.handed_out:
        seen[each.place] += 1
        gone = sum(at_s <= each.at_s for at_s in history.gone_s)
        if each.deliveries > seen[each.place] + gone:
            unseen.append(each)
    if unseen:
        first = unseen[0]
        text = (
            f"{first.member} gets {_text([first.place])} by delivery {first.deliveries}, and not all before were seen"
        )
        yield Finding("delivery without a hand-out", f"{len(unseen)} records: {text}")


def _again(history: ShareHistory) -> Iterator[Finding]:
    done: dict[Place, float] = {}
    for each in history.accepted:
        done.setdefault(each.place, each.at_s)
    again = [each for each in history.handed_out if each.at_s > done.get(each.place, float("inf"))]
    if again:
        places = [each.place for each in again]
        yield Finding("handed out after its acceptance", f"{len(again)} times, as {_text(places)}")


def _ended(history: ShareHistory) -> Iterator[Finding]:
    for each in history.ended:
        yield Finding("ended by an error", f"{each.at_s:.1f} s: {each.member} by {each.error}")
