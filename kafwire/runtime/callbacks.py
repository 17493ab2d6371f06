"""The thread that calls delivery callbacks, and its counterpart for worlds of one thread."""

from __future__ import annotations

from collections.abc import Callable

from kafwire.runtime.log import LogLine, leave_by, log
from kafwire.runtime.patched import SimpleQueue, get_ident, new_thread


class CallbackThread:
    """Calls functions one after the other, in the order in which they came, and drops none.

    Callbacks are foreign code: they may take locks that a thread holds which waits for the engine. Waiting for kafwire
    within one is refused (`Engine.check_caller`), as `flush` and `close` wait for callbacks.
    """

    def __init__(self, take_line: Callable[[LogLine], object]) -> None:
        self._take_line = take_line
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = new_thread(self._main, name="kafwire-callbacks")
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs within a callback."""
        return get_ident() == self._thread.ident

    def submit(self, function: Callable[[], object]) -> None:
        """Have `function` called; from any thread."""
        self._waiting.put(function)

    def stop(self, timeout_s: float) -> None:
        """End the thread behind all that came before, and wait for that."""
        self._waiting.put(None)
        self._thread.join(timeout_s)

    def _main(self) -> None:
        leave_by(self._take_line)
        while (function := self._waiting.get()) is not None:
            try:
                function()
            except BaseException as error:  # a callback's `sys.exit()` ends no thread of kafwire's
                log.exception("kafwire: a callback raised %s", type(error).__name__)
            del function  # a frame that waits keeps nothing alive


class InlineCallbacks:
    """Calls each function at once, where it is submitted."""

    def __init__(self) -> None:
        self._depth = 0

    @property
    def is_current(self) -> bool:
        """Whether the caller runs within a callback."""
        return self._depth > 0

    def submit(self, function: Callable[[], object]) -> None:
        """Call `function`."""
        self._depth += 1
        try:
            function()
        finally:
            self._depth -= 1
