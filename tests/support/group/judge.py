"""The judge of simulated groups: pure, results and offsets together.

exactly once    each wanted input has one committed result; no commit covers a partition of another member
at least once   each wanted input has a result; no record goes to the sink after its member learned of the loss
at most once    no input has two results
each            commits never pass the processed records, and never go back; every wanted input has its result in
                time, or a WARNING names the partition of a hung handler; a member that only waits holds up no
                rebalance; no member reads a partition of another member; results of a key keep their order; no
                program ends by an error
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.group.history import GroupHistory, Input, Where

NAMED = 3  # examples of one finding
WARNS_WITHIN_S = 120.0  # after a handler call hangs for as long as its limit


class Finding(NamedTuple):
    """One broken promise."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judge(history: GroupHistory) -> list[Finding]:
    """All broken promises of a history."""
    checks = (_results, _order, _foreign, _commits, _deliveries, _late, _holds, _overlaps, _ended)
    return [finding for check in checks for finding in check(history)]


def _named(inputs: list[Input]) -> str:
    shown = ", ".join(f"#{i.number} ({i.where[0]}-{i.where[1]} at {i.offset}, {i.at_s:.1f} s)" for i in inputs[:NAMED])
    return f"{len(inputs)} inputs, as {shown}"


def _results(history: GroupHistory) -> Iterator[Finding]:
    counts = Counter(result.number for result in history.results)
    by_number = {each.number: each for each in history.inputs}
    unknown = [number for number in counts if number not in by_number]
    if unknown:
        yield Finding("unknown result", f"results of inputs that do not exist: {unknown[:NAMED]}")
    twice = [by_number[number] for number, count in counts.items() if count > 1 and number in by_number]
    if twice and history.guarantee != "at_least_once":
        yield Finding("result twice", _named(twice))
    missing = [each for each in history.inputs if each.wanted == "yes" and not counts[each.number]]
    if missing and history.guarantee != "at_most_once":
        yield Finding("no result", _named(missing))
    unwanted = [each for each in history.inputs if each.wanted == "no" and counts[each.number]]
    if unwanted:
        yield Finding("old record", _named(unwanted))


def _order(history: GroupHistory) -> Iterator[Finding]:
    """The last results of a key's inputs follow the order of the inputs: a replay repeats, and ends as the log ends."""
    if not history.keeps_order:
        return
    last = {result.number: place for place, result in enumerate(history.results)}
    lanes: defaultdict[tuple[Where, int, bytes], list[Input]] = defaultdict(list)
    for each in history.inputs:
        if each.in_order and each.number in last:
            lanes[each.where, each.incarnation, each.key].append(each)
    for (where, _, key), inputs in lanes.items():
        inputs.sort(key=lambda each: each.offset)
        places = [last[each.number] for each in inputs]
        wrong = next((n for n in range(1, len(places)) if places[n] < places[n - 1]), None)
        if wrong is not None:
            before, after = inputs[wrong], inputs[wrong - 1]
            text = f"the result of #{after.number} comes after that of #{before.number}"
            yield Finding("stale result last", f"{where[0]}-{where[1]}, key {key!r}: {text}")


def _foreign(history: GroupHistory) -> Iterator[Finding]:
    for each in history.commits:
        others = each.owners - {each.member}
        if others:
            owners = ", ".join(sorted(others))
            text = f"{each.at_s:.1f} s: {each.member} commits {_at(each.where, each.offset)}, of {owners}"
            yield Finding("commit for another", text)


