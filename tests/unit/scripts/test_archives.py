"""Source distributions, unpacked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import archives
from scripts.archives import unpacked


def archive(folder: Path, *names: str) -> Path:
    path = folder / "tiny-1.2.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"1.2"))
    return path


def test_a_source_distribution_has_one_folder(tmp_path: Path) -> None:
    source = unpacked(archive(tmp_path, "tiny-1.2/version"), tmp_path / "sources")
    assert source == tmp_path / "sources" / "tiny-1.2"
    assert (source / "version").read_text() == "1.2"


@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")
def test_a_python_without_filters_of_extraction_unpacks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11.2, Debian's, has none."""
    monkeypatch.setattr(archives, "tarfile", SimpleNamespace(open=tarfile.open))
    assert unpacked(archive(tmp_path, "tiny-1.2/version"), tmp_path / "sources").name == "tiny-1.2"


@pytest.mark.parametrize("names", [["a/b", "c/d"], ["version"]])
def test_another_archive_is_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(ValueError, match=r"tiny-1\.2\.tar\.gz has \d entries at its top"):
        unpacked(archive(tmp_path, *names), tmp_path / "sources")
