"""Pure-Python computing that never lets go of the GIL by itself: the neighbour in the "beside" rows."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOPS = 10_000


class Burner:
    """Computes in a thread until stopped, and knows how fast."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._loops = 0
        self._seconds = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> float:
        """End; million loops per second since the beginning."""
        self._stop.set()
        self._thread.join()
        return self._loops / self._seconds / 1e6

    def _run(self) -> None:
        start = time.perf_counter()
        value = 1
        while not self._stop.is_set():
            for number in range(_LOOPS):
                value = (value * 31 + number) & 0xFFFF
            self._loops += _LOOPS
        self._seconds = time.perf_counter() - start


@contextmanager
def neighbour(where: str) -> Iterator[Callable[[], float]]:
    """Compute during the block: in a "thread" of this process, in another "process", or ("nothing") not at all.

    Yields a function that ends it and returns its speed, in million loops per second.
    """
    if where == "thread":
        burner = Burner()
        burner.start()
        try:
            yield burner.stop
        finally:
            burner.stop()
    elif where == "process":
        command = [sys.executable, "-m", "benchmarks.burn"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                yield lambda: float(process.communicate()[0])
            finally:
                process.kill()
    else:
        yield lambda: 0.0


def main() -> None:
    """Compute until standard input ends: the process that started this one wants the figure, or is gone."""
    burner = Burner()
    burner.start()
    print("computing", flush=True)
    sys.stdin.read()
    print(burner.stop())


if __name__ == "__main__":
    main()
