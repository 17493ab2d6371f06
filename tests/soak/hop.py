"""`python -m tests.soak.hop SPEC`: one hop of a chain: reads a topic, writes all on in transactions with the offsets.

It may be killed at any moment and started again: a commit is done, anything else is not. After any error it starts over
in the same way. Lines come in: "finish ENDS" lets it end when it has committed the source's ends. JSON objects go out
as from `soak.worker`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import kafwire
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition
from tests.soak import memory
from tests.soak.access import Access
from tests.soak.readers import ends_of
from tests.soak.runner import name_of

_CALL_S = 30.0
_POLL_S = 0.2
_PAUSE_S = 0.1
_TELL_S = 0.5
_EVERY = 200
MISTAKES = ("forget", "twice")
# The coordinator ends sooner what a hop that was killed left open than the others' transactions.
_TRANSACTION_MS = 10_000


class Hop:
    """The process."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._access = Access(spec["access"])
        self._places = [TopicPartition(spec["source"], number) for number in range(spec["partitions"])]
        self._counts: Counter[str] = Counter()
        self._at: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] | None = None
        self._printed = 0.0
        self._seen = 0

    def run(self) -> None:
        """Work until the end that was asked for is committed."""
        threading.Thread(target=self._listen, daemon=True).start()
        while not self._done():
            try:
                self._begin()
            except KafkaError as error:
                self._counts[f"error hop {name_of(error)}"] += 1
                time.sleep(_PAUSE_S)
        self._tell()
        print(json.dumps({"done": True, "peak_mib": memory.peak_mib(), "cpu": time.process_time()}), flush=True)

    def _begin(self) -> None:
        spec = self._spec
        with kafwire.Producer(
            **self._access.options(),
            transactional_id=spec["identity"],
            transaction_timeout_ms=_TRANSACTION_MS,
            client_id=spec["identity"],
            **spec["producer"],
        ) as producer:
            # Only now is decided what the one before it left open.
            producer.init_transactions(_CALL_S)
            with kafwire.Consumer(
                **self._access.options(),
                assign=self._places,
                group_id=spec["identity"],
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                client_id=spec["identity"],
                **spec["consumer"],
            ) as consumer:
                self._at = {where: consumer.position(where) for where in self._places}
                self._counts["begun"] += 1
                while not self._done():
                    self._pass_on(producer, consumer)
                    if time.monotonic() - self._printed > _TELL_S:
                        self._tell()

    def _pass_on(self, producer: kafwire.Producer, consumer: kafwire.Consumer) -> None:
        batches = [batch for batch in consumer.poll(_POLL_S) if len(batch)]
        if not batches:
            self._look(consumer)
            return
        upto = {TopicPartition(batch.topic or "", batch.partition or 0): batch.next_offset for batch in batches}
        with producer.transaction(_CALL_S):
            for batch in batches:
                for record in batch:
                    for _ in range(self._times()):
                        producer.send(
                            self._spec["target"],
                            record.value,
                            key=record.key,
                            headers=record.headers,
                            timestamp_ms=record.timestamp_ms,
                            partition=record.partition,
                        )
            producer.send_offsets(upto, consumer.group_metadata(), _CALL_S)
        self._at |= upto
        self._counts["passed on"] += sum(map(len, batches))
        self._counts["hops committed"] += 1

    def _times(self) -> int:
        """How often a record is written on: once, where no mistake is planted."""
        self._seen += 1
        if self._seen % _EVERY:
            return 1
        return {"forget": 0, "twice": 2}.get(self._spec["mistake"], 1)

    def _look(self, consumer: kafwire.Consumer) -> None:
        """Nothing came: there may be nothing but markers left, which are not committed."""
        if self._ends is not None:
            self._at = {where: max(at, consumer.position(where)) for where, at in self._at.items()}

    def _done(self) -> bool:
        ends = self._ends
        return ends is not None and bool(self._at) and all(self._at[where] >= ends[where] for where in self._places)

    def _tell(self) -> None:
        self._printed = time.monotonic()
        counts = {self._spec["identity"]: dict(self._counts + self._access.counts)}
        print(json.dumps({"counts": counts, "crashes": [], "mib": memory.resident_mib()}), flush=True)

    def _listen(self) -> None:
        for line in sys.stdin:
            word, *text = line.split(maxsplit=1)
            if word == "finish":
                self._ends = dict(ends_of(*text)["read_committed"])
        os._exit(3)


def main() -> None:
    """Run the hop of the file that is named."""
    faulthandler.register(signal.SIGUSR1)
    Hop(json.loads(Path(sys.argv[1]).read_text())).run()


if __name__ == "__main__":
    main()
