"""Log lines for errors that fetching retries: one for each cause, and one for failures that last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafwire.cluster.partition_names import listed
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.errors import FetchErrors
from kafwire.errors import BrokerError, KafkaError, name_of
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import consumer_log as log

WARN_MS = 10_000


class FetchErrorLog(FetchErrors):
    """Counts errors by their cause, and logs them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def note_error(self, where: str, error: BrokerError, cursors: Iterable[FetchCursor]) -> None:
        """Count an error that is retried, and log it once."""
        for cursor in cursors:
            cursor.warned = True
        self.warn_once(where, error)

    def warn_once(self, where: str, error: KafkaError, before: str = "") -> None:
        """Count an error that is retried, and log it once, after the text `before`."""
        what = name_of(error)
        if self.note(where, what, self._engine.now_ms()):
            log.warning("%s%s; this is tried again", before, error, error=error, place=where)

    def warn_of(self, failing: Mapping[FetchCursor, KafkaError], before: str) -> None:
        """Count errors that are retried, and log one line for the new ones; `before` is a template for the names."""
        now_ms = self._engine.now_ms()
        new = [cursor for cursor, error in failing.items() if self.note(cursor.name, name_of(error), now_ms)]
        if new:
            names = [cursor.name for cursor in new]
            log.warning(
                "%s%s; this is tried again",
                before.format(listed(names)),
                failing[new[0]],
                error=failing[new[0]],
                partitions=names,
            )

    def warn_late(self, lost: list[FetchCursor], error: object) -> None:
        """Log once that partitions could not be read for `WARN_MS`: a waiting user would not know the reason."""
        before = self._engine.now_ms() - WARN_MS
        late = [c for c in lost if not c.warned and c.failing_since_ms is not None and c.failing_since_ms < before]
        for cursor in late:
            cursor.warned = True
        if late:
            more = f" and {len(late) - 1} more partitions" if len(late) > 1 else ""
            log.warning(
                "%s%s could not be read for %d s: %s; this is tried again",
                late[0].name,
                more,
                WARN_MS // 1000,
                error,
                error=error,
                partitions=[cursor.name for cursor in late],
            )
