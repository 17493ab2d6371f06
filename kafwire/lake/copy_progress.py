"""The progress of a copy: the offsets behind its records, stored in the same step as the records. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

from kafwire.errors import KafkaError
from kafwire.lake.resume import check_topic_id


@dataclass(frozen=True, slots=True)
class Progress:
    """The offsets behind a copy's records. `commit` tells one commit from another with equal offsets."""

    topic: str
    topic_id: str
    offsets: Mapping[int, int]
    commit: str

    @classmethod
    def new(cls, topic: str, topic_id: UUID, offsets: Mapping[int, int]) -> Progress:
        """Make the progress of one commit."""
        return cls(topic, str(topic_id), dict(offsets), uuid4().hex)

    @classmethod
    def parsed(cls, text: str | bytes, where: str, remedy: str) -> Progress:
        """Read `text`. Raises `KafkaError` with `where` and `remedy` if it is damaged."""
        try:
            found = json.loads(text)
            offsets = {int(partition): int(offset) for partition, offset in found["offsets"].items()}
            return cls(str(found["topic"]), str(found["topic_id"]), offsets, str(found["commit"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise KafkaError(f"{where} is damaged ({type(error).__name__}: {error}): {remedy}") from None

    def check(self, topic: str, topic_id: UUID, where: str) -> None:
        """Raise `KafkaError` if this is the progress of another topic, or of an earlier one of the same name."""
        if self.topic != topic:
            raise KafkaError(f"{where} is of the topic {self.topic!r}: give this copy another --name")
        check_topic_id(topic, self.topic_id, topic_id, where=where, remedy="copy it under another --name")

    @property
    def text(self) -> str:
        """The stored form, JSON."""
        offsets = {str(partition): offset for partition, offset in sorted(self.offsets.items())}
        found = {"topic": self.topic, "topic_id": self.topic_id, "offsets": offsets, "commit": self.commit}
        return json.dumps(found, separators=(",", ":"))
