"""Members of consumer groups, alike: confluent-kafka, aiokafka, Kafka's Java client, and kafwire.

Each commits what it has read before partitions are taken from it, and before it closes, and never else.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import aiokafka
import confluent_kafka as ck
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

import kafwire
from kafwire.testing.cluster.kafka import class_path, java
from tests.support.deadlines import ended
from tests.support.java.client import LOGGING, compiled, end

SOURCE = Path(__file__).parents[2] / "java" / "GroupMember.java"
Seen = tuple[int, int]  # a partition and an offset


class GroupClient(Protocol):
    """A member of a group, which reads all the time."""

    def look(self) -> tuple[set[int], list[Seen], str | None]:
        """The partitions that it has, the records that it has read, and what has ended it."""

    def close(self) -> None:
        """Commit, and leave, if it is not a static member."""


class ConfluentMember:
    """librdkafka's consumer, in a thread."""

    def __init__(self, bootstrap: str, topic: str, group: str, config: Mapping[str, object]) -> None:
        options = {"bootstrap.servers": bootstrap, "group.id": group, **_common(config), **config}
        self._consumer = ck.Consumer(options)
        self._lock = threading.Lock()
        self._assigned: set[int] = set()
        self._records: list[Seen] = []
        self._error: str | None = None
        self._ends = False
        self._consumer.subscribe([topic], on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ends:
                message = self._consumer.poll(0.05)
                with self._lock:
                    self._assigned = {each.partition for each in self._consumer.assignment()}
                if message is None:
                    continue
                problem = message.error()
                if problem is not None:
                    if problem.code() == ck.KafkaError._FATAL:
                        raise ck.KafkaException(problem)
                else:
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    with self._lock:
                        self._records.append((partition, offset))
            self._commit()
        except ck.KafkaException as error:
            with self._lock:
                self._error = str(error)
        finally:
            self._consumer.close()

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except ck.KafkaException as error:
            if error.args[0].code() != ck.KafkaError._NO_OFFSET:
                raise

    def _on_revoke(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        if not self._ends:
            self._commit()

    def look(self) -> tuple[set[int], list[Seen], str | None]:
        with self._lock:
            return set(self._assigned), list(self._records), self._error

    def close(self) -> None:
        self._ends = True
        ended(self._thread)


class AioMember(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka's consumer, with an event loop in a thread."""

    def __init__(self, bootstrap: str, topic: str, group: str, config: Mapping[str, object]) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "partition_assignment_strategy": (RangePartitionAssignor,),
            **{name.replace(".", "_"): value for name, value in (_common(config) | dict(config)).items()},
        }
        options["enable_auto_commit"] = False
        self._options, self._topic = options, topic
        self._lock = threading.Lock()
        self._assigned: set[int] = set()
        self._records: list[Seen] = []
        self._error: str | None = None
        self._ends = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    async def _run(self) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(**self._options)
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        try:
            while not self._ends:
                polled = await self._consumer.getmany(timeout_ms=50)
                with self._lock:
                    self._records += [(each.partition, each.offset) for batch in polled.values() for each in batch]
                    self._assigned = {each.partition for each in self._consumer.assignment()}
            await self._consumer.commit()
        except aiokafka.errors.KafkaError as error:
            with self._lock:
                self._error = repr(error)
        finally:
            await self._consumer.stop()

    async def on_partitions_revoked(self, revoked: object) -> None:
        if revoked and not self._ends:
            await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: object) -> None:
        pass

    def look(self) -> tuple[set[int], list[Seen], str | None]:
        with self._lock:
            return set(self._assigned), list(self._records), self._error

    def close(self) -> None:
        self._ends = True
        ended(self._thread)


class KafwireMember:
    """kafwire's consumer, in a thread."""

    def __init__(self, bootstrap: str, topic: str, group: str, config: Mapping[str, object]) -> None:
        options = {"bootstrap.servers": bootstrap, "group.id": group, **_common(config), **config}
        options |= {"enable.auto.commit": True, "auto.commit.interval.ms": 1 << 30}  # when it gives up, and closes
        self._consumer = kafwire.Consumer.from_config({"topics": [topic], **options})
        self._lock = threading.Lock()
        self._records: list[Seen] = []
        self._error: str | None = None
        self._ends = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ends:
                for batch in self._consumer.poll(0.05):
                    assert batch.partition is not None
                    with self._lock:
                        self._records += [(batch.partition, record.offset) for record in batch]
            self._consumer.commit()
        except kafwire.errors.KafkaError as error:
            with self._lock:
                self._error = str(error)
        finally:
            self._consumer.close()

    def look(self) -> tuple[set[int], list[Seen], str | None]:
        with self._lock:
            assigned = {each.partition for each in self._consumer.assignment}
            return assigned, list(self._records), self._error

    def close(self) -> None:
        self._ends = True
        ended(self._thread)


class JavaMembers:
    """One process of Java, for several members."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafwire-java-")
        logging = Path(self._folder.name) / "log4j2.xml"
        logging.write_text(LOGGING)
        command = [
            java(),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={logging}"),
            *("-cp", f"{compiled(SOURCE)}:{class_path()}", "GroupMember"),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )
        self._names = (f"member-{number}" for number in itertools.count())

    def ask(self, do: str, name: str, **fields: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "name": name, **fields}) + "\n")
        self._process.stdin.flush()
        response: dict[str, Any] = json.loads(self._process.stdout.readline())
        return response

    def member(self, bootstrap: str, topic: str, group: str, config: Mapping[str, object]) -> JavaMember:
        name = next(self._names)
        options = {"bootstrap.servers": bootstrap, "group.id": group, **_common(config), **config}
        self.ask("join", name, topic=topic, config={key: _text(value) for key, value in options.items()})
        return JavaMember(self, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end(self._process, self._folder)


class JavaMember:
    """Java's `KafkaConsumer`, in a thread of that process."""

    def __init__(self, process: JavaMembers, name: str) -> None:
        self._process, self._name = process, name

    def look(self) -> tuple[set[int], list[Seen], str | None]:
        response = self._process.ask("look", self._name)
        return set(response["assigned"]), [(each[0], each[1]) for each in response["records"]], response["error"]

    def close(self) -> None:
        self._process.ask("close", self._name)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _common(config: Mapping[str, object]) -> dict[str, object]:
    times = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}  # the broker's, by the consumer protocol
    is_classic = config.get("group.protocol") != "consumer"
    return {"enable.auto.commit": False, "auto.offset.reset": "earliest", **(times if is_classic else {})}
