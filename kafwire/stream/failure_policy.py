"""`FailurePolicy`: how a record is treated after a step raised, and when (`Pipeline.retry`, `dead_letters`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kafwire.cluster.backoff import delay_ms
from kafwire.errors import ConfigError
from kafwire.stream.argument_checks import is_seconds, is_topic
from kafwire.stream.dead_letter_limits import DeadLetterLimits
from kafwire.stream.errors import HandlerTimeoutError


@dataclass(frozen=True, slots=True)
class RetryTopic:
    """A topic whose records are processed again, each after a delay.

    Args:
        topic: the topic. The stream's source must read it too.
        delay_s: after how many seconds a record is processed again.

    Raises:
        ConfigError: the topic has no name, or the delay is not a number of 0 or more.

    Example:
        >>> kafwire.stream.RetryTopic("orders.retry.1m", 60).delay_s
        60
    """

    __module__ = "kafwire.stream"
    topic: str
    delay_s: float

    def __post_init__(self) -> None:
        if not is_topic(self.topic) or not is_seconds(self.delay_s) or math.isinf(self.delay_s):
            raise ConfigError(f"RetryTopic({self.topic!r}, {self.delay_s!r}): it needs a topic, and 0 or more seconds")


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Call the step again with the same value, after a delay in seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class SendLater:
    """Write the record to a retry topic, to be processed at `due_ms` since the epoch."""

    topic: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class SendDeadLetter:
    """Write the record to the dead letter topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Log the failure, and continue."""


@dataclass(frozen=True, slots=True)
class StopStream:
    """End the stream with the error."""


Decision = TryAgain | SendLater | SendDeadLetter | Skip | StopStream


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Calls in place first, then retry topics in order, then dead letters; without those, `otherwise`."""

    attempts: int = 1
    backoff_s: float = 0.1
    max_backoff_s: float = 30.0
    on: tuple[type[Exception], ...] = (Exception,)
    retry_topics: tuple[RetryTopic, ...] = ()
    dead_letter_topic: str | None = None
    limits: DeadLetterLimits | None = None
    otherwise: Literal["stop", "skip"] = "stop"

    def decide(
        self, error: BaseException, attempt: int, topic: str | None, wall_ms: int, randomness: float
    ) -> Decision:
        """Decide about a record of `topic` after the `attempt`th call, from 1 on, raised `error`.

        `wall_ms` is the time since the epoch; `randomness` in [0, 1) spreads the back-off by +-20 %.
        """
        if isinstance(error, self.on):
            still_runs = isinstance(error, HandlerTimeoutError) and error.still_runs
            if attempt < self.attempts and not still_runs:
                return TryAgain(delay_ms(attempt, self.backoff_s, self.max_backoff_s, randomness))
            later = self._next_retry_topic(topic)
            if later is not None:
                return SendLater(later.topic, wall_ms + round(later.delay_s * 1000))
        if self.dead_letter_topic is not None:
            return SendDeadLetter(self.dead_letter_topic)
        return Skip() if self.otherwise == "skip" else StopStream()

    def _next_retry_topic(self, topic: str | None) -> RetryTopic | None:
        names = [one.topic for one in self.retry_topics]
        at = names.index(topic) + 1 if topic in names else 0
        return self.retry_topics[at] if at < len(names) else None

    @property
    def writes(self) -> bool:
        """True if failed records are written to topics."""
        return self.dead_letter_topic is not None or bool(self.retry_topics)
