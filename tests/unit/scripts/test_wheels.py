"""The checks of wheels find what they are for, and the extensions of this tree pass them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scripts.dist import ROOT, links_to_nothing
from scripts.wheels import TARGETS, headers, weaknesses

SOURCE = "#include <string.h>\nint f(const char *s) { char own[9]; strcpy(own, s); return own[3]; }\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux" or not shutil.which("readelf"), reason="ELF, and its reader")


def compiled(folder: Path, *options: str) -> Path:
    (folder / "some.c").write_text(SOURCE)
    command = [*sysconfig.get_config_var("CC").split(), "-shared", "-fPIC", "-O1", *options, "-o", "some.so", "some.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "some.so"


HARDENED = ["-fstack-protector-strong", "-Wl,-z,relro,-z,now,-z,noexecstack"]


def test_a_hardened_extension_has_no_weakness(tmp_path: Path) -> None:
    assert weaknesses(compiled(tmp_path, *HARDENED)) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-fno-stack-protector"], "stack protector"),
        (["-Wl,-z,lazy"], "full RELRO"),
        (["-Wl,-z,norelro"], "full RELRO"),
        (["-Wl,-z,execstack"], "executable stack"),
        (["-Wl,-rpath,/opt/builder/lib"], "looks for libraries in /opt/builder/lib (RUNPATH)"),
    ],
    ids=["no stack protector", "lazy binding", "no RELRO", "executable stack", "RUNPATH"],
)
def test_each_weakness_is_found(tmp_path: Path, options: list[str], words: str) -> None:
    (found,) = weaknesses(compiled(tmp_path, *HARDENED, *options))
    assert words in found


def test_the_extensions_of_this_tree_are_hardened() -> None:
    """RUNPATH is left out: an interpreter that was built on this machine may put it there."""
    extensions = sorted((ROOT / "kafwire").rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
    assert extensions
    weak = {file.name: [w for w in weaknesses(file) if "RUNPATH" not in w] for file in extensions}
    assert {name: found for name, found in weak.items() if found} == {}


def described(folder: Path, source: str) -> tuple[str, str]:
    """The part of this tree that an index gets: the headers, and the long description."""
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(folder)]
    environment = {**os.environ, "KAFWIRE_BUILD_CACHE": "", "KAFWIRE_SOURCE_URL": source}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    headers, description = (folder / "kafwire.egg-info" / "PKG-INFO").read_text().split("\n\n", 1)
    return headers, description


def test_the_long_description_leads_to_the_source(tmp_path: Path) -> None:
    headers, description = described(tmp_path, "https://example.org/kafwire/")
    readme = (ROOT / "README.md").read_text()
    assert links_to_nothing(readme), "README has links to files beside it"
    assert links_to_nothing(description) == []
    assert readme == description.replace("](https://example.org/kafwire/blob/HEAD/", "](")
    assert "](https://example.org/kafwire/blob/HEAD/docs/design.md)" in description
    assert re.findall(r"^Project-URL: Source, (\S+)$", headers, re.MULTILINE) == ["https://example.org/kafwire"]


def test_without_a_source_the_long_description_has_no_links_to_it(tmp_path: Path) -> None:
    headers, description = described(tmp_path, "")
    readme = (ROOT / "README.md").read_text()
    assert "Project-URL" not in headers
    assert links_to_nothing(description) == []
    assert " docs/design.md says how" in description
    examples = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert examples.findall(description) == examples.findall(readme)


@pytest.mark.parametrize(
    ("link", "bad"),
    [("[a](docs/a.md)", True), ("![a](a.png)", True), ("[a](#top)", False), ("[a](https://example.org/a)", False)],
)
def test_a_link_to_nothing(link: str, bad: bool) -> None:
    assert bool(links_to_nothing(f"See {link}.")) == bad


def interpreter(folder: Path, multiarch: str) -> Path:
    """A program that says where its headers lie, as an interpreter does."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho {folder}/include/python3.99\necho {multiarch}\n")
    python.chmod(0o755)
    return python


def test_the_compiler_finds_the_header_that_debian_keeps_elsewhere(tmp_path: Path) -> None:
    kept = tmp_path / "include/some-linux-gnu/python3.99/pyconfig.h"
    kept.parent.mkdir(parents=True)
    kept.write_text("here")
    found = headers(interpreter(tmp_path, "some-linux-gnu"), TARGETS[1], tmp_path / "own")
    assert found == {"CPATH": str(tmp_path / "own")}
    assert (tmp_path / "own/aarch64-linux-gnu/python3.99/pyconfig.h").read_text() == "here"


@pytest.mark.parametrize("multiarch", ["", "some-linux-gnu"])
def test_other_interpreters_keep_their_headers_together(tmp_path: Path, multiarch: str) -> None:
    assert headers(interpreter(tmp_path, multiarch), TARGETS[0], tmp_path / "own") == {}
