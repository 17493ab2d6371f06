"""Offsets out of a checkpoint's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.checkpoint import committed, open_checkpoint, refuse_unfinished_start, unfinished_start
from kafwire.types import TopicPartition
from tests.support.spark.checkpoint import write_batch, write_start

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_the_newest_committed_batch_counts(tmp_path: Path) -> None:
    for batch in range(12):
        write_batch(tmp_path, batch, {"a": {"0": batch, "1": 2 * batch}}, committed=batch < 11)
    (tmp_path / "offsets" / ".12.tmp").write_text("half")
    found = committed(open_checkpoint(str(tmp_path)))
    assert found is not None
    assert (found.batch, found.offsets, found.time_ms) == (10, {A0: 10, A1: 20}, 1795810330859)


def test_a_commit_without_offsets_does_not_count(tmp_path: Path) -> None:
    """Spark deletes old offsets before old commits, or after them."""
    write_batch(tmp_path, 3, {"a": {"0": 1}})
    write_batch(tmp_path, 4, {"a": {"0": 2}})
    (tmp_path / "offsets" / "4").unlink()
    found = committed(open_checkpoint(f"file://{tmp_path}"))
    assert found is not None
    assert found.batch == 3


def test_several_sources_and_sources_of_other_kinds(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, {"a": {"0": 5}}, "-", {"logOffset": 3}, "7", {"a": {"0": 3, "1": 9}})
    found = committed(open_checkpoint(str(tmp_path)))
    assert found is not None
    assert found.sources == ({A0: 5}, None, None, None, {A0: 3, A1: 9})
    assert found.offsets == {A0: 3, A1: 9}


def test_nothing_committed_yet(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, {"a": {"0": 5}}, committed=False)
    assert committed(open_checkpoint(str(tmp_path))) is None


def test_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no checkpoint"):
        open_checkpoint(str(tmp_path))
    with pytest.raises(ConfigError, match="is no checkpoint"):
        open_checkpoint(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("v2\n{}\n{}", r"offsets/0 .* has the format 'v2'"),
        ("v1\nnonsense\n{}", "offsets/0 .* is damaged"),
        ("v1\n[]\n{}", "offsets/0 .* is damaged"),
        ("", "offsets/0 .* has the format ''"),
    ],
)
def test_a_file_of_another_format_is_an_error_by_name(tmp_path: Path, text: str, wrong: str) -> None:
    write_batch(tmp_path, 0, {})
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(ConfigError, match=wrong):
        committed(open_checkpoint(str(tmp_path)))


def test_a_first_batch_of_spark_s_own_source_is_refused_until_it_is_committed(tmp_path: Path) -> None:
    write_start(tmp_path, 0, '{"a":{"0":5,"1":7}}')
    with pytest.raises(ConfigError, match=r"start is a-0: 5, a-1: 7, its end was not planned"):
        refuse_unfinished_start(open_checkpoint(str(tmp_path)), "c")
    write_batch(tmp_path, 0, {"a": {"0": 8, "1": 7}}, committed=False)
    with pytest.raises(ConfigError, match=r'its end is a-0: 8, a-1: 7.*startingOffsets to \{"a": \{"0": 5, "1": 7\}\}'):
        refuse_unfinished_start(open_checkpoint(str(tmp_path)), "c")
    write_batch(tmp_path, 0, {"a": {"0": 8, "1": 7}})
    refuse_unfinished_start(open_checkpoint(str(tmp_path)), "c")


def test_kafwire_s_own_first_batch_may_run_again(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, {"a": {"0": 8}}, committed=False)
    refuse_unfinished_start(open_checkpoint(str(tmp_path)), "c")


def test_the_start_of_another_kind_of_source_is_none_of_kafka(tmp_path: Path) -> None:
    write_start(tmp_path, 0, '{"path":"file:///data/part-0","timestamp":1,"batchId":0}')
    write_start(tmp_path, 1, "")
    assert unfinished_start(open_checkpoint(str(tmp_path))) is None


def test_a_uri_is_opened_by_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    asked = []

    class Opened:
        @staticmethod
        def from_uri(uri: str) -> tuple[object, str]:
            asked.append(uri)
            return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "bucket/checkpoint/"

    monkeypatch.setattr(fs, "FileSystem", Opened)
    write_batch(tmp_path / "bucket" / "checkpoint", 0, {"a": {"0": 5}})
    found = committed(open_checkpoint("s3a://bucket/checkpoint/"))
    assert asked == ["s3://bucket/checkpoint/"]
    assert found is not None
    assert found.offsets == {A0: 5}


def test_a_uri_that_cannot_be_opened_is_an_error_by_name() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ConfigError, match="nosuch://x/y cannot be opened by pyarrow"):
        open_checkpoint("nosuch://x/y")
