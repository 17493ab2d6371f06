"""One Java process that answers for Kafka's own message classes."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafwire.testing.kafka import class_path, java


class OracleError(Exception):
    """Kafka's classes refused what they were given."""


class Oracle:
    """Starts the process on entry; see MessageOracle.java for what it can be asked."""

    def __enter__(self) -> Self:
        source = Path(__file__).parent / "MessageOracle.java"
        self.process = subprocess.Popen(
            [java(), "-cp", class_path(), str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=30)

    def ask(self, question: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        status, _, rest = answer.rstrip("\n").partition(" ")
        if status != "ok":
            raise OracleError(rest or "the process ended")
        return rest

    def read(self, name: str, version: int, data: bytes) -> tuple[bytes, Any]:
        """What Java writes after reading `data`, and what it read, as JSON."""
        written, _, text = self.ask(f"read {name} {version} {data.hex()}").partition(" ")
        return bytes.fromhex(written[1:]), json.loads(text)

    def make(self, name: str, version: int, message: Any) -> bytes:
        """What Java writes for a message in its JSON form."""
        return bytes.fromhex(self.ask(f"make {name} {version} {json.dumps(message)}")[1:])
