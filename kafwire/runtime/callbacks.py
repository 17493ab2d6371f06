"""The thread that calls delivery callbacks, and its counterpart for single-threaded simulations."""

from __future__ import annotations

from collections.abc import Callable

from kafwire.runtime.log import LogLine, leave_by, log
from kafwire.runtime.patched import SimpleQueue, get_ident, new_thread


class CallbackThread:
    """Calls functions one after the other, in the order of submission, and drops none.

    Callbacks are user code: they may take locks held by a thread that waits for the engine. A callback must not wait
    for kafwire (`Engine.check_caller` raises), as `flush` and `close` wait for callbacks.
    """

    def __init__(self, take_line: Callable[[LogLine], object]) -> None:
        self._take_line = take_line
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = new_thread(self._main, name="kafwire-callbacks")
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True if the caller runs within a callback."""
        return get_ident() == self._thread.ident

    def submit(self, function: Callable[[], object]) -> None:
        """Queue `function` to be called; from any thread."""
        self._waiting.put(function)

    def stop(self, timeout_s: float) -> None:
        """End the thread after all earlier submissions, and wait for that."""
        self._waiting.put(None)
        self._thread.join(timeout_s)

    def _main(self) -> None:
        leave_by(self._take_line)
        while (function := self._waiting.get()) is not None:
            try:
                function()
            except BaseException as error:  # a callback's `sys.exit()` ends no thread of kafwire
                log.exception("kafwire: a callback raised %s", type(error).__name__)
            del function  # so that a waiting frame keeps nothing alive


class InlineCallbacks:
    """Calls each function at once, where it is submitted."""

    def __init__(self) -> None:
        self._depth = 0

    @property
    def is_current(self) -> bool:
        """True if the caller runs within a callback."""
        return self._depth > 0

    def submit(self, function: Callable[[], object]) -> None:
        """Call `function`."""
        self._depth += 1
        try:
            function()
        finally:
            self._depth -= 1
