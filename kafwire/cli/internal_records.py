"""Renders records of Kafka's internal topics for `kafwire consume`: keys and values decoded, as JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafwire.cli.output import escaped_controls
from kafwire.cli.template import Part
from kafwire.protocol.coordinator_json import CoordinatorTopic, coordinator_topic, key_json, value_json
from kafwire.records._text import Renderer

if TYPE_CHECKING:
    from kafwire import Batch, Record

__all__ = ["TopicRenderer"]

_Cell = Callable[["Record", CoordinatorTopic], Any]
# The other forms are sizes, which remain those of the bytes.
_DECODED = {"raw", "text", "json"}


def _key(record: "Record", topic: CoordinatorTopic) -> Any:
    return key_json(topic, record.key)


def _value(record: "Record", topic: CoordinatorTopic) -> Any:
    return value_json(topic, record.key, record.value)


class TopicRenderer:
    """A `Renderer` that decodes the records of internal topics, and prints other topics' records unchanged."""

    def __init__(self, parts: Sequence[Part], null: bytes) -> None:
        self._null = null
        self._as_json = any(isinstance(part, tuple) and part[1] == "json" for part in parts)
        self._plain = Renderer(parts, null=null)
        self._pieces: list[Renderer | _Cell] = []
        between: list[Part] = []
        for part in parts:
            cell = _key if part[0] == "key" else _value if part[0] == "value" else None
            if isinstance(part, tuple) and cell is not None and part[1] in _DECODED:
                self._pieces += [Renderer(between, null=null), cell]
                between = []
            else:
                between.append(part)
        self._pieces.append(Renderer(between, null=null))
        # The type in the key determines the message of the value.
        self.columns: tuple[str, ...] = tuple(sorted({*self._plain.columns, "key"}))

    def render(self, batch: "Batch", start: int, stop: int) -> Iterator[bytes]:
        """Yield the text of rows [start, stop)."""
        topic = coordinator_topic(batch.topic or "")
        if topic is None:
            yield from self._plain.render(batch, start, stop)
            return
        for row in range(start, stop):
            record = batch[row]
            for piece in self._pieces:
                if isinstance(piece, Renderer):
                    yield from piece.render(batch, row, row + 1)
                else:
                    yield self._text(piece(record, topic))

    def _text(self, value: Any) -> bytes:
        if value is None and not self._as_json:
            return self._null
        return escaped_controls(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()
