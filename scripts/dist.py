"""Build the source distribution, from it the wheel, and use the wheel in an empty environment.

    python -m scripts.dist

Both are left in build/dist. They are built again only when a file that goes into them has changed. Where zig and
auditwheel are installed (the dependency group `wheel`), the wheel is one that a package index takes
(`scripts/wheels.py`); elsewhere this machine's compiler makes it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from kafwire._codec import crc32c_implementations
from scripts import wheels
from scripts.wheels import MANYLINUX, DistError

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "build" / "dist"
EMPTY = ROOT / "build" / "empty"
PACKAGED = ("kafwire", "pyspark_kafwire")
TOP_FILES = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
SOURCE_SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".typed"}
WHEEL_SUFFIXES = {".py", ".pyi", ".pxd", ".h", ".so", ".typed"}
# The extensions take 4 MB without debug symbols and 22 MB with them.
EXTENSIONS_LIMIT_BYTES = 8 << 20

# Imports everything compiled, takes a batch through each codec and back, and compares the CRCs with the arguments.
TRY = """
import importlib, pathlib, platform, sys, kafwire
from kafwire._codec import crc32c_implementations
from kafwire.records._compress import origin
from kafwire.records import decode_batches, encode_batch
root = pathlib.Path(kafwire.__file__).parent
files = sorted(root.rglob("*.so"))
for file in files:
    importlib.import_module(".".join([*file.relative_to(root.parent).parent.parts, file.name.partition(".")[0]]))
assert len(files) >= 20, files
for codec, package in {"gzip": "isal", "lz4": "lz4", "zstd": "zstandard"}.items():
    assert origin(codec).startswith(f"package {package}: "), f"{origin(codec)}: no symbols for {codec} in {package}"
for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    (batch,) = decode_batches(encode_batch([b"value" * 1000], compression=codec))
    assert [record.value for record in batch] == [b"value" * 1000], codec
