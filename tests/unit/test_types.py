"""`types`: the small values that users make and compare."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import kafwire
from kafwire import types

BROKER = kafwire.BrokerMetadata(1, "localhost", 9092, None)
PARTITION = kafwire.PartitionMetadata(0, 1, 5, (1, 2), (1,), (), 0)
TOPIC = kafwire.TopicMetadata("t", uuid.UUID(int=7), False, (PARTITION,), 0)
VALUES: dict[str, Any] = {
    type(value).__name__: value
    for value in (
        kafwire.TopicPartition("t", 0),
        kafwire.RecordMetadata("t", 0, 42, None),
        kafwire.CommittedOffset(3, "text"),
        kafwire.TransactionHandle("id", 1000, 3),
        kafwire.ConsumerGroupMetadata("g", 3, "member"),
        BROKER,
        PARTITION,
        TOPIC,
        kafwire.ClusterMetadata("c", 1, (BROKER,), (TOPIC,)),
        kafwire.Offset(5),
        kafwire.Tail(0),
    )
}


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


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_is_pickled_by_its_public_name(value: Any) -> None:
    data = pickle.dumps(value)
    assert pickle.loads(data) == value
    assert b"kafwire" in data
    assert b"kafwire.types" not in data
    assert repr(type(value)) == f"<class 'kafwire.{type(value).__name__}'>"


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("module", ["kafwire.types", "kafwire.structs"])
def test_a_pickle_that_names_the_module_of_a_value_is_loaded(value: Any, module: str) -> None:
    data = pickle.dumps(value, protocol=2)  # module and name stand there as lines
    old = data.replace(b"ckafwire\n", f"c{module}\n".encode())
    assert old != data
    again = pickle.loads(old)
    assert again == value
    assert type(again) is type(value)


def test_every_value_that_kafwire_exports_is_tried() -> None:
    assert {*VALUES, "DelegationToken"} == set(kafwire.__all__) & set(types.__all__)


def test_a_delegation_token_shows_no_secret_and_is_not_pickled() -> None:
    token = kafwire.DelegationToken("id", kafwire.Secret("canary"), "User:a", "User:a", 0, 1, 2, ())
    assert "canary" not in f"{token} {token!r}"
    assert repr(type(token)) == "<class 'kafwire.DelegationToken'>"
    with pytest.raises(TypeError, match="Secret cannot be pickled"):
        pickle.dumps(token)


@pytest.mark.parametrize("kind", [kafwire.Offset, kafwire.Tail])
@pytest.mark.parametrize("number", [-1, 1 << 63, True, 1.0, "5", None])
def test_a_place_has_a_number_from_0(kind: Any, number: Any) -> None:
    with pytest.raises(kafwire.ConfigError, match=rf"{kind.__name__}\(.*a number from 0 is needed"):
        kind(number)
