"""The progress that a relay stores with each Kafka transaction: the rows whose records are in it. Pure.

It is the value of a record of the state topic, with the transactional id as key, and human-readable JSON. Rows are
identified by their ids, and by a CRC-32 of their columns: another row that gets the same id later, because the table
was emptied, restored or recreated, is not mistaken for the relayed one.
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
# For a row that goes to a dead letter table: a relay that knows only version 1 would delete that row.
LETTER_VERSION = 2


class Letter(NamedTuple):
    """The destination of the refused rows of a Kafka transaction.

    Args:
        table: the dead letter table.
        reason: the text of the error.
    """

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The rows of one Kafka transaction.

    Args:
        number: how many transactions the relay has committed, including this one.
        rows: the CRC-32 of each row by its id, in the order of sending.
        letter: the destination of refused rows; None: their records are in the transaction, and the rows are removed.
    """

    number: int
    rows: dict[int, int]
    letter: Letter | None = None

    def encode(self) -> bytes:
        """Return the value of the state topic's record."""
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
        """Decode a value of the state topic.

        Raises:
            ProtocolError: the value is not one of `encode`.
        """
        try:
            found = json.loads(value)
            if found["version"] not in (VERSION, LETTER_VERSION):
                raise ValueError(f"its version is {found['version']}, but {VERSION} and {LETTER_VERSION} are known")
            ids = list(_ids(found["ids"]))
            checks = struct.unpack(f">{len(ids)}I", base64.b64decode(found["crc32"], validate=True))
            letter = None
            if found["version"] == LETTER_VERSION:
                letter = Letter(check_name(found["letter"]["table"]), str(found["letter"]["reason"]))
            return cls(int(found["number"]), dict(zip(ids, checks, strict=True)), letter)
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise ProtocolError(f"the relay's state cannot be read: {error}: {value[:200]!r}") from None


def ranges(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Join consecutive ids to (first, last), ascending."""
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
