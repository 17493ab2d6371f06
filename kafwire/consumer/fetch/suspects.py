"""Partitions that are requested alone, to find the one whose batch makes a response too long.

A broker exceeds the requested size by one batch, the first (KIP-74). A response above `max_frame_bytes` does not name
the partition of that batch, so each of the request's partitions is requested alone, once: the batch fails its
partition, and the others are fetched together again. The partition fails last, because the next read raises its error
before records that arrive later. Pure: `broker_fetcher.py` sends the requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.errors import KafkaError, RecordTooLargeError


class Suspects:
    """The suspects of one read, on all connections."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._suspects: dict[FetchCursor, None] = {}
        self._convicted: dict[FetchCursor, tuple[int, KafkaError]] = {}  # offset, error: fail once no suspect is left
        self.are_pending = False  # True if there is any suspect or convicted partition

    def note(self, asked: Mapping[FetchCursor, int], error: KafkaError) -> None:
        """Suspect the partitions of a request by their offsets, or convict a suspect that was the only one.

        So a batch fails its partition at the second such response: the first one may have been damaged.
        """
        known = [cursor for cursor in asked if len(asked) == 1 and cursor in self._suspects]
        self._suspects.update(dict.fromkeys(asked))
        for cursor in known:
            self._suspects.pop(cursor, None)
            if asked[cursor] == cursor.position:
                self._convicted[cursor] = cursor.position, self._too_large(cursor, error)
        self._count()

    def _too_large(self, cursor: FetchCursor, error: KafkaError) -> RecordTooLargeError:
        return RecordTooLargeError(
            f"the batch of {cursor.name} at offset {cursor.position} makes a response that is longer than "
            f"max_frame_bytes ({self._max_frame_bytes}): raise max_frame_bytes, or seek behind the batch ({error})"
        )

    def first(self, cursors: Iterable[FetchCursor]) -> FetchCursor | None:
        """Return the first suspect of these cursors: it is requested alone."""
        return next((cursor for cursor in cursors if cursor in self._suspects), None)

    def take_error(self, cursor: FetchCursor) -> KafkaError | None:
        """Return the error of a convicted partition, once; None for others, and after a seek."""
        offset, error = self._convicted.pop(cursor, (-1, None))
        self._count()
        return error if offset == cursor.position else None

    def clear(self, cursor: FetchCursor) -> None:
        """Clear a suspect whose response was short enough."""
        self._suspects.pop(cursor, None)
        self._count()

    def forget(self, cursor: FetchCursor) -> None:
        """Drop a cursor."""
        self._convicted.pop(cursor, None)
        self.clear(cursor)

    def _count(self) -> None:
        self.are_pending = bool(self._suspects or self._convicted)
