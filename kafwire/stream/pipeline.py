"""`Pipeline`: the steps and policies of a stream, as a value that runs on any source and sink."""

from __future__ import annotations

import math
import pickle
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kafwire.errors import ConfigError
from kafwire.runtime.interfaces import Clock, Random
from kafwire.stream.argument_checks import are_errors, is_count, is_ratio, is_seconds, is_topic
from kafwire.stream.blocking import run_in_thread, signals_stop
from kafwire.stream.dead_letter_limits import DeadLetterLimits
from kafwire.stream.failure_policy import FailurePolicy, RetryTopic
from kafwire.stream.interfaces import Sink, Source, TransactionalSink
from kafwire.stream.invocation import is_async, is_async_generator, is_generator
from kafwire.stream.limits import Limits
from kafwire.stream.monitor import StreamMonitor
from kafwire.stream.partition_hooks import Hook, PartitionHooks
from kafwire.stream.runner import Guarantee, Settings, StreamRun
from kafwire.stream.steps import Filter, FlatMap, ForEach, Gather, Lane, Map, Reduce, RunIn, Step, plan
from kafwire.stream.stop_request import StopRequest
from kafwire.stream.summary import StreamSummary

GUARANTEES = ("at_least_once", "at_most_once", "exactly_once")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# With exactly-once, the delay for readers of committed records. Otherwise the interval of a consumer's auto-commit.
TRANSACTION_S, COMMIT_S = 0.1, 5.0
_DEFAULT_FAILURES, _DEFAULT_LIMITS, _NO_HOOKS = FailurePolicy(), Limits(), PartitionHooks()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps from a source to a sink. It is immutable: each method returns a longer pipeline.

    Records go through the steps partition by partition, in order. Only `for_each` runs them in parallel. An offset is
    completed when the sink has stored all results of its record, and is committed when all earlier ones are completed
    too.

    Args:
        steps: see `map` and the others; none at first.
        failures: see `retry`, `retry_topics`, `dead_letters` and `skip_failures`.
        commit_every: see `commit`.
        commit_within: see `commit`.
        limit: see `limits`.
        hooks: see `on_partitions`.

    Example:
        >>> pipeline = kafwire.stream.Pipeline().filter(lambda order: order.value).map(lambda order: order.value[:3])
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books", b"", b"a lamp"]})
        >>> sink = kafwire.stream.MemorySink()
        >>> pipeline.run(source, sink).records
        3
        >>> sink.values
        [b'2 b', b'a l']
    """

    __module__ = "kafwire.stream"
    steps: tuple[Step, ...] = ()
    failures: FailurePolicy = _DEFAULT_FAILURES
    commit_every: int | None = None
    commit_within: float | None = None
    limit: Limits = _DEFAULT_LIMITS
    hooks: PartitionHooks = _NO_HOOKS

    # --- steps ------------------------------------------------------------------------------------------------------

    def map(self, function: Callable[[Any], Any]) -> Self:
        """Replace each value by a function's result.

        Args:
            function: takes a value: the `Record`, or the result of the step before. It is called in order, in the
                loop's thread, and must not block: use `for_each` for that.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: it is not a function, or an async one.
        """
        return self._with(Map(_sync("map", function)))

    def map_batches(self, function: Callable[[Any], Any]) -> Self:
        """Replace each whole `Batch` by a function's result. From here on values are batches.

        For example `lambda batch: pa.record_batch(batch)`. It comes before all other steps.

        Args:
            function: takes a `Batch`, or the result of the `map_batches` before.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: it is not a function, or an async one, or there are steps before it.
        """
        return self._with(Map(_sync("map_batches", function), batches=True))

    def filter(self, function: Callable[[Any], object]) -> Self:
        """Keep the values for which a function returns true. The offsets of the others count as processed.

        Args:
            function: takes a value, as for `map`.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: it is not a function, or an async one, or a generator.
        """
        if callable(function) and is_generator(function):
            raise ConfigError(f"filter({function!r}): a generator is always true; give a function that returns a bool")
        return self._with(Filter(_sync("filter", function)))

    def flat_map(self, function: Callable[[Any], Iterable[Any]]) -> Self:
        """Replace each value by any number of values. Its offset is completed when all of them are stored.

        Args:
            function: takes a value, as for `map`, and returns an iterable.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: it is not a function, or an async one.
        """
        return self._with(FlatMap(_sync("flat_map", function)))

    def batch(self, max_records: int, max_seconds: float | None = None) -> Self:
        """Gather values into lists, each of consecutive values of one partition.

        After `map_batches` a list has batches, and counts their rows; it is full when it has `max_records` or more.

        Args:
            max_records: a list is passed on when it has so many.
            max_seconds: or so long after its first value; None: no time limit.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: a number is below its minimum, or the pipeline has a `batch` or `for_each` already.
        """
        if not is_count(max_records) or not (max_seconds is None or is_seconds(max_seconds)):
            raise ConfigError(
                f"batch({max_records!r}, {max_seconds!r}): max_records must be 1 or more, max_seconds 0 or more"
            )
        return self._with(Gather(max_records, max_seconds))

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        initial: Callable[[], Any],
        *,
        by: Callable[[Any], Any] | None = None,
        max_values: int | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Fold values by key into one `Reduced` per key, until a key has enough values or its time is over.

        Each partition is folded separately. The offsets of a fold's records are completed when its result is stored.
        All folds of a partition also end when `max_uncommitted` offsets are uncommitted (`limits`), when the partition
        is revoked or the stream stops, and at the end of a transaction.

        Args:
            function: takes the folded value and a value, and returns the new folded value. It is called in order, in
                the loop's thread; if it raises, it must not have changed the folded value.
            initial: makes the folded value of a key before its first value, such as `int` or `list`.
            by: the key of a value; None: its record's key. Records without a key are folded together.
            max_values: a fold is passed on when it has so many values.
            max_seconds: or so long after its first value. At least one of both is needed.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: an argument is not a function, or an async one; a number is below its minimum; the pipeline has
                a `reduce`, `batch` or `for_each` already, or `map_batches`.

        Example:
            >>> pipeline = kafwire.stream.Pipeline().reduce(lambda total, order: total + int(order.value), int,
            ...                                             max_values=100, max_seconds=1.0)
            >>> orders = [(b"ann", b"2"), (b"bob", b"1"), (b"ann", b"3")]
            >>> sink = kafwire.stream.MemorySink()
            >>> pipeline.run(kafwire.stream.MemorySource({"orders": orders}), sink).records
            3
            >>> [(one.key, one.value, one.count) for one in sink.values]
            [(b'ann', 5, 2), (b'bob', 1, 1)]
        """
        functions = [_sync("reduce", one) for one in (function, initial, by) if one is not None]
        if function is None or initial is None or any(map(is_generator, functions)):
            raise ConfigError(f"reduce({function!r}, {initial!r}, by={by!r}): give functions that return values")
        is_valid = (max_values is None or is_count(max_values)) and (max_seconds is None or is_seconds(max_seconds))
        if not is_valid or (max_values is None and max_seconds is None):
            raise ConfigError(
                f"reduce(max_values={max_values!r}, max_seconds={max_seconds!r}): max_values must be 1 or more, "
                "max_seconds 0 or more, and one must be given"
            )
        return self._with(Reduce(function, initial, by, max_values, max_seconds))

    def for_each(
        self,
        handler: Callable[[Any], Any],
        *,
        workers: int = 1,
        by: Lane | Callable[[Any], Any] | None = "partition",
        run_in: RunIn | None = None,
        timeout_s: float | None = None,
    ) -> Self:
        """Call a handler for each value, several at once. Its result is passed on unless it is None.

        Args:
            handler: takes a value; a function, or an async one.
            workers: how many calls run at once, for all partitions together.
            by: the values that are handled in order: "key" (one call for each record key of a partition at a time;
                records without a key are not ordered), "partition", those with the same result of a function, or None:
                none.
            run_in: "tasks" (in the event loop), "threads" or "processes" (which import the handler by its name; values
                and results are pickled). None: tasks for an async handler, threads for others.
            timeout_s: how many seconds a call may take before it fails with `HandlerTimeoutError`. A task is cancelled;
                a process is killed (its start counts too). A thread cannot be stopped: its record is not retried in
                place.

        Returns:
            The longer pipeline.

        Raises:
            ConfigError: an argument is not valid, or the pipeline has a `for_each` already.
        """
        if not callable(handler):
            raise ConfigError(f"for_each({handler!r}): it must be a function")
        if not is_count(workers) or not (timeout_s is None or (is_seconds(timeout_s) and timeout_s)):
            raise ConfigError(f"for_each(workers={workers!r}, timeout_s={timeout_s!r}): they must be numbers above 0")
        if by not in (None, "key", "partition") and not callable(by):
            raise ConfigError(f'for_each(by={by!r}): it must be "key", "partition", a function or None')
        if is_generator(handler):
            raise ConfigError(f"for_each({handler!r}): a generator never runs here; return a list, and add flat_map()")
        chosen = run_in or ("tasks" if is_async(handler) else "threads")
        if chosen not in {"tasks", "threads", "processes"}:
            raise ConfigError(f'for_each(run_in={run_in!r}): it must be "tasks", "threads" or "processes"')
        if chosen != "tasks" and is_async(handler):
            raise ConfigError(f'for_each(run_in={run_in!r}): an async handler runs in "tasks"')
        if chosen == "processes":
            _check_pickled(handler)
        if chosen == "tasks" and timeout_s is not None and not is_async(handler):
            raise ConfigError('for_each(timeout_s=...): a sync handler in "tasks" cannot be stopped; use "threads"')
        return self._with(ForEach(handler, workers, by, chosen, timeout_s))

    # --- policies ---------------------------------------------------------------------------------------------------

    def commit(self, *, every: int | None = None, within: float | None = None) -> Self:
        """Choose when offsets are committed, or transactions with guarantee="exactly_once".

        The default is within 5 s, for transactions within 0.1 s or the `max_seconds` of `reduce`.

        Args:
            every: after so many offsets.
            within: so many seconds after the first of them, at the latest.

        Returns:
            The pipeline with it.

        Raises:
            ConfigError: neither is given, or one is below its minimum.
        """
        is_valid = (every is None or is_count(every)) and (within is None or is_seconds(within))
        if not is_valid or (every is None and within is None):
            raise ConfigError(
                f"commit(every={every!r}, within={within!r}): every must be 1 or more, within 0 or more, and one must "
                "be given"
            )
        return replace(self, commit_every=every, commit_within=within)

    def retry(
        self,
        attempts: int,
        *,
        backoff_s: float = 0.1,
        max_backoff_s: float = 30.0,
        on: type[Exception] | Sequence[type[Exception]] = Exception,
    ) -> Self:
        """Call a step again after it raised, in place: its key or partition waits, others continue.

        Args:
            attempts: how many calls there are, including the first.
            backoff_s: seconds before the second call; they double from call to call (+-20 %).
            max_backoff_s: the maximum of these seconds.
            on: the errors after which it is called again, or its record goes to a retry topic.

        Returns:
            The pipeline with it.

        Raises:
            ConfigError: a number is below its minimum, or `on` is no error class.
        """
        if not (is_count(attempts) and is_seconds(backoff_s) and is_seconds(max_backoff_s)):
            raise ConfigError(f"retry({attempts!r}): attempts must be 1 or more, seconds 0 or more")
        kinds = tuple(on) if isinstance(on, Iterable) else (on,)
        if not are_errors(kinds):
            raise ConfigError(f"retry(on={on!r}): it must be an exception class, or several")
        return replace(
            self,
            failures=replace(
                self.failures, attempts=attempts, backoff_s=backoff_s, max_backoff_s=max_backoff_s, on=kinds
            ),
        )

    def retry_topics(self, *topics: RetryTopic) -> Self:
        """Write records that still fail to topics, from which they are processed again when they are due.

        A record that fails goes to the first topic, one that fails there to the second, and so on. The stream's source
        must read them too. Order is not kept: later records of the same key are processed meanwhile.

        Args:
            topics: the topics with their delays.

        Returns:
            The pipeline with it.

        Raises:
            ConfigError: a topic is named twice, or is no `RetryTopic`.
        """
        if not all(isinstance(one, RetryTopic) for one in topics):
            raise ConfigError(f"retry_topics{topics!r}: each must be a RetryTopic(topic, delay_s)")
        if len({one.topic for one in topics}) != len(topics):
            raise ConfigError("retry_topics: a topic is named twice")
        return replace(self, failures=replace(self.failures, retry_topics=topics))

    def dead_letters(
        self,
        topic: str,
        *,
        max_in_a_row: int | None = None,
        max_ratio: float | None = None,
        min_records: int = 100,
        window_s: float = 60.0,
    ) -> Self:
        """Write records that finally fail to a topic, with the error and their origin in headers, and continue.

        A limit stops the stream with a `StreamError` instead of moving a whole topic. The record that exceeds the limit
        is not completed.

        Args:
            topic: the topic.
            max_in_a_row: at most so many dead letters without a successful record between them; None: no limit.
            max_ratio: at most this part of the processed records, above 0 and up to 1; None: no limit.
            min_records: `max_ratio` applies from so many processed records on.
            window_s: both limits count the dead letters of the last so many seconds.

        Returns:
            The pipeline with it.

        Raises:
            ConfigError: the topic has no name, or a limit is outside its range.
        """
        if not is_topic(topic):
            raise ConfigError(f"dead_letters({topic!r}): the topic must be a non-empty str")
        if not (max_in_a_row is None or is_count(max_in_a_row)) or not (max_ratio is None or is_ratio(max_ratio)):
            raise ConfigError(
                f"dead_letters(max_in_a_row={max_in_a_row!r}, max_ratio={max_ratio!r}): give a whole number "
                "of 1 or more, and a ratio above 0 and up to 1"
            )
        if not is_count(min_records) or not is_seconds(window_s) or not 0 < window_s < math.inf:
            raise ConfigError(
                f"dead_letters(min_records={min_records!r}, window_s={window_s!r}): a whole number of 1 or more, and "
                "seconds above 0, are needed"
            )
        has_limits = max_in_a_row is not None or max_ratio is not None
        limits = DeadLetterLimits(max_in_a_row, max_ratio, min_records, window_s) if has_limits else None
        return replace(self, failures=replace(self.failures, dead_letter_topic=topic, limits=limits))

    def skip_failures(self) -> Self:
        """Log records that finally fail, and continue. Without this and `dead_letters` the stream ends with the error.

        Returns:
            The pipeline with it.
        """
        return replace(self, failures=replace(self.failures, otherwise="skip"))

    def on_partitions(
        self, *, assigned: Hook | None = None, revoked: Hook | None = None, aborted: Hook | None = None
    ) -> Self:
        """Call functions as partitions are assigned, revoked and replayed, to keep a step's own state correct.

        Each takes the `TopicPartition` and an offset; a function that does not block, or an async one. For each
        assignment of a partition they are called in this order, and a new assignment begins after the last call for the
        one before it. An error of a function ends the stream.

        Args:
            assigned: called before the first record, with the group's committed offset; None: nothing is committed.
            revoked: called once after the last record, also when the stream ends, with the offset up to which all is
                completed; that is committed after the call, and with guarantee="exactly_once" before it. None: the
                partition is lost, and another member reads it.
            aborted: called when a transaction with records of the partition was aborted, before they are replayed, with
                the offset at which the replay begins: the function must reset the state to that offset.

        Returns:
            The pipeline with it.

        Raises:
            ConfigError: one is not a function, or none is given.

        Example:
            >>> totals = {}
            >>> def load(partition, committed):
            ...     totals[partition] = 0  # or from where it was saved with `committed`
            >>> pipeline = kafwire.stream.Pipeline().on_partitions(assigned=load, revoked=lambda partition, _: None)
            >>> summary = pipeline.run(kafwire.stream.MemorySource({"orders": [b"2 books"]}))
            >>> totals
            {TopicPartition(topic='orders', partition=0): 0}
        """
        hooks = {"assigned": assigned, "revoked": revoked, "aborted": aborted}
        wrong = [f"{name}={hook!r}" for name, hook in hooks.items() if not (hook is None or callable(hook))]
        if wrong or not any(hooks.values()):
            raise ConfigError(f"on_partitions({', '.join(wrong)}): give functions, at least one")
        return replace(self, hooks=PartitionHooks(assigned, revoked, aborted))

    def limits(
        self, *, max_in_flight: int = 10_000, max_uncommitted: int = 100_000, stop_timeout_s: float = 20.0
    ) -> Self:
        """Choose how many unfinished records a partition may have, and how long a stream takes to stop.

        Args:
            max_in_flight: a partition is not read while so many of its values wait for workers or the sink. This is
                checked every 1024 records.
            max_uncommitted: nor while it has so many offsets after the committable one.
            stop_timeout_s: how many seconds a stop waits for values in flight, before it cancels them. The last commit,
                hooks and leaving take at most 8 s more.

        Returns:
            The pipeline with it.

        Raises:
            ConfigError: a number is below its minimum.
        """
        if not (is_count(max_in_flight) and is_count(max_uncommitted) and is_seconds(stop_timeout_s)):
            raise ConfigError(
                f"limits(max_in_flight={max_in_flight!r}, max_uncommitted={max_uncommitted!r}, "
                f"stop_timeout_s={stop_timeout_s!r}): numbers must be 1 or more, seconds 0 or more"
            )
        return replace(self, limit=Limits(max_in_flight, max_uncommitted, stop_timeout_s))

    # --- running ----------------------------------------------------------------------------------------------------

    async def run_async(
        self,
        source: Source,
        sink: Sink | TransactionalSink | None = None,
        *,
        guarantee: Guarantee = "at_least_once",
        letters: Sink | TransactionalSink | None = None,
        stop: StopRequest | None = None,
        monitor: StreamMonitor | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> StreamSummary:
        """Run until the source ends, or `stop` is requested; then the source is closed.

        A cancelled call cancels handlers, and leaves the group.

        Args:
            source: the source.
            sink: the destination of results; None: results are dropped.
            guarantee: "at_least_once": offsets are committed after their records are processed. "at_most_once": before.
                "exactly_once": with the results, in transactions; `sink` is a `TopicSink` whose producer has a
                `transactional_id`.
            letters: the sink of dead letters and retries; None: `sink`.
            stop: the request that stops it.
            monitor: observes the stream while it runs.
            clock: the clock for due records; None: the system's. Delays use the event loop's.
            random: randomness for back-offs; None: the process's own.

        Returns:
            The counts of the run.

        Raises:
            ConfigError: the pipeline, source and sink do not fit together.
            StreamError: a record failed, and the pipeline has no policy for it.
            KafkaError: the source or the sink failed.
        """
        if clock is None or random is None:
            from kafwire.runtime.engine import default_engine

            clock, random = clock or default_engine().clock, random or default_engine().random
        settings = self._settings(guarantee, sink, letters)
        watching = StreamMonitor._unseen() if monitor is None else monitor
        watching._check_is_free()
        run = StreamRun(settings, source, sink, sink if letters is None else letters, clock, random)
        running = run.run(StopRequest() if stop is None else stop)
        return await watching._watch(run, running, clock)

    def run(
        self,
        source: Source,
        sink: Sink | TransactionalSink | None = None,
        *,
        guarantee: Guarantee = "at_least_once",
        letters: Sink | TransactionalSink | None = None,
        stop: StopRequest | None = None,
        monitor: StreamMonitor | None = None,
        stop_signals: Sequence[int] = STOP_SIGNALS,
    ) -> StreamSummary:
        """Run in a thread with an event loop of its own, and wait for its end.

        Args:
            source: the source.
            sink: the destination of results; None: results are dropped.
            guarantee: as for `run_async`.
            letters: the sink of dead letters and retries; None: `sink`.
            stop: the request that stops it.
            monitor: observes the stream while it runs.
            stop_signals: signals that stop it too, if this is called in the main thread; a second one interrupts the
                wait.

        Returns:
            The counts of the run.

        Raises:
            ConfigError: the pipeline, source and sink do not fit together.
            StreamError: a record failed, and the pipeline has no policy for it.
            KafkaError: the source or the sink failed.
        """
        request = StopRequest() if stop is None else stop
        with signals_stop(request, stop_signals):
            return run_in_thread(
                lambda: self.run_async(
                    source, sink, guarantee=guarantee, letters=letters, stop=request, monitor=monitor
                ),
                request,
            )

    def _with(self, step: Step) -> Self:
        longer = replace(self, steps=(*self.steps, step))
        plan(longer.steps)
        return longer

    def _settings(self, guarantee: Guarantee, sink: object, letters: object) -> Settings:
        if guarantee not in GUARANTEES:
            raise ConfigError(f"guarantee={guarantee!r}: it must be one of {', '.join(GUARANTEES)}")
        for one in (sink, letters):
            if one is not None and not callable(getattr(one, "write", None)):
                raise ConfigError(f"{one!r} is not a sink: give TopicSink(producer, topic) or FunctionSink(function)")
        if self.failures.writes and sink is None and letters is None:
            raise ConfigError("dead letters and retries are written to topics: give a sink, or letters=")
        if guarantee == "at_most_once" and (self.failures.attempts > 1 or self.failures.retry_topics):
            raise ConfigError('guarantee="at_most_once" calls no step twice: remove retry and retry_topics')
        found = plan(self.steps)
        by_kill = found.for_each is not None and found.for_each.run_in == "processes" and found.for_each.timeout_s
        if guarantee == "at_most_once" and by_kill:
            raise ConfigError('guarantee="at_most_once": processes with timeout_s may be called again; remove it')
        every, within = self.commit_every, self.commit_within
        if every is None and within is None:
            held_s = None if found.reduce is None else found.reduce.max_seconds
            longer_s = 0.0 if held_s is None or math.isinf(held_s) else held_s
            within = max(TRANSACTION_S, longer_s) if guarantee == "exactly_once" else COMMIT_S
        return Settings(found, self.failures, every, within, self.limit, guarantee, self.hooks)


def _sync(name: str, function: Any) -> Any:
    if not callable(function):
        raise ConfigError(f"{name}({function!r}): it must be a function")
    if is_async(function) or is_async_generator(function):
        raise ConfigError(f"{name}({function!r}): use for_each for an async function")
    return function


def _check_pickled(handler: Any) -> None:
    try:
        pickle.dumps(handler)
    except Exception as error:  # whatever an object's own methods raise
        raise ConfigError(
            f'for_each({handler!r}, run_in="processes"): processes import the handler by name, so it must be '
            f"a module-level function: {error}"
        ) from error
