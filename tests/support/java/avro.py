"""Values as Apache Avro's Java classes read them, which pyspark brings.

`python -m tests.support.java.avro` writes tests/data/avro_java.json: cases that tests compare with without Java.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from kafwire.testing.cluster.kafka import java
from tests.support import avro_samples
from tests.support.avro_samples import Samples

_TESTS = Path(__file__).resolve().parents[2]
_SOURCE = _TESTS / "java" / "AvroRead.java"
VECTORS = _TESTS / "data" / "avro_java.json"


class Case(NamedTuple):
    """Schemas as JSON text, and the bytes of a value."""

    writer: str
    reader: str
    data: bytes


def _jars() -> str:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    names = ("avro-1*.jar", "jackson-core-2*.jar", "jackson-databind-2*.jar", "jackson-annotations-2*.jar")
    others = ("slf4j-api-*.jar", "commons-compress-*.jar", "commons-lang3-*.jar")
    return os.pathsep.join(str(jar) for name in (*names, *others) for jar in sorted(folder.glob(name)))


def read(cases: Sequence[Case]) -> list[Any]:
    """Java's reading of each case, as Python's values; a dict with the member `error` if it refuses one."""
    return [value(json.loads(line)) for line in lines_of(cases)]


def lines_of(cases: Sequence[Case]) -> list[str]:
    """The output for each case: JSON."""
    lines = "".join(f"{case.writer}\t{case.reader}\t{case.data.hex()}\n" for case in cases)
    ran = subprocess.run(
        [java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", _jars(), str(_SOURCE)],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return ran.stdout.splitlines()


def value(found: Any) -> Any:
    """A value of the output's JSON as Python's."""
    if isinstance(found, list):
        return [value(each) for each in found]
    if not isinstance(found, dict) or "error" in found:
        return found
    ((kind, inner),) = found.items()
    if kind == "real":
        return float(inner)
    if kind == "map":
        return {value(key): value(each) for key, each in inner}
    if kind == "record":
        return {key: value(each) for key, each in inner.items()}
    return bytes.fromhex(inner) if kind == "bytes" else bytes.fromhex(inner).decode()


def main() -> None:
    """Write the cases of the first seeds."""
    rows, cases = [], []
    for seed in range(60):
        samples = Samples(seed)
        writer = samples.record()
        reader = samples.reader(writer)
        data = samples.encode(writer, samples.value(writer))
        plain = [json.dumps(avro_samples.without_logical(each)) for each in (writer, reader)]
        cases.append(Case(plain[0], plain[1], data))
        rows.append({"writer": writer, "reader": reader, "hex": data.hex()})
    made = [{**row, "java": json.loads(line)} for row, line in zip(rows, lines_of(cases), strict=True)]
    VECTORS.write_text("[\n" + ",\n".join(map(json.dumps, made)) + "\n]\n")


if __name__ == "__main__":
    main()
