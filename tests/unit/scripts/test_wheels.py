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
from scripts.wheels import weaknesses

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
    """But for RUNPATH: an interpreter that was built on this machine may put it there."""
    extensions = sorted((ROOT / "kafwire").rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
    assert extensions
    weak = {file.name: [w for w in weaknesses(file) if "RUNPATH" not in w] for file in extensions}
    assert {name: found for name, found in weak.items() if found} == {}


def test_the_long_description_has_links_that_an_index_can_follow(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**os.environ, "KAFWIRE_BUILD_CACHE": ""})
    text = (tmp_path / "kafwire.egg-info" / "PKG-INFO").read_text()
    assert links_to_nothing(text) == []
    assert links_to_nothing((ROOT / "README.md").read_text()), "README has links to files beside it"
    (source,) = re.findall(r"^Project-URL: Source, (\S+)$", text, re.MULTILINE)
    design = f"]({source}/blob/HEAD/docs/design.md)"
    assert design in text
    assert (ROOT / "README.md").read_text() == text.split("\n\n", 1)[1].replace(f"]({source}/blob/HEAD/", "](")


@pytest.mark.parametrize(
    ("link", "bad"),
    [("[a](docs/a.md)", True), ("![a](a.png)", True), ("[a](#top)", False), ("[a](https://example.org/a)", False)],
)
def test_a_link_to_nothing(link: str, bad: bool) -> None:
    assert bool(links_to_nothing(f"See {link}.")) == bad
