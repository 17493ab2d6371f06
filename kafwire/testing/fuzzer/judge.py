"""The broken promises of a case: those of the connection, and those of each message."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafwire.testing.fuzzer import case as cases
from kafwire.testing.fuzzer import execute, rules
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.execute import Answer, Transcript
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
    for answer in transcript.answers:
        step = transcript.case.steps[answer.step]
        if closed:
            # The server never reads requests behind one that closed the connection; they are no finds.
            break
        closed = answer.status == execute.CLOSED
        for rule, said in _connection(transcript.case, answer, damaged=bool(step.damage), half_closed=half_closed):
            found.append(Violation(rule, answer.step, said, PROMISES[rule]))
        if answer.response is not None and answer.request is not None and answer.answered_id == answer.asked_id:
            for broken, said in rules.broken(answer.api, answer.request, answer.response, answer.version, world):
                found.append(Violation(broken.name, answer.step, said, broken.promise))
    return found


def _connection(case: Case, answer: Answer, *, damaged: bool, half_closed: bool) -> Iterator[tuple[str, str]]:
    if answer.status == execute.REFUSED:
        yield REFUSED, answer.error
    elif answer.status == execute.SILENT:
        yield HANG, "no response and no close in time"
    elif answer.status == execute.BAD_SIZE:
        yield BAD_SIZE, answer.error
    elif answer.status == execute.CLOSED and not damaged and not half_closed:
        yield CLOSED, f"the connection was closed instead of a response ({case.kind} request)"
    elif answer.status == execute.ANSWERED:
        if answer.extra or "acks=0" in answer.error:
            yield UNASKED, answer.error or "more responses than requests"
        elif answer.asked_id is not None and answer.answered_id != answer.asked_id:
            yield CORRELATION, f"correlation id {answer.answered_id} in the response to {answer.asked_id}"
        elif answer.error:
            yield UNREADABLE, answer.error
