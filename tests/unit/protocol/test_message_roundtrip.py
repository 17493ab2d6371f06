"""Every declared message in every version: bytes and back, and bytes that are cut or damaged."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Message
from tests.support import reference_messages as reference
from tests.support import seeds

PAIRS = [(cls, version) for cls in MESSAGES.values() for version in range(cls.oldest_version, cls.max_version + 1)]
VERSIONS = [pytest.param(cls, version, id=f"{cls.__name__}-v{version}") for cls, version in PAIRS]
# Damage is tried with each message's oldest version, its first flexible one and its newest; with all in a long run.
DAMAGED = [
    pytest.param(
        *(cls, version),
        id=f"{cls.__name__}-v{version}",
        marks=[] if version in {cls.oldest_version, cls.flexible_from, cls.max_version} else [pytest.mark.long],
    )
    for cls, version in PAIRS
]


def assert_survives(message: Message, version: int) -> None:
    """A decoded message is the same after encoding and decoding; one with a float that is no number equals nothing."""
    encoded = message.encode(version)
    again = type(message).decode(encoded, version)
    assert again.encode(version) == encoded
    assert again == message or "=nan" in repr(message)


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
@given(st.data())
@settings(max_examples=seeds.examples(4))
def test_round_trip(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(reference.messages(cls, version))
    encoded = message.encode(version)
    assert encoded == reference.encode(message, version, version >= cls.flexible_from)
    decoded = cls.decode(encoded, version)
    assert decoded == message
    assert decoded.encode(version) == encoded
    assert cls.decode(bytearray(encoded), version) == message
    assert cls.from_dict(message.to_dict()) == message
    # Fields that a version lacks have their defaults after decoding, so the defaults are part of the comparison above.


@pytest.mark.parametrize(("cls", "version"), DAMAGED)
@given(st.data())
@settings(max_examples=seeds.examples(1))
def test_cut_anywhere(cls: type[Message], version: int, data: st.DataObject) -> None:
    encoded = data.draw(reference.messages(cls, version)).encode(version)
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError) as caught:
            cls.decode(encoded[:size], version)
        error = caught.value
        assert (error.api, error.version) == (cls.__name__, version)
        assert error.offset is not None
        assert 0 <= error.offset <= size
    with pytest.raises(ProtocolError, match="1 bytes are left over"):
        cls.decode(encoded + b"\0", version)


@pytest.mark.parametrize(("cls", "version"), DAMAGED)
@given(st.data(), st.integers(0, 2**32 - 1))
@settings(max_examples=seeds.examples(2))
def test_damaged_anywhere(cls: type[Message], version: int, data: st.DataObject, seed: int) -> None:
    encoded = bytearray(data.draw(reference.messages(cls, version)).encode(version))
    chance = random.Random(seed)
    for _ in range(20):
        damaged = bytearray(encoded)
        for _ in range(chance.randint(1, 3)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        try:
            message = cls.decode(bytes(damaged), version)
        except ProtocolError:
            continue
        assert_survives(message, version)


@given(st.sampled_from(PAIRS), st.binary(max_size=64))
@settings(max_examples=seeds.examples(200))
def test_noise(pair: tuple[type[Message], int], data: bytes) -> None:
    cls, version = pair
    try:
        message = cls.decode(data, version)
    except ProtocolError:
        return
    assert_survives(message, version)
