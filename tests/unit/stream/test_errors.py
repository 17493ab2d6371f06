"""Errors of streams, and how they travel."""

from __future__ import annotations

import pickle

from kafwire.stream import HandlerTimeoutError, NotNow, StreamError


def test_errors_that_belong_to_no_record() -> None:
    error = StreamError("no")
    assert (error.topic, error.partition, error.offset) == (None, None, -1)


def test_errors_are_pickled_with_their_place() -> None:
    error = pickle.loads(pickle.dumps(StreamError("no", topic="orders", partition=1, offset=7)))
    assert (str(error), error.topic, error.partition, error.offset) == ("no", "orders", 1, 7)


def test_not_now_says_for_how_long() -> None:
    assert (NotNow().seconds, str(NotNow(2.5))) == (1.0, "not now: retry in 2.5 s")
    assert (NotNow(0).seconds, str(NotNow(0, "busy"))) == (0, "busy")


def test_not_now_comes_out_of_other_processes() -> None:
    error = pickle.loads(pickle.dumps(NotNow(2.5, "busy")))
    assert (type(error), error.seconds, str(error)) == (NotNow, 2.5, "busy")


def test_a_timeout_is_one_of_pythons_too() -> None:
    assert isinstance(HandlerTimeoutError("slow"), TimeoutError)
    assert not HandlerTimeoutError("slow").still_runs
