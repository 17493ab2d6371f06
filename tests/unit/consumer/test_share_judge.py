"""The judge of simulated share groups, on made histories: a correct one passes, and each mistake is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.group.history import Ended, Where
from tests.support.share.judge import Accepted, HandOut, ShareHistory, judge

WHERE: Where = ("in", 0)
RECORDS = 6


def made() -> ShareHistory:
    """A correct history: a lock ran out once, after its record was handed out."""
    history = ShareHistory(wait_s=60.0, until_s=200.0)
    for offset in range(RECORDS):
        place, at_s = (WHERE, offset), 10.0 + offset
        history.written[place] = at_s
        history.handed_out.append(HandOut(at_s + 1.0, "m0", place, 1))
        history.accepted.append(Accepted(at_s + 2.0, "m0", place))
    del history.accepted[2]
    history.handed_out.append(HandOut(40.0, "m1", (WHERE, 2), 2))
    history.accepted.append(Accepted(41.0, "m1", (WHERE, 2)))
    return history


def test_a_correct_history_has_no_findings() -> None:
    assert judge(made()) == []


def never_hand_out(history: ShareHistory) -> None:
    history.written[WHERE, RECORDS] = 10.0


def hand_out_late(history: ShareHistory) -> None:
    history.written[WHERE, RECORDS] = 10.0
    history.handed_out.append(HandOut(100.0, "m0", (WHERE, RECORDS), 1))


def spend_a_delivery_unseen(history: ShareHistory) -> None:
    history.handed_out[3] = history.handed_out[3]._replace(deliveries=2)


def hand_out_what_was_accepted(history: ShareHistory) -> None:
    history.handed_out.append(HandOut(50.0, "m1", (WHERE, 0), 2))


def end_by_an_error(history: ShareHistory) -> None:
    history.ended.append(Ended(20.0, "m0", "KafkaError: no"))


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        (never_hand_out, "never handed out"),
        (hand_out_late, "handed out late"),
        (spend_a_delivery_unseen, "delivery without a hand-out"),
        (hand_out_what_was_accepted, "handed out after its acceptance"),
        (end_by_an_error, "ended by an error"),
    ],
)
def test_a_planted_mistake_is_found(mistake: Callable[[ShareHistory], None], kind: str) -> None:
    history = made()
    mistake(history)
    assert {finding.kind for finding in judge(history)} == {kind}


def test_a_member_that_is_gone_may_have_spent_a_delivery() -> None:
    history = made()
    history.gone_s.append(5.0)
    spend_a_delivery_unseen(history)
    assert judge(history) == []
