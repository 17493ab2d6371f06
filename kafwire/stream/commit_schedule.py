"""`CommitSchedule`: decides when a stream commits (`Pipeline.commit`)."""

from __future__ import annotations

# Delay after a refused commit.
COMMIT_AGAIN_S = 1.0


class CommitSchedule:
    """Commits are due after `every` completed offsets, and `within` seconds after the first of them.

    Args:
        every: the number of offsets; None: only the time counts.
        within: seconds; None: only the number counts.
    """

    __slots__ = ("_completed", "_not_before", "due_at", "every", "within")

    def __init__(self, every: int | None, within: float | None) -> None:
        self.every = every
        self.within = within
        self.due_at: float | None = None
        """When a commit is due at the latest, on the clock of `now`; None: none is due."""
        self._completed = 0
        self._not_before = float("-inf")

    def on_completed(self, offsets: int, now: float) -> None:
        """Count completed offsets."""
        self._completed += offsets
        if self.every is not None and self._completed >= self.every:
            self.due_at = max(now, self._not_before)
        elif self.due_at is None and self.within is not None:
            self.due_at = now + self.within

    def is_due(self, now: float) -> bool:
        """True if a commit is due now."""
        return self.due_at is not None and self.due_at <= now

    @property
    def has_completed(self) -> bool:
        """True if offsets were completed since the last commit."""
        return self._completed > 0

    def on_commit(self) -> int:
        """Begin a commit of all completed offsets; return how many there are since the last one."""
        completed, self._completed = self._completed, 0
        self.due_at = None
        return completed

    def on_refused(self, completed: int, now: float) -> None:
        """Make the offsets of a failed commit due again, after a delay."""
        self._completed += completed
        self.due_at = self._not_before = now + COMMIT_AGAIN_S