def _commits(history: GroupHistory) -> Iterator[Finding]:
    done: dict[int, float] = {}
    for settled in history.settled:
        done[settled.number] = min(settled.at_s, done.get(settled.number, settled.at_s))
    logs: defaultdict[tuple[Where, int], list[Input]] = defaultdict(list)
    for one in history.inputs:
        logs[one.where, one.incarnation].append(one)
    reached: dict[tuple[Where, int], int] = {}
    for each in history.commits:
        log = each.where, each.incarnation
        if each.offset < reached.get(log, 0):
            text = f"{each.at_s:.1f} s: {each.member} sets {_at(each.where, each.offset)} back from {reached[log]}"
            yield Finding("commit goes back", text)
        reached[log] = each.offset
        if history.guarantee == "at_most_once":
            continue
        passed = [i for i in logs[log] if i.offset < each.offset and not i.at_s > each.at_s and _owed(i)]
        missing = [i for i in passed if done.get(i.number, float("inf")) > each.at_s]
        if missing:
            text = f"{each.at_s:.1f} s: {each.member} commits {_at(each.where, each.offset)}, past {_named(missing)}"
            yield Finding("commit passes", text)


def _owed(one: Input) -> bool:
    return one.wanted == "yes"


def _at(where: Where, offset: int) -> str:
    return f"{where[0]}-{where[1]} at {offset}"


def _deliveries(history: GroupHistory) -> Iterator[Finding]:
    # A transaction takes them back; at most once no other member processes committed records.
    if history.guarantee != "at_least_once":
        return
    late = [each for each in history.deliveries if not each.owns]
    by_member = Counter(each.member for each in late)
    for member, count in by_member.items():
        first = next(each for each in late if each.member == member)
        text = (
            f"{member} passes on {count} records of partitions it has lost, first #{first.number} at {first.at_s:.1f} s"
        )
        yield Finding("delivered after loss", text)


def _late(history: GroupHistory) -> Iterator[Finding]:
    """Every owned partition goes on, or a WARNING names it."""
    done = _reached(history)
    late: list[tuple[float, Input]] = []
    for each in history.inputs:
        if each.wanted != "yes":
            continue
        end_s = done.get(each.number, history.until_s)
        waited_s = end_s - each.at_s - history.excused_s(each.at_s, end_s)
        if waited_s > each.wait_s:
            late.append((waited_s, each))
    if late:
        waited_s, _ = max(late, key=lambda pair: pair[0])
        yield Finding("too late", f"up to {waited_s:.0f} s without a reason: {_named([each for _, each in late])}")
    for number, since_s in history.hung.items():
        hung = next(each for each in history.inputs if each.number == number)
        name = f"{hung.where[0]}-{hung.where[1]}"
        end_s = since_s + hung.wait_s + WARNS_WITHIN_S
        if end_s < history.until_s and not any(
            name in each.text and since_s <= each.at_s <= end_s for each in history.warnings
        ):
            yield Finding("hung in silence", f"no WARNING names {name}, whose handler hangs since {since_s:.1f} s")


def _reached(history: GroupHistory) -> dict[int, float]:
    """When the group was done with each input: its result was at the sink; at most once: its offset was committed."""
    found = [(each.number, each.at_s) for each in history.settled]
    found += [(each.number, each.at_s) for each in history.results]
    if history.guarantee == "at_most_once":
        for commit in history.commits:
            log = commit.where, commit.incarnation
            found += [
                (each.number, commit.at_s)
                for each in history.inputs
                if (each.where, each.incarnation) == log and each.offset < commit.offset
            ]
    done: dict[int, float] = {}
    for number, at_s in found:
        done[number] = min(at_s, done.get(number, at_s))
    return done


def _holds(history: GroupHistory) -> Iterator[Finding]:
    for each in history.holds:
        if each.seconds > each.limit_s and history.guarantee != "at_most_once":
            text = (
                f"{each.member} only waits, and holds up the group for {each.seconds:.1f} s from {each.at_s:.1f} s on"
            )
            yield Finding("rebalance held up", text)


def _overlaps(history: GroupHistory) -> Iterator[Finding]:
    for each in history.overlaps:
        text = f"{each.member} reads {each.where[0]}-{each.where[1]} of {each.owner} for {each.seconds:.0f} s"
        yield Finding("lasting zombie", f"{text}, until {each.at_s:.1f} s")


def _ended(history: GroupHistory) -> Iterator[Finding]:
    for each in history.ended:
        yield Finding("ended by an error", f"{each.at_s:.1f} s: {each.member} by {each.error}")
