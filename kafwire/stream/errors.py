"""The errors of streams, and those by which a step asks to be called again later."""

from __future__ import annotations

from kafwire.errors import ConfigError, KafkaError
from kafwire.stream.argument_checks import is_seconds


class StreamError(KafkaError):
    """A stream ended because of a record that could not be processed. The `__cause__` is the step's error.

    `topic`, `partition` and `offset` are the record's; of a batch, the first record's. They are None, None and -1 if
    the error belongs to no record. Earlier completed records are committed; the next run reads the record again.
    """

    def __init__(
        self, message: str, *, topic: str | None = None, partition: int | None = None, offset: int = -1
    ) -> None:
        """Make the error."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class HandlerTimeoutError(KafkaError, TimeoutError):
    """A handler of `for_each` took longer than its `timeout_s`.

    `still_runs`: its thread cannot be stopped. Then the record is not retried in place, as two calls for the same
    record would run at once.
    """

    def __init__(self, message: str, *, still_runs: bool = False) -> None:
        """Make the error."""
        super().__init__(message)
        self.still_runs = still_runs


class NotNow(KafkaError):
    """A step raises it to be called again with the same record later, because a resource is busy.

    The partition is paused meanwhile, no record is dropped, and the call does not count as an attempt.

    `seconds` is the time after which the step is called again.
    """

    def __init__(self, seconds: float = 1.0, reason: str = "") -> None:
        """`reason` is only for the log. Raises `ConfigError` unless `seconds` is a number of 0 or more."""
        if not is_seconds(seconds):
            raise ConfigError(f"NotNow({seconds!r}): it must be a number of seconds, 0 or more")
        super().__init__(reason or f"not now: retry in {seconds:g} s")
        self.seconds = seconds
