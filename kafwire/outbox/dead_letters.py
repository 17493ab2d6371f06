"""Dead letters of an outbox: the table or topic for rows that Kafka refuses, and their records. Pure.

| header | value |
|---|---|
| `kafwire.origin.topic` | the row's topic |
| `kafwire.outbox.id` | the row's id, as text |
| `kafwire.outbox.headers` | the column `headers`, if it is neither a JSON object nor a list of pairs |
| `kafwire.error.class` | the error's class, with its module |
| `kafwire.error.message` | the error's text, of at most 1000 characters |
"""

from __future__ import annotations

from typing import NamedTuple

from kafwire.errors import ConfigError, KafkaError
from kafwire.outbox.rows import OutboxRow

ORIGIN_TOPIC = "kafwire.origin.topic"
ROW_ID = "kafwire.outbox.id"
ERROR_CLASS = "kafwire.error.class"
ERROR_MESSAGE = "kafwire.error.message"
REASON_CHARACTERS = 1000


class DeadLetters(NamedTuple):
    """The table or the topic for refused rows; if neither is given, the relay stops at such a row."""

    table: str | None
    topic: str | None

    def check(self, outbox: str) -> None:
        """Raise ConfigError if both are given, or the table is the outbox itself."""
        if self.table is not None and self.topic is not None:
            raise ConfigError("dead_letter_table and dead_letter_topic: only one of them can be set")
        if self.table is not None and self.table.lower() == outbox.lower():
            raise ConfigError(f"dead_letter_table={self.table!r}: this is the outbox itself; give another table")


def reason_of(error: KafkaError) -> str:
    """Return the error's text for databases and headers: NUL and surrogates are escaped in it."""
    return f"{error}"[:REASON_CHARACTERS]


def letter_of(row: OutboxRow, error: KafkaError) -> OutboxRow:
    """Return the row as its dead letter: the unchanged record, with its topic and the reason in headers."""
    kind = type(error)
    added = {
        ORIGIN_TOPIC: row.topic.encode("utf-8", "backslashreplace"),
        ROW_ID: b"%d" % row.id,
        ERROR_CLASS: f"{kind.__module__}.{kind.__qualname__}".encode(),
        ERROR_MESSAGE: reason_of(error).encode(),
    }
    own = [(name, value) for name, value in row.headers if name not in added]
    return row._replace(headers=(*own, *added.items()), problem=None)