assert crc32c_implementations() == sys.argv[1:], crc32c_implementations()
print(f"{len(files)} extensions of {root} on {platform.machine()}")
"""


def packaged_files() -> list[Path]:
    """All files of the tree that go into the source distribution, by name."""
    found = [ROOT / name for name in TOP_FILES]
    for package in PACKAGED:
        found += [file for file in (ROOT / package).rglob("*") if file.suffix in SOURCE_SUFFIXES and file.is_file()]
    return sorted(found)


def _key() -> str:
    source = os.environ.get("KAFWIRE_SOURCE_URL", "")
    digest = hashlib.sha256(f"{sys.version}\0{wheels.available()}\0{source}\0".encode())
    for file in [*packaged_files(), ROOT / "scripts" / "wheels.py"]:
        digest.update(f"{file.relative_to(ROOT)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def build() -> tuple[Path, Path]:
    """The source distribution and the wheel built from it. Raises `DistError` naming the faults of them."""
    stamp = DIST / "key"
    key = _key()
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(DIST, ignore_errors=True)
        # Its list of sources survives from build to build, and would hide a file that is no longer named.
        shutil.rmtree(ROOT / "kafwire.egg-info", ignore_errors=True)
        command = [sys.executable, "-m", "build", *(["--sdist"] if wheels.available() else []), "--outdir", str(DIST)]
        subprocess.run([*command, str(ROOT)], check=True)
        if wheels.available():
            wheels.build(next(DIST.glob("*.tar.gz")), Path(sys.executable), MANYLINUX, DIST)
    (sdist,) = DIST.glob("*.tar.gz")
    (wheel,) = DIST.glob("*.whl")
    check_sdist(sdist)
    check_wheel(wheel)
    if wheels.available():
        wheels.check(wheel, MANYLINUX)
    stamp.write_text(key)
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    """Raise `DistError` unless it has every packaged file of the tree, and nothing that was made or is a test."""
    with tarfile.open(sdist) as archive:
        names = {PurePosixPath(*PurePosixPath(m.name).parts[1:]) for m in archive.getmembers() if m.isfile()}
    missing = {str(file.relative_to(ROOT)) for file in packaged_files()} - {str(name) for name in names}
    if missing:
        raise DistError(f"{sdist.name} lacks {sorted(missing)}: name them in MANIFEST.in")
    made = {"PKG-INFO", "setup.cfg"}
    foreign = [str(n) for n in names if n.parts[0] not in {*PACKAGED, *TOP_FILES, *made, "kafwire.egg-info"}]
    if foreign:
        raise DistError(f"{sdist.name} has {sorted(foreign)}: leave them out by MANIFEST.in")
    if links := links_to_nothing(long_description(sdist)):
        raise DistError(f"{sdist.name}: an index would show README with links to nothing: {links}")


def long_description(sdist: Path) -> str:
    """The metadata of the source distribution: headers, and the text that a package index shows."""
    with tarfile.open(sdist) as archive:
        (member,) = (m for m in archive.getmembers() if re.fullmatch(r"[^/]+/PKG-INFO", m.name))
        text = archive.extractfile(member)
        assert text is not None, "a regular file"
        return text.read().decode()


def links_to_nothing(text: str) -> list[str]:
    """Links that are neither addresses nor anchors: a package index has no files beside the text."""
    return re.findall(r"\]\((?!https://|#)([^)\s]*)\)", text)


def check_wheel(wheel: Path) -> None:
    """Raise `DistError` unless it has every extension and stub, no C source, and is as small as without symbols."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {PurePosixPath(info.filename): info.file_size for info in archive.infolist()}
    inside = {name for name in sizes if name.parts[0] in PACKAGED}
    wanted = {
        *(file.relative_to(ROOT) for file in packaged_files() if file.suffix in WHEEL_SUFFIXES and file.parent != ROOT)
    }
    missing = {str(name) for name in wanted} - {str(name) for name in inside}
    missing |= {file.stem for file in (ROOT / "kafwire").rglob("*.pyx")} - {
        name.name.split(".")[0] for name in inside if name.suffix == ".so"
    }
    if missing:
        raise DistError(f"{wheel.name} lacks {sorted(missing)}")
    foreign = [str(n) for n in sizes if n not in inside and not re.match(r"kafwire-[\w.]+\.dist-info$", n.parts[0])]
    foreign += [str(n) for n in inside if n.suffix not in WHEEL_SUFFIXES]
    if foreign:
        raise DistError(f"{wheel.name} has {sorted(foreign)}")
    compiled = sum(size for name, size in sizes.items() if name.suffix == ".so")
    if compiled > EXTENSIONS_LIMIT_BYTES:
        raise DistError(f"{wheel.name}: its extensions have {compiled:,} bytes: debug symbols?")


def install(wheel: Path, folder: Path, *extras: str, interpreter: Path = Path(sys.executable)) -> Path:
    """The interpreter of a new, empty environment in `folder` into which the wheel was installed."""
    subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
    python = folder / "bin" / "python"
    what = f"kafwire[{','.join(extras)}] @ {wheel.as_uri()}" if extras else str(wheel)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", what]
    subprocess.run(pip, check=True, cwd=folder, env=_outside())
    return python


def _outside() -> dict[str, str]:
    """The environment of a user without PYTHONPATH: pip takes packages that lie there as installed."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def main() -> int:
    try:
        sdist, wheel = build()
    except DistError as error:
        print(error, file=sys.stderr)
        return 1
    for file in (sdist, wheel):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
    return 0 if attempt(wheel) else 1


def attempt(wheel: Path, interpreter: Path = Path(sys.executable)) -> bool:
    """Install the wheel into an empty environment, and use everything compiled; False if that fails."""
    python = install(wheel, EMPTY, interpreter=interpreter)
    command = [str(python), "-c", TRY, *crc32c_implementations()]
    return subprocess.run(command, cwd=EMPTY, env=_outside(), check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
