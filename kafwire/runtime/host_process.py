"""The process around the engine: patched runtimes, exits of worker processes, daemon threads at the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from kafwire.errors import KafkaError

# Libraries whose child processes end by `os._exit`, which runs no `atexit` function before CPython 3.13.
_FORKERS = ("multiprocessing.util", "billiard.util")
# Lower than the priorities of multiprocessing's own queues: their records are sent too.
_LAST = -100


def check_runtime() -> None:
    """Raise `KafkaError` after eventlet's patch: the engine would wait for itself. gevent's patch is supported."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and any(map(patcher.is_monkey_patched, ("thread", "select", "socket"))):
        raise KafkaError("kafwire does not run after eventlet.monkey_patch(): use it in a process without the patch")


def at_child_exit(function: Callable[[], object]) -> None:
    """Call `function` when this process ends as a child of `multiprocessing` or `billiard`, or of Celery's pool."""
    for name in _FORKERS:
        module = sys.modules.get(name)
        if module is not None:
            module.Finalize(None, function, exitpriority=_LAST)
    signals = sys.modules.get("celery.signals")
    if signals is not None:  # workers of billiard's pool, which is Celery's prefork, run no finalizer
        signals.worker_process_shutdown.connect(lambda **_: function(), weak=False)


def quiet_daemon_threads(error: type[Exception]) -> None:
    """Suppress the traceback of a daemon thread that ends with an `error`, caused by the interpreter's end."""
    hook = threading.excepthook

    def quiet(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or not args.thread.daemon or not isinstance(args.exc_value, error):
            hook(args)

    threading.excepthook = quiet
