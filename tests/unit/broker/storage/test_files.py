"""`broker.storage.files`: files of the file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafwire.broker.storage.files import RealFiles


def test_a_read_that_the_system_serves_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, position: pread(descriptor, min(size, 3), position))
    with path.open("rb") as file:
        assert RealFiles().pread(file.fileno(), 7, 2) == b"2345678"
        assert RealFiles().pread(file.fileno(), 7, 6) == b"6789", "the file ends"


def test_a_write_that_the_system_takes_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"ab")
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: pwrite(descriptor, data[:3], position))
    with path.open("r+b") as file:
        RealFiles().pwrite(file.fileno(), b"2345678", 2)
    assert path.read_bytes() == b"ab2345678"
