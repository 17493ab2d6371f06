"""Topics on the benchmark's broker: made, filled with batches of a known size, read back, counted, deleted."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.rounds import ContenderError
from benchmarks.row import Topic

BLOB_BYTES = 8 << 20
_TIMEOUT_SECONDS = 30.0


class Topics:
    """All topics of a run. The administration goes through confluent-kafka, not through kafwire."""

    def __init__(self, bootstrap: str, floor: Path) -> None:
        self._bootstrap = bootstrap
        self._floor = floor
        # Silent: the broker ends before it, and it would complain of that.
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def fill(self, topic: Topic, records: int, payload: Path, blob: Path) -> tuple[str, dict[str, Any]]:
        """The name of a topic with `records` records, and what its stored batches look like.

        The batches are counted by reading the whole topic, which also brings it into the page cache and warms the
        broker up. The first of them are kept in `blob`.
        """
        name = self.name(topic, records)
        if not self.exists(name):
            self.create(name, topic.partitions)
            self._run(
                "fill",
                topic=name,
                payload=payload,
                value_bytes=topic.value_bytes,
                key_bytes=topic.key_bytes,
                records=records,
                partitions=topic.partitions,
                batch_bytes=topic.batch_bytes,
                codec=topic.codec,
            )
        found = self._run(
            "inspect", topic=name, records=records, partitions=topic.partitions, dump=blob, dump_bytes=BLOB_BYTES
        )
        batches = found["codecs"].get(topic.codec, 0)
        if found["records"] != records or batches != found["batches"]:
            raise ContenderError(f"{name} does not hold what was written: {found}")
        return name, found

    def name(self, topic: Topic, records: int) -> str:
        """The name of a filled topic."""
        return f"bench-{topic.name}-{records}"

    def exists(self, name: str) -> bool:
        """True if the broker has it."""
        return name in self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics

    def create(self, name: str, partitions: int = 1) -> None:
        """An empty topic, whose partitions all have a leader that knows so: it comes a moment after the creation."""
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_TIMEOUT_SECONDS)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                self._run("ready", topic=name, partitions=partitions)
            except ContenderError as error:
                if time.monotonic() > deadline:
                    raise ContenderError(f"{name} is not ready: {error}") from error
                time.sleep(0.05)
            else:
                return

    def delete(self, name: str) -> None:
        """Remove a topic and its bytes; a failure here would spoil nothing but the disk."""
        try:
            self._admin.delete_topics([name])[name].result(_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ContenderError(f"cannot delete {name}: {error}") from error

    def inspect(self, name: str) -> dict[str, Any]:
        """Records, batches and their sizes, read from the batch headers of the whole topic, which has one partition."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "benchmark-harness"})
        try:
            end = _end_of(consumer, name)
        finally:
            consumer.close()
        return self._run("inspect", topic=name, records=end)

    def _run(self, task: str, **options: object) -> dict[str, Any]:
        arguments = [f"{key}={value}" for key, value in options.items()]
        result = subprocess.run(
            [str(self._floor), task, f"bootstrap={self._bootstrap}", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise ContenderError(f"floor {task}: {result.stderr.strip()}")
        found: dict[str, Any] = json.loads(result.stdout)
        return found


def _end_of(consumer: Consumer, topic: str) -> int:
    """Return the end offset; a broker that was stopped may show the topic only after a while."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), _TIMEOUT_SECONDS)
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise ContenderError(f"no end offset of {topic}: {error}") from error
            time.sleep(0.05)
        else:
            return int(end)
