"""The verdict of a test in a forked child."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable

from tests.support.deadlines import PATIENCE_S

_fork: Callable[[], int] = ctypes.PyDLL(None).fork


def fork_in_c() -> int:
    """Fork as uWSGI does: the child has the GIL, and the hooks of `os.register_at_fork` do not run.

    A thread that waits for the GIL holds its mutex each time the switch interval is over. A child of that moment would
    wait for the mutex for ever, so no interval ends here.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE_S)
    try:
        return _fork()
    finally:
        sys.setswitchinterval(interval)


def in_child(body: Callable[[], None], fork: Callable[[], int] = os.fork) -> None:
    """Run `body` in a forked child; whatever it raises fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads, which is the subject
        child = fork()
    if not child:
        status = 1
        try:
            signal.alarm(int(PATIENCE_S))
            body()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
