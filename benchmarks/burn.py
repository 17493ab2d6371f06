"""Pure-Python computing that never lets go of the GIL by itself: the neighbour in the "beside" rows."""

import sys
import threading


def burn(stop: threading.Event) -> None:
    """Compute until `stop` is set."""
    value = 1
    while not stop.is_set():
        for number in range(10_000):
            value = (value * 31 + number) & 0xFFFF


def main() -> None:
    """Compute until standard input ends: the process that started this one has closed it, or is gone."""
    stop = threading.Event()
    threading.Thread(target=burn, args=(stop,), daemon=True).start()
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main()
