"""Standard output and signals: a batch counts as written exactly if all of it is."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from kafwire.cli.signals import orderly_end
from kafwire.cli.sink import Sink
from tests.support.deadlines import ended, until

LINES = [b"one\n", b"two\n"]


class Pipe:
    """A pipe, and a stream on its end for writers."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.out = os.fdopen(self.writer, "w")

    def fill(self) -> int:
        """Write until the pipe has no room; return how many bytes that took."""
        os.set_blocking(self.writer, False)
        taken = 0
        try:
            while True:
                taken += os.write(self.writer, bytes(4096))
        except BlockingIOError:
            os.set_blocking(self.writer, True)
            return taken


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A stream, whose other end the test has."""
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)
    pipe.out.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_written_batch_uncounted(pipe: Pipe, number: signal.Signals) -> None:
    counted: list[int] = []

    def count() -> None:
        signal.raise_signal(number)
        counted.append(len(LINES))

    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit), orderly_end():
        Sink(pipe.out).write(LINES, count)
    assert os.read(pipe.reader, 100) == b"".join(LINES)
    assert counted == [len(LINES)]


def test_a_full_pipe_holds_up_no_signal(pipe: Pipe) -> None:
    filled = pipe.fill()
    counted: list[int] = []
    main = threading.get_ident()

    def interrupt() -> None:
        # The write waits in poll, and the signal wakes it; a signal that came before it would end it as well.
        until(lambda: sys._current_frames()[main].f_code.co_name == "write", "the write begins")
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    with pytest.raises(KeyboardInterrupt), orderly_end():
        thread.start()
        Sink(pipe.out).write(LINES[:1], lambda: counted.append(1))
    ended(thread)
    assert counted == []
    assert len(os.read(pipe.reader, 10 * filled)) == filled


def test_parts_of_a_large_batch_are_written_in_order(pipe: Pipe) -> None:
    texts = [b"%d;" % number * 1000 for number in range(5)]
    counted: list[int] = []
    found: list[bytes] = []

    def read() -> None:
        while len(b"".join(found)) < len(b"".join(texts)):
            found.append(os.read(pipe.reader, 3000))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    Sink(pipe.out).write(texts, lambda: counted.append(1))
    ended(thread)
    assert b"".join(found) == b"".join(texts)
    assert counted == [1]


def test_a_reader_that_went_is_noticed(pipe: Pipe) -> None:
    os.close(pipe.reader)
    with pytest.raises(BrokenPipeError):
        Sink(pipe.out).check()
    with pytest.raises(BrokenPipeError):
        Sink(pipe.out).write(LINES[:1], lambda: None)
    pipe.reader = os.open(os.devnull, os.O_RDONLY)
