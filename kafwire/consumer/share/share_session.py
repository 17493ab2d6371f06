"""A member's share session with one broker (KIP-932): epoch, partitions, and the contents of the next request. Pure.

The first request opens the session with epoch 0 and names all partitions; later ones name new partitions, dropped
ones, and acknowledgements. The next request is built after the response to the last one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafwire.consumer.share.acquired import AckBatch, Place

OPENS, CLOSES = 0, -1
LAST_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ShareTopics:
    """The partitions of a request, by topic id."""

    epoch: int
    topics: dict[uuid.UUID, dict[int, list[AckBatch]]]
    forgotten: dict[uuid.UUID, list[int]] = field(default_factory=dict)


class ShareSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self.epoch = OPENS
        self._known: set[Place] = set()
        self._asked: set[Place] = set()

    @property
    def is_open(self) -> bool:
        """True if the broker has a session of this member, as far as the member knows."""
        return self.epoch != OPENS

    def fetch(self, wanted: Iterable[Place], acknowledged: Mapping[Place, list[AckBatch]]) -> ShareTopics:
        """Return the partitions of the next ShareFetch. The first one of a session has no acknowledgements."""
        self._asked = set(wanted)
        said = acknowledged if self.is_open else {}
        places = (self._asked - self._known) | set(said) if self.is_open else self._asked
        gone = self._known - self._asked if self.is_open else set()
        return ShareTopics(self.epoch, _by_topic({place: said.get(place, []) for place in places}), _numbers(gone))

    def acknowledge(self, acknowledged: Mapping[Place, list[AckBatch]], *, closes: bool = False) -> ShareTopics:
        """Return the partitions of the next ShareAcknowledge; with `closes` it is the last one of the session."""
        self._asked = set(self._known)
        return ShareTopics(CLOSES if closes else self.epoch, _by_topic(acknowledged))

    def on_response(self) -> None:
        """Note that the broker has executed the request."""
        self._known = self._asked
        self.epoch = 1 if self.epoch in (OPENS, LAST_EPOCH) else self.epoch + 1

    def reset(self) -> None:
        """Forget the session, which may be lost: the next request opens another. Its acquired records are released."""
        self.epoch = OPENS
        self._known = set()


def _by_topic(places: Mapping[Place, list[AckBatch]]) -> dict[uuid.UUID, dict[int, list[AckBatch]]]:
    grouped: dict[uuid.UUID, dict[int, list[AckBatch]]] = {}
    for (topic_id, number), batches in sorted(places.items(), key=lambda pair: (pair[0][0].int, pair[0][1])):
        grouped.setdefault(topic_id, {})[number] = batches
    return grouped


def _numbers(places: Iterable[Place]) -> dict[uuid.UUID, list[int]]:
    grouped: dict[uuid.UUID, list[int]] = {}
    for topic_id, number in sorted(places, key=lambda place: (place[0].int, place[1])):
        grouped.setdefault(topic_id, []).append(number)
    return grouped
