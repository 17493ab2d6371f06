"""Files named by their offsets."""

from __future__ import annotations

import pytest

from kafwire.errors import KafkaError
from kafwire.lake.offset_files import OffsetFile, files_of


def test_a_name_is_read_as_it_is_written() -> None:
    files = [OffsetFile(0, 7), OffsetFile(7, 12), OffsetFile(20, 9_000_000_000)]
    names = [file.name for file in files]
    assert names == sorted(names)
    others = [".unfinished", ".copier", "0-7.parquet", f"{0:020}-{7:020}.parquet.tmp"]
    assert files_of([*reversed(names), *others]) == files
    assert files_of(others) == []


def test_files_that_overlap_are_of_two_copies() -> None:
    names = [OffsetFile(0, 7).name, OffsetFile(6, 9).name]
    with pytest.raises(KafkaError, match="overlap: two copies were written to one folder"):
        files_of(names)
