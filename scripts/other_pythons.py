"""Run the unit tests on every other CPython >= 3.12 of this machine.

    python scripts/other_pythons.py               # all unit tests but the longest, on each
    python scripts/other_pythons.py --only 3.12   # on this one, if it is here
    python scripts/other_pythons.py --boundary    # on the newest, the files that import compiled modules
    python scripts/other_pythons.py --boundary --build    # only make its environment and the extensions

Looks for `python3.N` on the PATH and in pyenv's folder of versions. Each gets an environment of its own under .venv,
with the extra `unit`, and the extensions built in place (their file names differ by version). An interpreter that
cannot be set up, or that fails, makes this script fail; pre-releases and free-threaded builds are named and left alone.
"""

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 12)
ROOT = Path(__file__).resolve().parent.parent
# The C core is the same for every Python; and what takes many seconds in a simulated world is about no version of it.
# The benchmarks and the soak import other clients, which are not installed there.
LEFT_OUT = ["tests/unit/test_sanitizers.py", "tests/unit/benchmarks", "tests/unit/soak"]
# At the boundary too: the broker, the simulated world, the fuzzer and the commands are Python throughout.
PYTHON_ONLY = [f"tests/unit/{name}" for name in ("broker", "cli", "fuzz", "scripts", "simulation", "testing")]
LONG = [
    "many_partitions",
    "thousand_part",
    "truncated_logs",
    "random",
    "schedules",
    "the_lease_ends",
    "kept_alive",
    "elsewhere",
    "real_signals",  # CPython 3.13 takes an interrupt that passed through C for one that no code caught, and ends by it
]
ALL = ["tests/unit", *(f"--ignore={name}" for name in LEFT_OUT)]
# Every example calls the same functions of C: a fifth of them is enough.
FEWER = {"KAFWIRE_EXAMPLES": "0.2"}
WITHOUT = f"not ({' or '.join(LONG)})"
# Python's versions differ in their C interface: these tests call compiled code directly.
COMPILED = re.compile(
    r"\bkafwire(?:\.\w+)?\._[a-z]|\bfrom kafwire(?:\.\w+)? import _[a-z]|\bkafwire\.(?:arrow|compression|records)\b"
)
ASK = (
    "import sys, sysconfig; print(sys.implementation.name, *sys.version_info[:4],"
    "int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), sys.executable)"
)


def candidates(oldest: tuple[int, int]) -> list[Path]:
    """All files that may be an interpreter, found by name only."""
    found = [Path(path) for minor in range(oldest[1], 40) if (path := shutil.which(f"python3.{minor}"))]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found += sorted(pyenv.glob("versions/*/bin/python3"))
    return found


def interpreters(oldest: tuple[int, int] = OLDEST) -> dict[tuple[int, int], Path]:
    """The newest interpreter of each minor version, but for the one that runs this script."""
    found: dict[tuple[int, int], tuple[int, Path]] = {}
    for path in candidates(oldest):
        result = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        if result.returncode:  # a shim of pyenv for a version that is not switched on
            continue
        name, major, minor, micro, level, free_threaded, executable = result.stdout.split(maxsplit=6)
        version = int(major), int(minor)
        if name != "cpython" or version < oldest or version == sys.version_info[:2]:
            continue
        if level != "final" or free_threaded == "1":
            kind = "free-threaded" if free_threaded == "1" else level
            print(f"not tested: {executable.strip()}, {kind} {major}.{minor}.{micro}", flush=True)
            continue
        found[version] = max(found.get(version, (-1, Path())), (int(micro), Path(executable.strip())))
    return {version: path for version, (_, path) in sorted(found.items())}


def requirements(*extras: str) -> set[str]:
    """The lines that scripts/requirements.py prints for the extras."""
    command = [sys.executable, "scripts/requirements.py", *extras]
    return set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines())


def prepare(version: tuple[int, int], interpreter: Path) -> Path:
    """The interpreter of an environment that has all that the unit tests import; made again when that changes."""
    wanted = requirements() | requirements("unit")
    folder = ROOT / ".venv" / "others" / f"{version[0]}.{version[1]}"
    python, stamp = folder / "bin" / "python", folder / "has"
    key = hashlib.sha256("\n".join([str(interpreter), *sorted(wanted)]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != key:
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        # Wheels only: a package that has none for this version is named by pip, and is the failure to see.
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
        subprocess.run([*install, "--only-binary", ":all:", *sorted(wanted)], check=True)
        stamp.write_text(key)
    return python


def boundary() -> list[str]:
    """The unit tests that import compiled modules, or the package one name above them."""
    files = sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
    names = [str(path.relative_to(ROOT)) for path in files if COMPILED.search(path.read_text())]
    return [name for name in names if not name.startswith((*LEFT_OUT, *PYTHON_ONLY))]


def build(version: tuple[int, int], interpreter: Path) -> Path:
    """The interpreter of an environment that has the extensions as they are now."""
    python = prepare(version, interpreter)
    command = ["setup.py", "--quiet", "build_ext", "--inplace", "--parallel", str(os.cpu_count() or 1)]
    subprocess.run([python, *command], cwd=ROOT, check=True)
    return python


def test(version: tuple[int, int], interpreter: Path, tests: list[str], more: dict[str, str]) -> bool:
    """Build, and run the unit tests; False if anything fails."""
    print(f"=== unit tests on CPython {version[0]}.{version[1]}: {interpreter}", flush=True)
    try:
        python = build(version, interpreter)
        options = ["-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count() or 1), "--maxschedchunk=8", "-k", WITHOUT]
        subprocess.run([python, "-m", "pytest", *options, *tests], cwd=ROOT, env={**os.environ, **more}, check=True)
    except subprocess.CalledProcessError as error:
        print(f"failed on CPython {version[0]}.{version[1]}: {shlex.join(map(str, error.cmd))}", flush=True)
        return False
    return True


def main() -> int:
    """Parse the command line, and test what it chooses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boundary", action="store_true", help="on the newest, the tests that import compiled modules")
    parser.add_argument("--build", action="store_true", help="make environments and extensions, and test nothing")
    parser.add_argument("--only", metavar="3.N", help="on this one, if it is here")
    options = parser.parse_args()
    found = interpreters()
    if options.only:
        found = {version: path for version, path in found.items() if f"{version[0]}.{version[1]}" == options.only}
    if options.boundary:
        found = dict(sorted(found.items())[-1:])
    if options.build:
        for version, interpreter in found.items():
            build(version, interpreter)
        return 0
    tests, more = (boundary(), FEWER) if options.boundary else (ALL, {})
    outcomes = [test(version, interpreter, tests, more) for version, interpreter in found.items()]
    if not outcomes:
        print(f"no other CPython {options.only or '>= 3.12'} on this machine")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
