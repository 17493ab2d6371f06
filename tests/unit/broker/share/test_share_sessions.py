"""`broker.share.share_sessions`: the limit of a broker's sessions."""

from __future__ import annotations

import pytest

from kafwire.broker.share.share_sessions import ShareSessions
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

A, B = ("g", "a"), ("g", "b")


def test_a_refused_session_leaves_the_others_open() -> None:
    sessions = ShareSessions(1)
    first = sessions.begin(A, 1, [])
    with pytest.raises(Refusal) as refused:
        sessions.begin(B, 2, [])
    assert refused.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.find(A, 1) is first
    assert sessions.opened_by(2) is None


def test_a_member_replaces_its_session_at_a_full_broker() -> None:
    sessions = ShareSessions(1)
    first = sessions.begin(A, 1, [])
    again = sessions.begin(A, 2, [])
    assert again is not first
    assert sessions.find(A, 1) is again
