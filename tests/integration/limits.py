"""Time limits that tests hold kafwire to: what must be over soon, and what may not be over too soon."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(seconds: float, at_least: float = 0.0) -> Iterator[None]:
    """Fail unless the block takes between `at_least` and `seconds`; generous, as machines are busy."""
    begin = time.monotonic()
    yield
    taken = time.monotonic() - begin
    assert at_least <= taken <= seconds, f"took {taken:.2f} s, not {at_least:g} to {seconds:g} s"
