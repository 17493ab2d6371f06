"""Members of share groups with Kafka's Java client: processes that a test drives step by step, and may kill."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafwire.testing.cluster.kafka import class_path, java
from tests.support import deadlines as waiting
from tests.support.java.client import LOGGING, compiled, end

SOURCE = Path(__file__).parents[2] / "java" / "ShareMember.java"
# Of brokers: what makes members quick, and locks short.
QUICK = {
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
}


class Delivered(NamedTuple):
    """A record that a member got."""

    topic: str
    partition: int
    offset: int
    deliveries: int
    value: str


class JavaShareMembers:
    """One process of Java, for several members."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafwire-java-")
        logging = Path(self._folder.name) / "log4j2.xml"
        logging.write_text(LOGGING)
        command = [
            java(),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={logging}"),
            *("-cp", f"{compiled(SOURCE)}:{class_path()}", "ShareMember"),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )

    def ask(self, do: str, name: str, **fields: object) -> dict[str, Any]:
        """One command, and its reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "name": name, **fields}) + "\n")
        self._process.stdin.flush()
        response: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in response, response["error"]
        return response

    def member(self, bootstrap: str, name: str, group: str, topics: Sequence[str], **config: object) -> JavaShareMember:
        """One that subscribes. Options have underscores for dots."""
        options = {name.replace("_", "."): str(value) for name, value in config.items()}
        options |= {"bootstrap.servers": bootstrap, "group.id": group, "client.id": name}
        self.ask("open", name, topics=[*topics], config=options)
        return JavaShareMember(self, name)

    def kill(self) -> None:
        """End the process at once: no member says good-bye."""
        self._process.kill()
        self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end(self._process, self._folder)


class JavaShareMember:
    """A `KafkaShareConsumer` of that process."""

    def __init__(self, process: JavaShareMembers, name: str) -> None:
        self._process, self._name = process, name

    def poll(self, wait_ms: int = 200) -> list[Delivered]:
        """The records of one poll."""
        return [Delivered(*each) for each in self._process.ask("poll", self._name, wait=wait_ms)["records"]]

    def read(self, count: int) -> list[Delivered]:
        """The records of polls until there are so many."""
        found: list[Delivered] = []

        def are_there() -> bool:
            found.extend(self.poll())
            return len(found) >= count

        waiting.until(are_there, f"{count} records are there")
        return found

    def say(self, records: Sequence[Delivered], kind: str) -> None:
        """Acknowledge each by ACCEPT, RELEASE, REJECT or RENEW; it is sent with the next poll or commit."""
        said = [[each.topic, each.partition, each.offset, kind] for each in records]
        self._process.ask("say", self._name, said=said)

    def commit(self) -> list[str]:
        """Send acknowledgements. Returns the errors of them."""
        errors: list[str] = self._process.ask("commit", self._name)["errors"]
        return errors

    def close(self) -> None:
        """Leave."""
        self._process.ask("close", self._name)
