"""`Struct.fixed_runs`: the offsets of fields on the wire, for compiled code."""

from uuid import UUID

import pytest

from kafwire.protocol import FetchRequest, FetchResponse
from kafwire.protocol.spec import Data, Struct, field, int8, int16, int32, int64, uint16


class Row(Data, versions="0-3", flexible="2+"):
    """A message for this test."""

    class Part(Struct):
        number: int32 = field("0+")

    number: int32 = field("0+", default=-2)
    error: int16 = field("1+", default=7)
    names: list[str] = field("0+")
    mark: int8 = field("0-1")
    id: UUID = field("2+", default=UUID(int=5))
    port: uint16 = field("0+", default=65535)
    hint: int64 = field("2+", tag=0)
    text: str = field("0+")
    is_last: bool = field("3+", default=True)


def test_runs_end_at_fields_of_variable_size() -> None:
    assert [run.offsets for run in Row.fixed_runs(1, "names", "text")] == [
        {"number": 0, "error": 4},
        {"mark": 0, "port": 1},
        {},
    ]
    assert [run.offsets for run in Row.fixed_runs(3, "names", "text")] == [
        {"number": 0, "error": 4},
        {"id": 0, "port": 16},
        {"is_last": 0},
    ]


@pytest.mark.parametrize("version", range(4))
def test_runs_hold_the_bytes_of_the_codec_at_defaults(version: int) -> None:
    names, text, tags = (b"\x01", b"\x01", b"\x00") if version >= 2 else (bytes(4), bytes(2), b"")
    first, second, third = (run.blank for run in Row.fixed_runs(version, "names", "text"))
    assert first + names + second + text + third + tags == Row().encode(version)


def test_a_field_of_variable_size_without_a_reader_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Row\.text has no fixed size"):
        Row.fixed_runs(0, "names")
    with pytest.raises(TypeError, match=r"Row\.names has no fixed size"):
        Row.fixed_runs(0, "text", "names")


@pytest.mark.parametrize("version", range(FetchResponse.min_version, FetchResponse.max_version + 1))
def test_compiled_code_finds_the_fields_of_fetch(version: int) -> None:
    head, middle, _ = FetchResponse.PartitionData.fixed_runs(version, "aborted_transactions", "records")
    assert list(head.offsets)[:4] == ["partition_index", "error_code", "high_watermark", "last_stable_offset"]
    assert ("preferred_read_replica" in middle.offsets) is (version >= 11)
    (entry,) = FetchRequest.FetchPartition.fixed_runs(version)
    assert {"partition", "fetch_offset", "partition_max_bytes"} <= set(entry.offsets)
