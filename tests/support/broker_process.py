"""A broker on a folder, in a process of its own that tests kill: its first line says where it is."""

import subprocess
import sys
import threading

_PROGRAM = """
import sys, threading
from kafwire.testing import EmbeddedKafka
with EmbeddedKafka(data=sys.argv[1], port=int(sys.argv[2]), configs={"log.flush.interval.messages": 1}) as kafka:
    print(kafka.bootstrap, flush=True)
    threading.Event().wait()
"""


class BrokerProcess:
    """Started at once; `kill` is SIGKILL."""

    def __init__(self, folder, port=0):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder), str(port)], stdout=subprocess.PIPE, text=True
        )
        timer = threading.Timer(60, self._process.kill)
        timer.start()
        self.bootstrap = self._process.stdout.readline().strip()  # it listens
        timer.cancel()
        if not self.bootstrap:
            self.kill()
            raise AssertionError("the broker did not start")

    def kill(self):
        self._process.kill()
        self._process.wait(60)
        self._process.stdout.close()
