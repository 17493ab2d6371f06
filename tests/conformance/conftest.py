"""One Java process for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.conformance.oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with Oracle() as started:
        yield started
