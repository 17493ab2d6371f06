"""The C contenders, compiled on first use into the build folder."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
FLAGS = ["-O3", "-std=gnu11", "-Wall", "-Wextra"]


class BuildError(RuntimeError):
    """A program could not be built; the message says which part is missing."""


def compiler() -> str:
    """The C compiler, from `$CC` or the `PATH`."""
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        raise BuildError("no C compiler (Debian: apt install gcc)")
    return found


def build_floor(folder: Path) -> Path:
    """The program behind the floor."""
    return _build(folder / "floor", ["bench.c", "lz4f.c", "batch.c", "tls.c", "wire.c", "floor.c"], ["-ldl"])


def build_proxy(folder: Path) -> Path:
    """The proxy that counts."""
    return _build(folder / "proxy", ["bench.c", "proxy.c"], [])


def build_replay(folder: Path) -> Path:
    """The broker that responds from memory."""
    return _build(folder / "replay", ["bench.c", "lz4f.c", "batch.c", "tls.c", "replay.c"], ["-ldl", "-pthread"])


def build_rdkafka(folder: Path) -> Path:
    """The program on librdkafka's batch calls, bound by path to the library inside the confluent-kafka wheel."""
    library = librdkafka()
    return _build(folder / "rdkafka", ["bench.c", "rdkafka.c"], [str(library), f"-Wl,-rpath,{library.parent}"])


def librdkafka() -> Path:
    """The library that confluent-kafka itself runs on."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise BuildError("confluent-kafka is not installed: pip install --group bench")
    package = Path(spec.origin).parent
    found = sorted(package.parent.glob("confluent_kafka.libs/librdkafka*.so*"))
    if not found:
        raise BuildError(f"no librdkafka beside {package}: confluent-kafka was not installed from a wheel")
    return found[0]


def _build(target: Path, sources: list[str], libraries: list[str]) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    inputs = [*SOURCES.iterdir(), *(Path(item) for item in libraries if not item.startswith("-"))]
    if target.exists() and all(source.stat().st_mtime <= target.stat().st_mtime for source in inputs):
        return target
    command = [compiler(), *FLAGS, "-o", str(target), *(str(SOURCES / source) for source in sources), *libraries]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"{target.name} does not compile:\n{result.stderr}")
    return target
