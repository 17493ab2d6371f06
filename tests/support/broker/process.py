"""A broker on a folder, in a process of its own that tests kill: its first line says where it is."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

_PROGRAM = """
import sys, threading
from kafwire.testing import EmbeddedKafka
with EmbeddedKafka(data=sys.argv[1], port=int(sys.argv[2]), configs={"log.flush.interval.messages": 1}) as kafka:
    print(kafka.bootstrap, flush=True)
    threading.Event().wait()
"""


class BrokerProcess:
    """Started at once; `kill` is SIGKILL."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder), str(port)], stdout=subprocess.PIPE, text=True
        )
        timer = threading.Timer(60, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.bootstrap = self._output.readline().strip()  # it listens
        timer.cancel()
        if not self.bootstrap:
            self.kill()
            raise AssertionError("the broker did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)
        self._output.close()
