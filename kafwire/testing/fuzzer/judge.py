"""The broken promises of a case: those of the connection, and those of each message."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafwire.testing.fuzzer import case as cases
from kafwire.testing.fuzzer import execute, rules
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.execute import Exchange, Transcript
from kafwire.testing.fuzzer.world import World

CLOSED, HANG, CORRELATION, UNREADABLE, UNASKED, BAD_SIZE, REFUSED = (
    "closed", "hang", "correlation", "unreadable", "unasked-answer", "bad-size", "refused",
)  # fmt: skip

PROMISES = {
    CLOSED: "protocol guide: every request results in a response; the server advertises the version",
    HANG: "a server responds, or closes the connection",
    CORRELATION: "protocol guide: responses come in the order of the requests, each with its correlation id",
    UNREADABLE: "a response is in the version of its request, to the last byte",
    UNASKED: "protocol guide: one response to a request; none to a produce request that wants no acknowledgement",
    BAD_SIZE: "protocol guide: a response begins with its size",
    REFUSED: "a server goes on taking connections",
}


@dataclass(frozen=True)
class Violation:
    """A broken promise: the rule's name, the step whose response broke it, and the observation."""

    rule: str
    step: int
    detail: str
    promise: str

    @property
    def shape(self) -> str:
        """The sentence without the values of this one run."""
        text = re.sub(r"\(UUID\(.*?\)|'[^']*'|\"[^\"]*\"|\[.*\]", "*", self.detail)
        return re.sub(r"-?\d+", "#", text)


def judge(transcript: Transcript, world: World) -> list[Violation]:
    """Return all broken promises of a case."""
    found: list[Violation] = []
    closed = False
    half_closed = transcript.case.delivery == cases.HALF_CLOSED
    for exchange in transcript.exchanges:
        step = transcript.case.steps[exchange.step]
        if closed:
            # The server never reads requests behind one that closed the connection; they are no finds.
            break
        closed = exchange.status == execute.CLOSED
        for rule, said in _connection(transcript.case, exchange, damaged=bool(step.damage), half_closed=half_closed):
            found.append(Violation(rule, exchange.step, said, PROMISES[rule]))
        if exchange.response is not None and exchange.request is not None and exchange.response_id == exchange.asked_id:
            for broken, said in rules.broken(
                exchange.api, exchange.request, exchange.response, exchange.version, world
            ):
                found.append(Violation(broken.name, exchange.step, said, broken.promise))
    return found


def _connection(case: Case, exchange: Exchange, *, damaged: bool, half_closed: bool) -> Iterator[tuple[str, str]]:
    if exchange.status == execute.REFUSED:
        yield REFUSED, exchange.error
    elif exchange.status == execute.SILENT:
        yield HANG, "no response and no close in time"
    elif exchange.status == execute.BAD_SIZE:
        yield BAD_SIZE, exchange.error
    elif exchange.status == execute.CLOSED and not damaged and not half_closed:
        yield CLOSED, f"the connection was closed instead of a response ({case.kind} request)"
    elif exchange.status == execute.RESPONDED:
        if exchange.extra or "acks=0" in exchange.error:
            yield UNASKED, exchange.error or "more responses than requests"
        elif exchange.asked_id is not None and exchange.response_id != exchange.asked_id:
            yield CORRELATION, f"correlation id {exchange.response_id} in the response to {exchange.asked_id}"
        elif exchange.error:
            yield UNREADABLE, exchange.error
