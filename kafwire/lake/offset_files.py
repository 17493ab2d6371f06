"""Files named by the offsets that they have: `<first>-<after>.parquet`, `after` exclusive. Pure.

The names are the only record of a copy's progress. So the progress and the records become visible in one step, when a
whole file gets its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from kafwire.errors import KafkaError

_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")


class OffsetFile(NamedTuple):
    """A file with the records of the offsets [first, after) of one partition."""

    first: int
    after: int

    @property
    def name(self) -> str:
        """The name, which sorts by offset."""
        return f"{self.first:020}-{self.after:020}.parquet"


def files_of(names: Iterable[str]) -> list[OffsetFile]:
    """Return the files among the names of a folder, in order. Files that overlap raise `KafkaError`."""
    found = sorted(OffsetFile(int(each[1]), int(each[2])) for name in names if (each := _NAME.fullmatch(name)))
    for before, behind in pairwise(found):
        if before.after > behind.first:
            raise KafkaError(
                f"{before.name} and {behind.name} overlap: two copies were written to one folder; keep the files of one"
            )
    return found
