"""Where tests get their seeds, and how many examples they draw: nowhere else is chance asked for one.

By default a seed follows from the test's name, so that every run makes the same choices. The environment changes that:

    KAFWIRE_SEED=7           every test that is run begins with seed 7: what a failed test says repeats its choices
    KAFWIRE_SEED=fresh       drawn for this run; its header says which, as fresh:NUMBER, which can be given too
    KAFWIRE_EXAMPLES=10      ten times as many examples

`tests/conftest.py` names the running test to this module, and seeds Python's own `random` as well.
"""

import hashlib
import os
import random
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

VARIABLE = "KAFWIRE_SEED"
FRESH = "fresh"


def _read() -> tuple[int | None, int | None]:
    """The seed of every test, or the number that seeds are derived from in this run; neither by default."""
    text = os.environ.get(VARIABLE, "")
    if text == FRESH:
        # The workers of pytest-xdist and the programs that tests start inherit it: all of a run derive from one number.
        text = os.environ[VARIABLE] = f"{FRESH}:{random.SystemRandom().randrange(1 << 32)}"
    if text.startswith(f"{FRESH}:"):
        return None, int(text.partition(":")[2])
    return (int(text) if text else None), None


GIVEN, DRAWN = _read()
_test = ""
_calls = count()


def examples(usual: int) -> int:
    """How many examples a test draws: `usual`, times $KAFWIRE_EXAMPLES, which is more than 1 for a long run."""
    return max(1, round(usual * float(os.environ.get("KAFWIRE_EXAMPLES", "1"))))


def is_long(config: pytest.Config) -> bool:
    """True if tests that are marked `long` run, and others in their larger form."""
    return bool(config.getoption("--long", default=False)) or examples(100) > 100


def derived(*parts: object) -> int:
    """A seed below 2**32 that follows from all of these."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:4])


def base(name: str) -> int:
    """The seed of whatever has this name, the same each time it is asked for."""
    if GIVEN is not None:
        return GIVEN
    return derived(name) if DRAWN is None else derived(DRAWN, name)


def of(name: str) -> int:
    """The seed of a module, or of a fixture that lives longer than a test, printed."""
    seed = base(name)
    print(f"seed={seed} of {name}")
    return seed


def of_test() -> int:
    """The seed of the test that is running, printed; another one each time that the test asks."""
    assert _test, "no test is running: a module and a fixture of its scope ask for seeds.of(name)"
    number = next(_calls)
    seed = derived(base(_test), number) if number else base(_test)
    print(f"seed={seed}")
    return seed


def several(usual: int) -> pytest.MarkDecorator:
    """A test that runs `usual` times, each time with a `seed` of its own, and more often in a long run."""
    return pytest.mark.parametrize("seed", range(examples(usual)), indirect=True)


def begin(name: str) -> None:
    """A test begins."""
    global _test, _calls
    _test, _calls = name, count()
    random.seed(base(name))


def header() -> str:
    """The line about seeds in the log of a run."""
    if GIVEN is not None:
        return f"seeds: {GIVEN} for every test"
    return "seeds: by the tests' names" if DRAWN is None else f"seeds: {VARIABLE}={FRESH}:{DRAWN}"


def sampled(cases: Iterable[Any], *every_run: Any) -> list[Any]:
    """Parameters of a test: all cases, but only those named run in every run, and the others in long runs.

    A case of several values is a tuple, which is named by its first value.
    """
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    firsts = [case[0] for case in values]
    missing = [case for case in every_run if case not in firsts]
    assert not missing, f"no such case: {missing}"
    return [pytest.param(*case, marks=[] if case[0] in every_run else pytest.mark.long) for case in values]
