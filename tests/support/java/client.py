"""Kafka's own Java client, as one long-lived process driven by lines of JSON (tests/java/Interop.java)."""

import base64
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafwire.testing.cluster.kafka import DEFAULT_VERSION, cache_folder, class_path, java

SOURCE = Path(__file__).parents[2] / "java" / "Interop.java"

LOGGING = """<Configuration status="error">
  <Appenders><Console name="console" target="SYSTEM_ERR"/></Appenders>
  <Loggers><Root level="error"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
"""


def end(process: subprocess.Popen[str], folder: tempfile.TemporaryDirectory[str]) -> None:
    """End a program that reads its input to the end, and remove its folder."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(30)
    process.stdout.close()
    folder.cleanup()


class Written(NamedTuple):
    """A record as it is handed to a producer; partition -1: where its partitioner says."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Seen(NamedTuple):
    """A record as any client shows it."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def compiled(source: Path) -> Path:
    """The folder with the classes of a Java program, compiled on first use and again when the source changes."""
    key = hashlib.sha256(source.read_bytes() + class_path().encode()).hexdigest()[:12]
    target = cache_folder() / f"java-{source.stem}-{key}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="compiling-") as scratch:
            folder = Path(scratch) / "classes"
            command = [java("javac"), "-cp", class_path(), "-d", str(folder), str(source)]
            subprocess.run(command, check=True)
            try:
                folder.rename(target)
            except OSError:
                assert target.exists()  # another process was faster
    return target


class JavaClient:
    """Produces and consumes with Kafka's Java client."""

    def __init__(self, version: str = DEFAULT_VERSION, *, jvm_options: Sequence[str] = ()) -> None:
        self._number = 0
        self._folder = tempfile.TemporaryDirectory(prefix="kafwire-java-")
        logging = Path(self._folder.name) / "log4j2.xml"
        logging.write_text(LOGGING)
        command = [
            java(),
            *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *jvm_options,
            f"-Dlog4j2.configurationFile={logging}",
            *("-cp", f"{compiled(SOURCE)}:{class_path(version)}"),
            "Interop",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )

    def produce(self, bootstrap: str, topic: str, records: Sequence[Written], **config: object) -> list[int]:
        """Write records in order; their offsets. Options of the producer have underscores for dots."""
        shown = [
            [
                record.partition,
                record.timestamp_ms,
                encode(record.key),
                encode(record.value),
                [[name, encode(value)] for name, value in record.headers],
            ]
            for record in records
        ]
        reply = self._ask("produce", bootstrap, topic, config, records=shown)
        offsets: list[int] = reply["offsets"]
        return offsets

    def consume(self, bootstrap: str, topic: str, **config: object) -> list[Seen]:
        """All records of a topic, partition by partition."""
        reply = self._ask("consume", bootstrap, topic, config)
        return sorted(
            Seen(
                partition,
                offset,
                timestamp_ms,
                timestamp_type,
                decode(key),
                decode(value),
                tuple((name, decode(content)) for name, content in headers),
            )
            for partition, offset, timestamp_ms, timestamp_type, key, value, headers in reply["records"]
        )

    def close(self) -> None:
        """End the process."""
        end(self._process, self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, do: str, bootstrap: str, topic: str, config: Mapping[str, object], **fields: object
    ) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        options = {"bootstrap.servers": bootstrap} | {name.replace("_", "."): value for name, value in config.items()}
        self._number += 1
        command = {"number": self._number, "do": do, "topic": topic, "config": options, **fields}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = {"number": 0}
        while reply["number"] != self._number:  # a test that ran out of time left its reply unread
            reply = json.loads(self._process.stdout.readline())
        if "error" in reply:
            message = f"the Java client could not {do} {topic}: {reply['error']}"
            raise RuntimeError(message)
        return reply


def encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
