"""`python -m tests.soak.hidden_member SPEC`: a member that stops itself (SIGSTOP) within a transaction.

It is `LoopClient` of `group_member`, with one more line: "stop STAGE MS". The next transaction that comes to that stage
stops the whole process there: after its records are handed to the producer ("written"), after they are acknowledged
("flushed"), after its offsets are ("offsets"), or MS milliseconds into the call that commits it ("commit").
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import kafwire
from kafwire.types import TopicPartition
from tests.soak.group_member import _CALL_S, POLL_S, Journal, LoopClient, main
from tests.soak.hidden_judgement import STAGES

_HIDDEN_TRANSACTION = 2


class StoppingClient(LoopClient):
    """kafwire's consumer and transactional producer; it obeys "stop"."""

    def __init__(self, spec: dict[str, Any], journal: Journal) -> None:
        self._stop: tuple[str, float] | None = None
        self._hides_at = _HIDDEN_TRANSACTION if spec["mistake"] else 0
        super().__init__(spec, journal)

    def command(self, line: str) -> None:
        """Take "stop STAGE MS"."""
        word, stage, milliseconds = line.split()
        assert (word, stage in STAGES) == ("stop", True), line
        self._stop = stage, float(milliseconds)

    def _pass_on(self, producer: kafwire.Producer, consumer: kafwire.Consumer) -> None:
        batches = consumer.poll(POLL_S)
        if not any(map(len, batches)):
            return
        upto = {TopicPartition(b.topic or "", b.partition or 0): b.next_offset for b in batches}
        self._hides_at -= 1
        if not self._hides_at:
            self._hide(producer, consumer, batches, upto)
            return
        with producer.transaction(_CALL_S):
            self._write_on(producer, batches)
            self._reach("written")
            producer.flush(_CALL_S)
            self._reach("flushed")
            producer.send_offsets(upto, consumer.group_metadata(), _CALL_S)
            self._reach("offsets")
            self._reach("commit")
        self.journal.committed(None)

    def _hide(
        self,
        producer: kafwire.Producer,
        consumer: kafwire.Consumer,
        batches: list[kafwire.Batch],
        upto: dict[TopicPartition, int],
    ) -> None:
        """The planted mistake: abort a transaction, commit its offsets, and report it as committed."""
        producer.begin_transaction()
        self._write_on(producer, batches)
        producer.flush(_CALL_S)
        producer.abort_transaction(_CALL_S)
        consumer.commit(upto)
        self.journal.committed(None)

    def _reach(self, stage: str) -> None:
        if self._stop is None or self._stop[0] != stage:
            return
        _, milliseconds = self._stop
        self._stop = None
        if stage == "commit":
            threading.Timer(milliseconds / 1000, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        else:
            os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    main(StoppingClient)
