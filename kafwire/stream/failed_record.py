"""Failed records as messages of retry topics and dead letters: the unchanged record, and headers about the failure.

| header | value |
|---|---|
| `kafwire.origin.topic`, `.partition`, `.offset` | where the record was first read, as text |
| `kafwire.origin.timestamp_ms` | its timestamp, if it had one; the message has a timestamp of its own |
| `kafwire.error.class` | the error's class, with its module unless it is Python's own |
| `kafwire.error.message` | the error's text, of at most 1000 characters |
| `kafwire.error.step` | the step that raised, such as `map(parse)`, `for_each(bill)`, `sink` |
| `kafwire.attempts` | how many calls have failed, in all topics together |
| `kafwire.due_ms` | in a retry topic: not before, in milliseconds since the epoch |
"""

from __future__ import annotations

from kafwire.records._records import Record
from kafwire.stream.message import Message

PREFIX = "kafwire."
ORIGIN_TOPIC = "kafwire.origin.topic"
ORIGIN_PARTITION = "kafwire.origin.partition"
ORIGIN_OFFSET = "kafwire.origin.offset"
ORIGIN_TIMESTAMP = "kafwire.origin.timestamp_ms"
ERROR_CLASS = "kafwire.error.class"
ERROR_MESSAGE = "kafwire.error.message"
ERROR_STEP = "kafwire.error.step"
ATTEMPTS = "kafwire.attempts"
DUE_MS = "kafwire.due_ms"
OURS = {
    *(ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, ORIGIN_TIMESTAMP, ERROR_CLASS, ERROR_MESSAGE, ERROR_STEP),
    *(ATTEMPTS, DUE_MS),
}
MESSAGE_CHARACTERS = 1000
_HIGHEST = (1 << 63) - 1


def failed(
    record: Record, error: BaseException, attempts: int, topic: str, due_ms: int | None = None, step: str = ""
) -> Message:
    """Return the message for `topic`, after `attempts` failed calls of `step` since the record was read."""
    known = dict(record.headers)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    added = {
        ORIGIN_TOPIC: known.get(ORIGIN_TOPIC) or (record.topic or "").encode(),
        ORIGIN_PARTITION: known.get(ORIGIN_PARTITION) or str(record.partition).encode(),
        ORIGIN_OFFSET: known.get(ORIGIN_OFFSET) or str(record.offset).encode(),
        ERROR_CLASS: name.encode("utf-8", "replace"),
        ERROR_MESSAGE: text_of(error)[:MESSAGE_CHARACTERS].encode("utf-8", "replace"),
        ERROR_STEP: step.encode("utf-8", "replace"),
        ATTEMPTS: str(attempts + (_number(record, ATTEMPTS) or 0)).encode(),
    }
    if ORIGIN_TIMESTAMP in known or (ORIGIN_TOPIC not in known and record.timestamp_ms is not None):
        added[ORIGIN_TIMESTAMP] = known.get(ORIGIN_TIMESTAMP) or str(record.timestamp_ms).encode()
    if due_ms is not None:
        added[DUE_MS] = str(due_ms).encode()
    own = [(header, value) for header, value in record.headers if header not in OURS]
    return Message(record.value, record.key, [*own, *added.items()], topic=topic, as_bytes=True)


def text_of(error: BaseException) -> str:
    """Return the error's text, even if its own `__str__` raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # whatever a user's class raises
        return "(its str() failed)"


def due_ms(record: Record) -> int:
    """Return when a record of a retry topic is due, in milliseconds since the epoch; 0 without the header."""
    return _number(record, DUE_MS) or 0


def _number(record: Record, header: str) -> int | None:
    text = dict(record.headers).get(header)
    try:
        number = int(text) if text else None
    except ValueError:  # not written by a stream
        return None
    return None if number is None or number > _HIGHEST else number
