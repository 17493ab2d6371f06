"""Refusals: credentials become invalid once, and the next are asked for with a pause that doubles, by broker."""

from __future__ import annotations

import pytest

from kafwire.errors import AuthenticationError
from kafwire.security.refusals import BACKOFF_S, MAX_BACKOFF_S, Refusals


def test_the_first_refusal_has_no_pause_and_later_ones_double_it() -> None:
    refusals, now, pauses = Refusals(), 1000.0, []
    for _ in range(8):
        assert refusals.add("a", refusals.epoch, now, "refused")
        began = now
        while True:
            try:
                refusals.check("a", now)
            except AuthenticationError as error:
                assert str(error).startswith("refused; this client fetches new credentials in ")
                now += BACKOFF_S
            else:
                break
        pauses.append(now - began)
    assert pauses == [0, 0.5, 1, 2, 4, 8, MAX_BACKOFF_S, MAX_BACKOFF_S]


def test_brokers_have_pauses_of_their_own() -> None:
    refusals = Refusals()
    for _ in range(2):
        refusals.add("a", refusals.epoch, 1000.0, "refused")
    refusals.check("b", 1000.0)
    with pytest.raises(AuthenticationError):
        refusals.check("a", 1000.0)
    refusals.clear("a")
    refusals.check("a", 1000.0)


def test_a_late_refusal_of_the_same_credentials_counts_once() -> None:
    refusals = Refusals()
    assert refusals.add("a", 0, 1000.0, "refused")
    assert not refusals.add("a", 0, 1000.0, "refused")
    assert refusals.epoch == 1
    refusals.check("a", 1000.0)
