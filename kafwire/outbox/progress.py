"""What a relay writes down with each Kafka transaction: the rows whose records are in it. Pure.

It is the value of a record of the state topic, whose key is the transactional id: JSON, so that people can read it.
The rows are known by their ids, and by a CRC-32 of what was in them: another row that got the same id later, because
the table was emptied, restored or made anew, is not taken for the one that was relayed.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafwire.database.connections import check_name
from kafwire.errors import ProtocolError

VERSION = 1
# With a row that goes into a table of dead letters: a relay that knows version 1 alone would delete that row.
LETTER_VERSION = 2


class Letter(NamedTuple):
    """Where the rows of a Kafka transaction go, if Kafka has refused them.

    Args:
        table: the table of dead letters.
        reason: the text of the error.
    """

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The rows of one Kafka transaction.

    Args:
        number: how many transactions the relay has committed with this one.
        rows: the CRC-32 of each row by its id, in the order in which they were sent.
        letter: where the rows go; None: their records are in the transaction, and the rows are removed.
    """

    number: int
    rows: dict[int, int]
    letter: Letter | None = None

    def encode(self) -> bytes:
        """The value of the state topic's record."""
        ids = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges(self.rows))
        checks = struct.pack(f">{len(self.rows)}I", *(check for _, check in sorted(self.rows.items())))
        made: dict[str, Any] = {
            "version": VERSION if self.letter is None else LETTER_VERSION,
            "number": self.number,
            "ids": ids,
            "crc32": base64.b64encode(checks).decode(),
        }
        if self.letter is not None:
            made["letter"] = self.letter._asdict()
        return json.dumps(made, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Progress:
        """What was written down.

        Raises:
            ProtocolError: the value is not one of `encode`.
        """
        try:
            found = json.loads(value)
            if found["version"] not in (VERSION, LETTER_VERSION):
                raise ValueError(f"its version is {found['version']}, and {VERSION} and {LETTER_VERSION} are known")
            ids = list(_ids(found["ids"]))
            checks = struct.unpack(f">{len(ids)}I", base64.b64decode(found["crc32"], validate=True))
            letter = None
            if found["version"] == LETTER_VERSION:
                letter = Letter(check_name(found["letter"]["table"]), str(found["letter"]["reason"]))
            return cls(int(found["number"]), dict(zip(ids, checks, strict=True)), letter)
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise ProtocolError(f"a relay's state that cannot be read: {error}: {value[:200]!r}") from None


def ranges(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ids as (first, last) of consecutive ones, ascending."""
    first = last = None
    for number in sorted(ids):
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = number
    if first is not None and last is not None:
        yield first, last


def _ids(text: str) -> Iterator[int]:
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)
