"""What a stream raises, and what its steps raise to be called again later."""

from __future__ import annotations

from kafwire.errors import ConfigError, KafkaError
from kafwire.stream.argument_checks import is_seconds


class StreamError(KafkaError):
    """A stream ended because of a record that could not be processed. What the step raised is the `__cause__`.

    `topic`, `partition` and `offset` are the record's; of a batch, the first one's. They are None, None and -1 if the
    error belongs to no record. What was completed before is committed; the record is read again by the next run.
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

    `still_runs`: it is in a thread, which cannot be stopped. Then the record is not tried again in place, as two calls
    for the same record would run at once.
    """

    def __init__(self, message: str, *, still_runs: bool = False) -> None:
        """Make the error."""
        super().__init__(message)
        self.still_runs = still_runs


class NotNow(KafkaError):
    """A step raises it to be called again with the same record later: what it needs is busy.

    The partition is paused meanwhile, nothing is dropped, and it does not count as an attempt.

    `seconds` is the time after which the step is called again.
    """

    def __init__(self, seconds: float = 1.0, reason: str = "") -> None:
        """Make it; `reason` is for the log alone. Raises `ConfigError` if `seconds` is negative, or no number."""
        if not is_seconds(seconds):
            raise ConfigError(f"NotNow({seconds!r}): a number of seconds from 0 is needed")
        super().__init__(reason or f"not now: again in {seconds:g} s")
        self.seconds = seconds
