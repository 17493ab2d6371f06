"""The entries of a segment's indexes: real bytes, preallocated space, damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.protocol.log_index import OFFSET_INDEX, TIME_INDEX, IndexFormat, base_offset, index_entries

FORMS = st.sampled_from([OFFSET_INDEX, TIME_INDEX])
STEPS = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), max_size=20)


def written(form: IndexFormat, steps: list[tuple[int, int]]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return an index whose offsets and values grow by `steps`, and its relative entries."""
    data, entries, offset, value = b"", [], 0, 0
    for by, on in steps:
        offset, value = offset + by, value + on
        entries.append((offset, value))
        data += form.entry.pack(*((offset, value) if form.offset_first else (value, offset)))
    return data, entries


@given(FORMS, STEPS, st.integers(0, 1 << 40), st.integers(0, 40))
def test_entries_are_read_without_the_space_behind_them(
    form: IndexFormat, steps: list[tuple[int, int]], base: int, space: int
) -> None:
    data, entries = written(form, steps)
    found = list(index_entries(data + bytes(space * form.entry.size), form, base))
    assert [(entry.offset - base, entry.value) for entry in found] == entries
    assert [entry.at for entry in found] == [number * form.entry.size for number in range(len(entries))]


def test_a_time_index_may_begin_at_timestamp_0() -> None:
    assert [entry[1:] for entry in index_entries(bytes(12), TIME_INDEX, 7)] == [(7, 0)]
    both = list(index_entries(bytes(12) + struct.pack(">qi", 5, 1) + bytes(24), TIME_INDEX, 7))
    assert [entry[1:] for entry in both] == [(7, 0), (8, 5)]
    assert not list(index_entries(bytes(24), TIME_INDEX, 7))
    assert not list(index_entries(bytes(8), OFFSET_INDEX, 7))


@pytest.mark.parametrize(
    ("data", "at", "text"),
    [
        (struct.pack(">iiii", 5, 100, 4, 200), 8, "offset 14 with position 200 comes after offset 15"),
        (struct.pack(">iiii", 5, 100, 6, 99), 8, "this is not an index, or it is damaged"),
        (struct.pack(">ii", -1, 100), 0, "offset 9 with position 100"),
        (struct.pack(">iii", 5, 100, 6), 8, "the last 4 bytes are an incomplete entry"),
    ],
)
def test_damage_is_an_error_with_its_position(data: bytes, at: int, text: str) -> None:
    with pytest.raises(ProtocolError) as error:
        list(index_entries(data, OFFSET_INDEX, 10))
    assert error.value.offset == at
    assert text in error.value.message


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("00000000000000000042.index", 42),
        ("00000000000000000042.timeindex.deleted", 42),
        ("00000000000000000042-7d.index", 42),
        ("x.index", None),
        ("42.index", None),
    ],
)
def test_the_base_offset_is_in_the_name(name: str, base: int | None) -> None:
    assert base_offset(name) == base
