"""Time limits that tests hold kafwire to: what must be over soon, and what may not be over too soon."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

_CORES = os.cpu_count() or 1


@contextmanager
def within(seconds: float, at_least: float = 0.0) -> Iterator[None]:
    """Fail unless the block takes between `at_least` and `seconds`; more, where others keep the machine busy."""
    begin, load = time.monotonic(), os.getloadavg()[0]
    yield
    taken = time.monotonic() - begin
    at_most = seconds * max(1.0, load / _CORES, os.getloadavg()[0] / _CORES)
    assert at_least <= taken <= at_most, f"took {taken:.2f} s, not {at_least:g} to {at_most:g} s"
