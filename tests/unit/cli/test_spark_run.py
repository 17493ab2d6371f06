"""`kafwire spark run --check`: job files and checkpoints, without a session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark", exc_type=ImportError)

from kafwire.cli import main
from tests.support.spark_checkpoint import write_batch, write_start


def check(folder: Path, *arguments: str, checkpoint: str = "") -> Result:
    job = folder / "archive.toml"
    job.write_text(
        f"""
        checkpoint = "{checkpoint or folder / "checkpoint"}"
        kafka.bootstrap.servers = "h:1"
        source.subscribe = "a"
        sink = {{ path = "rows", format = "parquet" }}
        """
    )
    return CliRunner().invoke(main, ["spark", "run", "--check", str(job), *arguments])


def test_a_job_is_shown(tmp_path: Path) -> None:
    result = check(tmp_path)
    assert result.stdout == f"{tmp_path}/archive.toml is a job: a -> rows, available-now\n"
    assert result.exit_code == 0


def test_a_first_batch_of_spark_s_own_source_is_refused(tmp_path: Path) -> None:
    write_start(tmp_path / "checkpoint", 0, '{"a":{"0":5}}')
    result = check(tmp_path)
    assert (result.exit_code, "its start is a-0: 5" in result.stderr) == (1, True)
    write_batch(tmp_path / "checkpoint", 0, {"a": {"0": 8}})
    assert check(tmp_path).exit_code == 0


def test_a_file_system_that_spark_alone_reads_is_a_warning(tmp_path: Path) -> None:
    result = check(tmp_path, checkpoint="nosuch://x/checkpoint")
    assert "the checkpoint is not checked for a batch of Spark's own source: nosuch://" in result.stderr
    assert result.exit_code == 0


def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.toml").write_text("sorce = 3")
    result = CliRunner().invoke(main, ["spark", "run", str(tmp_path / "wrong.toml")])
    assert result.exit_code == 1
    assert result.stderr == "kafwire: unknown key sorce in the job file: did you mean source?\n"
    result = check(tmp_path, "--plot", str(tmp_path / "missing" / "plot.png"))
    assert "its folder does not exist" in result.stderr
    result = check(tmp_path, "--conf", "nothing")
    assert (result.exit_code, "--conf: NAME=VALUE is needed" in result.stderr) == (2, True)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'kafwire[plot]'" in check(tmp_path, "--plot", str(tmp_path / "plot.png")).stderr
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "this command needs PySpark: pip install 'kafwire[spark]'" in check(tmp_path).stderr
