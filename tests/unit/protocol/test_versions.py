"""`protocol.versions`: the highest version that both sides have, or an error that says what each has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Request
from kafwire.protocol.versions import choose

FETCH = 1
bounds = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (min(pair), max(pair)))


@given(bounds, bounds, st.none() | st.integers(0, 20))
def test_the_highest_shared_version_is_chosen(
    ours: tuple[int, int], theirs: tuple[int, int], at_most: int | None
) -> None:
    shared = {
        v
        for v in range(ours[0], ours[1] + 1)
        if theirs[0] <= v <= theirs[1] and v <= (20 if at_most is None else at_most)
    }
    if shared:
        assert choose("FetchRequest", ours, FETCH, {FETCH: theirs}, at_most=at_most) == max(shared)
    else:
        with pytest.raises(ProtocolError):
            choose("FetchRequest", ours, FETCH, {FETCH: theirs}, at_most=at_most)


def test_an_old_broker_differs_from_a_strange_one() -> None:
    with pytest.raises(ProtocolError, match="kafwire has 4 to 18, the broker 0 to 3; Kafka 3.0 or newer") as caught:
        choose("FetchRequest", (4, 18), FETCH, {FETCH: (0, 3)})
    assert caught.value.api == "FetchRequest"
    with pytest.raises(ProtocolError, match=r"does not offer FetchRequest \(api key 1\)"):
        choose("FetchRequest", (4, 18), FETCH, {3: (0, 3)})


def test_a_message_without_a_valid_version_is_not_negotiated() -> None:
    request = MESSAGES["StopReplicaRequest"]
    assert issubclass(request, Request)
    with pytest.raises(ProtocolError, match="Kafka 4 removed every version of StopReplicaRequest: name the version"):
        choose("StopReplicaRequest", (request.LEAST, request.max_stable_version), 5, {5: (0, 4)})


def test_no_removed_version_is_negotiated() -> None:
    """Against brokers that offer only removed versions, and brokers that offer every version."""
    gone = 0
    for cls in MESSAGES.values():
        if not issubclass(cls, Request):
            continue
        ours = (cls.LEAST, cls.max_stable_version)
        assert cls.min_version <= cls.LEAST
        if cls.min_version <= cls.max_stable_version:
            assert choose(cls.name, ours, 0, {0: (0, 99)}) >= cls.min_version
        if cls.oldest_version < cls.min_version:
            gone += 1
            with pytest.raises(ProtocolError):
                choose(cls.name, ours, 0, {0: (cls.oldest_version, cls.min_version - 1)})
    assert gone == 28
