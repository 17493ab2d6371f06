"""Build the wheels of all targets for each CPython of this machine, and try each as far as this machine can.

    python -m scripts.all_wheels                     # all; they are left in build/wheels
    python -m scripts.all_wheels --only musllinux    # the targets whose platform tag has this in it
    python -m scripts.all_wheels --python 3.13       # for this CPython

| target | tried by |
|---|---|
| manylinux, x86-64 | an empty environment of its CPython, and a user's first hour in it |
| manylinux, aarch64 | the CPython of Debian's packages under qemu-user, for that CPython's version |
| musllinux | the loader of Debian's musl, for aarch64 under qemu-user: it binds each symbol that is not Python's |

auditwheel and the checks of `scripts/wheels.py` judge every one.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts import debian, dist, foreign_python, wheels
from scripts.other_pythons import interpreters, prepare
from scripts.wheels import DistError, Target

WHEELS = dist.ROOT / "build" / "wheels"
FOREIGN = dist.ROOT / "build" / "foreign"
FIRST_HOUR = "tests/integration/docs/test_first_hour.py"
OLDEST = (3, 11)
NOT_FOUND = re.compile(r"Error relocating [^:]*: (\S+): symbol not found")
INTERPRETERS = re.compile(r"_?Py[A-Z_]")


def builders(only: str | None) -> dict[tuple[int, int], Path]:
    """An interpreter with Cython, setuptools and what the tests import, for each version here, or for one."""

    def chosen(version: tuple[int, int]) -> bool:
        return only in {None, f"{version[0]}.{version[1]}"}

    own = sys.version_info.major, sys.version_info.minor
    found = {own: Path(sys.executable)} if chosen(own) else {}
    others = {version: path for version, path in interpreters(OLDEST).items() if chosen(version)}
    return found | {version: prepare(version, path) for version, path in others.items()}


def attempt(wheel: Path, target: Target, builder: Path) -> str:
    """Try a wheel, and return how. Raises `DistError` where it fails."""
    if target == wheels.MANYLINUX:
        return first_hour(wheel, builder)
    if target.libc == "musl":
        return load_by_musl(wheel, target.machine)
    return foreign_python.attempt(wheel, target.machine, FOREIGN)


def first_hour(wheel: Path, builder: Path) -> str:
    """Use the wheel in an empty environment, as a new user does."""
    if not dist.attempt(wheel, builder):
        raise DistError(f"{wheel.name} does not work in an empty environment of {builder}")
    environment = {**os.environ, "KAFWIRE_WHEEL": str(wheel), "KAFWIRE_WHEEL_PYTHON": str(builder)}
    command = [sys.executable, "-m", "pytest", "-q", "--long", FIRST_HOUR]
    if subprocess.run(command, cwd=dist.ROOT, env=environment, check=False).returncode:
        raise DistError(f"{wheel.name}: {FIRST_HOUR} fails in an environment of {builder}")
    return "a new user's first hour"


def load_by_musl(wheel: Path, machine: str) -> str:
    """Load each extension by musl's loader: the interpreter's symbols are all that may be missing."""
    if not debian.available():
        return "not run: no apt-get, whose package musl has the loader"
    root = debian.unpacked("musl", FOREIGN / f"musl-{machine}", debian.ARCHITECTURES[machine])
    command = [] if machine == platform.machine() else [debian.emulator(machine, FOREIGN)]
    command.append(root / f"lib/ld-musl-{machine}.so.1")
    with wheels.unpacked(wheel) as extensions:
        for extension in extensions:
            done = subprocess.run([*command, "--list", extension], capture_output=True, text=True, check=False)
            missing = NOT_FOUND.findall(done.stdout + done.stderr)
            foreign = sorted({name for name in missing if not INTERPRETERS.match(name)})
            if foreign or not missing:
                raise DistError(f"{wheel.name}: musl does not load {extension.name}: {foreign or done.stderr}")
    return f"loaded by musl for {machine}"


def main() -> int:
    """Build and try what the command line chooses; 1 if any wheel fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TAG", default="", help="targets whose platform tag has this in it")
    parser.add_argument("--python", metavar="3.N", help="this CPython only, if it is here")
    options = parser.parse_args()
    if not wheels.available():
        print("zig and auditwheel are needed, on Linux: pip install --group wheel", file=sys.stderr)
        return 1
    sdist, _ = dist.build()
    shutil.rmtree(WHEELS, ignore_errors=True)
    failed = False
    for version, builder in builders(options.python).items():
        for target in (target for target in wheels.TARGETS if options.only in target.tag):
            name = f"CPython {version[0]}.{version[1]}, {target.tag}"
            try:
                wheel = wheels.build(sdist, builder, target, WHEELS)
                wheels.check(wheel, target)
                print(f"{name}: {wheel.stat().st_size:,} bytes, {attempt(wheel, target, builder)}", flush=True)
            except (DistError, subprocess.CalledProcessError) as error:
                failed = True
                print(f"{name}: FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
