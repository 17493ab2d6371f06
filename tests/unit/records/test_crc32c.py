"""CRC-32C: every implementation this processor runs, against the `crc32c` package and other clients' values."""

import gzip
import json
import platform
import random
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kafwire._codec import crc32c_implementations, crc32c_of
from tests.support import seeds

VECTORS = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "made.json.gz").read_bytes()))["vectors"]
IMPLEMENTATIONS = [pytest.param(i, id=name) for i, name in enumerate(crc32c_implementations())]
# The kernel's names of the instructions that each implementation uses, in the order of preference.
NEEDS = {
    "avx512": {"sse4_2", "pclmulqdq", "avx512f", "vpclmulqdq"},
    "sse4.2": {"sse4_2", "pclmulqdq"},
}
# around the sizes of words, of the short (3 * 128) and of the long (3 * 2048) interleaved blocks; where vectors begin
# to be used (1024), and around their stride (256)
SIZES = [
    *(*range(80), *range(376, 402), *range(760, 776), *range(1016, 1032), *range(1272, 1288), *range(1530, 1800)),
    *(*range(6136, 6152), 6528, 12_288 + 384 + 8 + 1, 100_003),
]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("vector", [v for v in VECTORS if v["kind"] == "crc32c"], ids=lambda v: v["id"])
def test_values_of_other_clients(implementation: int, vector: dict[str, Any]) -> None:
    assert crc32c_of(bytes.fromhex(vector["hex"]), 0, implementation) == vector["expect"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_size_and_alignment(implementation: int) -> None:
    seed = seeds.of_test()
    data = memoryview(random.Random(seed).randbytes(max(SIZES) + 8))
    for size in SIZES:
        for start in (0, 1, 3, 7):
            part = data[start : start + size]
            assert crc32c_of(part, 0, implementation) == crc32c.crc32c(part), (size, start)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_goes_on_where_it_stopped(implementation: int) -> None:
    data = bytes(range(256)) * 40
    for cut in (0, 1, 100, 385, 6145, len(data)):
        first = crc32c_of(data[:cut], 0, implementation)
        assert crc32c_of(data[cut:], first, implementation) == crc32c.crc32c(data)


def test_the_table_is_always_there() -> None:
    assert crc32c_implementations()[-1] == "table"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names of x86-64's flags")
def test_the_processors_instructions_are_used() -> None:
    """CPUID as the extension reads it, against the kernel: a compiler's table of features may be empty."""
    (flags, *_) = (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    has = set(flags.split())
    wanted = [name for name, needs in NEEDS.items() if needs <= has]
    assert crc32c_implementations() == [*wanted, "table"]
