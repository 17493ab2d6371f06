"""`structs`: the small values that users make and compare."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import kafwire


@pytest.mark.parametrize("kind", [kafwire.Offset, kafwire.Tail])
def test_a_place_is_a_value(kind: Any) -> None:
    place = kind(5)
    assert place == kind(5) != kind(6)
    assert len({place, kind(5)}) == 1
    assert eval(repr(place), vars(kafwire)) == place
    with pytest.raises(FrozenInstanceError):
        place.__setattr__(*vars_of(place))
    other: Any = kafwire.Tail if kind is kafwire.Offset else kafwire.Offset
    assert place != other(5)


def vars_of(place: Any) -> tuple[str, int]:
    (name,) = place.__slots__
    return name, getattr(place, name)


@pytest.mark.parametrize("place", [kafwire.Offset(5), kafwire.Tail(0)])
def test_a_place_is_pickled_by_its_public_name(place: Any) -> None:
    data = pickle.dumps(place)
    assert pickle.loads(data) == place
    assert b"kafwire" in data
    assert b"kafwire.types" not in data


@pytest.mark.parametrize("kind", [kafwire.Offset, kafwire.Tail])
@pytest.mark.parametrize("number", [-1, 1 << 63, True, 1.0, "5", None])
def test_a_place_has_a_number_from_0(kind: Any, number: Any) -> None:
    with pytest.raises(kafwire.ConfigError, match=rf"{kind.__name__}\(.*a number from 0 is needed"):
        kind(number)
