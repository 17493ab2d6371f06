"""The thread that calls delivery callbacks, and its counterpart for worlds of one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from kafwire.runtime.log import LogLine, leave_by, log


class CallbackThread:
    """Calls functions one after the other, in the order in which they came, and drops none.

    Callbacks are foreign code: they may take locks that a thread holds which waits for the engine. Waiting for kafwire
    within one is refused (`Engine.check_caller`), as `flush` and `close` wait for callbacks.
    """

    def __init__(self, take_line: Callable[[LogLine], object]) -> None:
        self._take_line = take_line
        self._waiting: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="kafwire-callbacks", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs within a callback."""
        return threading.get_ident() == self._thread.ident

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
