"""`integers`, and the public calls that take whole numbers: numpy's integers are ints there."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any, cast

import numpy as np
import pytest

from kafwire.cluster.list_offsets import EARLIEST, LATEST, Time, number_of
from kafwire.cluster.offset_spec import partition_of, place_of, resolve_offset, resolve_offset_in, window_of
from kafwire.errors import ConfigError
from kafwire.integers import HIGHEST, integer, natural
from kafwire.scanner.ranges import Bounds
from kafwire.timeouts import milliseconds
from kafwire.types import Offset, Tail, TopicPartition

INTEGERS = [5, np.int64(5), np.int32(5), np.uint8(5)]
OTHERS = [True, np.bool_(True), 5.0, np.float64(5.0), "5", None, float("nan")]
U = dt.UTC


@pytest.mark.parametrize("value", INTEGERS, ids=lambda value: type(value).__name__)
def test_numpy_integers_become_ints(value: Any) -> None:
    found = [
        integer(value),
        natural(value),
        Offset(value).offset,
        Tail(value).count,
        partition_of(TopicPartition("t", value)).partition,
        place_of(value).ms,  # type: ignore[union-attr]
        resolve_offset_in(("t", 0), value, "start").offset,  # type: ignore[union-attr]
        milliseconds(value) // 1000,
        *(Bounds(["t"], [value], "earliest", "latest").partitions or ()),
    ]
    assert found == [5] * len(found)
    assert all(type(each) is int for each in found)
    assert pickle.loads(pickle.dumps(Offset(value))) == Offset(5)


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_a_value_that_is_no_integer_is_refused(value: Any) -> None:
    assert integer(value) is None
    assert natural(value) is None
    calls = (
        Offset,
        Tail,
        place_of,
        lambda it: partition_of(("t", it)),
        lambda it: Bounds(["t"], [it], "earliest", "latest"),
    )
    for call in calls:
        with pytest.raises(ConfigError):
            call(value)


def test_naturals_end_where_an_int64_does() -> None:
    assert natural(HIGHEST) == HIGHEST
    for value in (-1, HIGHEST + 1, np.int64(-1)):
        assert natural(value) is None
        with pytest.raises(ConfigError):
            place_of(cast("int", value))


@pytest.mark.parametrize("before_ms", [1, 2, 3, 4, 5, 86_400_000 * 365 * 10])
def test_a_datetime_before_1970_is_no_end_of_the_log(before_ms: int) -> None:
    when = dt.datetime(1970, 1, 1, tzinfo=U) - dt.timedelta(milliseconds=before_ms)
    assert place_of(when) == Time(0)
    assert resolve_offset(when, "start") == Time(0)
    assert window_of((when, None)) == (0, HIGHEST)
    assert window_of((None, when)) is not None
    assert place_of(dt.datetime.min.replace(tzinfo=U)) == Time(0)


def test_a_window_of_names_is_refused() -> None:
    for name in ("earliest", np.str_("latest")):
        with pytest.raises(ConfigError, match="a pair"):
            window_of((name, None))  # type: ignore[arg-type]


def test_no_time_is_an_end_of_the_log() -> None:
    """The numbers of the ends are those of ListOffsets alone: nothing inside compares a time with them."""
    assert {place_of("earliest"), place_of("latest")} == {EARLIEST, LATEST}
    assert [number_of(place) for place in (EARLIEST, LATEST, Time(0), Time(5))] == [-2, -1, 0, 5]
    for value in (-1, -2):
        with pytest.raises(ValueError, match="before 1970"):
            Time(value)
        with pytest.raises(ConfigError):
            place_of(value)
    assert len({EARLIEST, LATEST, Time(0)}) == 3
