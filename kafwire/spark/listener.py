"""`listen`: reports the lag of a session's streams after each batch, and commits the last batch for `commitGroup`.

`stream_progress` computes; this module gets Spark's events and calls the hook. Spark calls listeners one event after
the other in a thread of its own, after the batch's commit.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafwire.errors import ConfigError, KafkaError
from kafwire.spark.group_commits import GroupCommits
from kafwire.spark.lookup import client_options
from kafwire.spark.plan import is_wanted
from kafwire.spark.stream_options import stream_options
from kafwire.spark.stream_progress import BatchProgress, ProgressHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kafwire.spark.stream_options import StreamOptions

log = logging.getLogger("kafwire.spark")


def listen(
    spark: SparkSession,
    hook: Callable[[dict[str, Any]], object] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    query: str | None = None,
) -> ProgressListener:
    """Report how far the session's streams are behind, after each batch.

    Each batch is a line of the log `kafwire.spark` at INFO, and a call of `hook`, if there is one, with a dict:
    `query` (its name, else its id), `run_id`, `batch`, `seconds`, `rows`, `rows_per_second`, and `topics`, which has
    for each topic `backlog` (unread offsets), `lag` (those of the partition with most), `rate` and `arrival_rate`
    (offsets per second) and `seconds_behind`. None stands for a number that Spark's reports lack.

    Args:
        spark: the session.
        hook: a function that is called after each batch, in Spark's thread for listeners: it should return soon. An
            error in it is logged.
        options: the options of a stream, as given to its reader. If `commitGroup` is among them, the end of the last
            batch is committed for that group when a query that reads these topics ends without an error; the source
            itself cannot know that its last batch was completed. None: nothing is committed.
        query: the name of the query that `options` belong to; None: any query of the session.

    Returns:
        The listener. `spark.streams.removeListener(listener)` ends it.

    Raises:
        ConfigError: `options` are not those of a stream, or have no `commitGroup`.

    Example:
        >>> from kafwire.spark import listen
        >>> options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights", "commitGroup": "archive"}
        >>> listener = listen(spark, hook=print, options=options)
        >>> listener.metrics()
        {}
    """
    listener = ProgressListener(hook, None if options is None else LastBatch(options), query)
    spark.streams.addListener(listener)
    return listener


class LastBatch:
    """Commits the end of a query's last batch for `commitGroup`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options; no connection is opened yet."""
        self._options: StreamOptions = stream_options(options)
        if self._options.commit_group is None:
            raise ConfigError(
                "listen(options=): the option commitGroup is missing: name the group, or leave options out"
            )

    def commit(self, progress: BatchProgress) -> None:
        """Commit the partitions of the options. A failure is a warning: Spark's checkpoint has the offsets too."""
        options, group = self._options, self._options.commit_group
        assert group is not None
        assigned = options.read.assign
        wanted = {
            place: offset
            for place, offset in progress.ends.items()
            if (place in assigned if assigned is not None else is_wanted(options.read, place.topic))
        }
        if not wanted:
            return
        try:
            commits = GroupCommits(group, client_options(options.read))
            try:
                commits.commit(wanted)
            finally:
                commits.close()
        except KafkaError as error:
            log.warning("the offsets of the last batch could not be committed for group %s: %s", group, error)


class ProgressListener(StreamingQueryListener):
    """A listener of Spark that `listen` makes."""

    def __init__(
        self,
        hook: Callable[[dict[str, Any]], object] | None = None,
        last_batch: LastBatch | None = None,
        query: str | None = None,
    ) -> None:
        self._hook = hook
        self._last_batch = last_batch
        self._query = query
        self._histories: dict[str, ProgressHistory] = {}  # by run
        self._last: dict[str, BatchProgress] = {}
        self._over: set[str] = set()
        self._lock = threading.Condition()

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the last batch of each running query.

        Returns:
            By the query's name, or its id if it has none, the dict that a hook gets.

        Example:
            >>> from kafwire.spark import listen
            >>> listen(spark).metrics()
            {}
        """
        with self._lock:
            return {progress.query: progress.as_metrics() for progress in self._last.values()}

    def wait_for_end(self, run_id: str, timeout_s: float) -> bool:
        """Wait until a run has ended, and its last batch is reported and committed.

        Spark calls listeners some time after `awaitTermination` returns, and no more after `spark.stop()`.

        Args:
            run_id: the query's `runId`.
            timeout_s: how long to wait, in seconds.

        Returns:
            False if it has not ended by then.

        Example:
            >>> from kafwire.spark import listen
            >>> listen(spark).wait_for_end("524d09d7-23ca-42c2-8a29-bcdcc44567d0", 0.0)
            False
        """
        with self._lock:
            return self._lock.wait_for(lambda: run_id in self._over, timeout_s)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Note a run."""
        with self._lock:
            self._histories[str(event.runId)] = ProgressHistory()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report a batch."""
        report = json.loads(event.progress.json)
        with self._lock:
            # A query may have started before this listener.
            progress = self._histories.setdefault(report["runId"], ProgressHistory()).add(report)
            self._last[report["runId"]] = progress
        log.info("%s", _line(progress))
        if self._hook is None:
            return
        try:
            self._hook(progress.as_metrics())
        except Exception:
            log.exception("the hook of kafwire.spark.listen failed")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: a query without a new batch has the numbers of its last one."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Forget a run, and commit its last batch if it ended without an error."""
        with self._lock:
            self._histories.pop(str(event.runId), None)
            progress = self._last.pop(str(event.runId), None)
        try:
            self._commit(progress, event.exception)
        finally:
            with self._lock:
                self._over.add(str(event.runId))
                self._lock.notify_all()

    def _commit(self, progress: BatchProgress | None, exception: str | None) -> None:
        if progress is None or self._last_batch is None or exception is not None:
            return
        if self._query is None or self._query == progress.query:
            self._last_batch.commit(progress)


def _line(progress: BatchProgress) -> str:
    topics = "".join(
        f"; {topic.topic}: {topic.backlog:,} offsets behind"
        + ("" if topic.seconds_behind is None else f", {topic.seconds_behind:.1f} s")
        for topic in progress.topics
    )
    return f"query {progress.query}, batch {progress.batch}: {progress.rows:,} rows in {progress.seconds:.1f} s{topics}"
