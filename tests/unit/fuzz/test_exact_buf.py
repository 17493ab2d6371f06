"""`fuzz/native/exact_buf.c` stands in for the pool in every fuzz program, so it defines each function of `buf.h`."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DECLARED = re.compile(r"^[a-z_0-9]+ \**(kw_\w+)\(", re.MULTILINE)


def functions_of(path: str) -> set[str]:
    return set(DECLARED.findall((ROOT / path).read_text()))


def test_the_stand_in_defines_every_function_of_the_pool() -> None:
    declared = functions_of("kafwire/memory/native/buf.h")
    assert "kw_pool_limit" in declared
    assert declared - functions_of("fuzz/native/exact_buf.c") == set()
