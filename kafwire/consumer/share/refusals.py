"""`Refusals`: acknowledgements that brokers refused, kept until `commit` or the log reports them, once. Pure.

The first error is kept, and a count of the others, so a user that never commits costs no memory.
"""

from __future__ import annotations

from kafwire.errors import BrokerError, broker_error


class Refusals:
    """The refused acknowledgements of one share consumer."""

    def __init__(self) -> None:
        self._first: tuple[int, str, str] | None = None
        self._others = 0

    def __len__(self) -> int:
        return self._others + (self._first is not None)

    def add(self, code: int, doing: str, topic: str) -> None:
        """Add refused acknowledgements of a topic."""
        if self._first is None:
            self._first = code, doing, topic
        else:
            self._others += 1

    def take(self) -> BrokerError | None:
        """Return one error for all refusals since the last call, or None."""
        if self._first is None:
            return None
        (code, doing, topic), others = self._first, self._others
        self._first, self._others = None, 0
        more = f" ({others} more acknowledgements were refused)" if others else ""
        return broker_error(code, f"{doing}{more}", api="ShareAcknowledge", topic=topic)
