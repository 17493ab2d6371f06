"""Java's `Admin` as one long-lived process driven by lines of JSON (tests/java/JavaAdmin.java)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafwire.testing.cluster.kafka import DEFAULT_VERSION, class_path, java
from tests.support.java.client import LOGGING, compiled, end

SOURCE = Path(__file__).parents[2] / "java" / "JavaAdmin.java"


class JavaOutcome(NamedTuple):
    """The outcome of a call: a result, or the name of an error, for each key."""

    results: dict[str, Any]
    errors: dict[str, str]


class JavaAdmin:
    """Calls methods of Java's `Admin` of a release. Starts the process on entry."""

    def __init__(self, version: str = DEFAULT_VERSION) -> None:
        self._version = version

    def __enter__(self) -> Self:
        self._number = 0
        self._folder = tempfile.TemporaryDirectory(prefix="kafwire-java-")
        logging = Path(self._folder.name) / "log4j2.xml"
        logging.write_text(LOGGING)
        command = [
            *(java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={logging}",
            *("-cp", f"{compiled(SOURCE)}:{class_path(self._version)}", "JavaAdmin"),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end(self._process, self._folder)

    def call(self, bootstrap: str, method: str, arguments: Mapping[str, Any]) -> JavaOutcome:
        """Call a method, whose arguments are those of its case in JavaAdmin.java."""
        reply = self._ask({"bootstrap": bootstrap, "method": method, "arguments": arguments})
        return JavaOutcome(reply["results"], reply["errors"])

    def methods(self) -> list[str]:
        """List the methods of Java's `Admin`."""
        names: list[str] = self._ask({"method": "methods"})["results"]["names"]
        return names

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        self._process.stdin.write(json.dumps(asked | {"number": self._number}) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = {"number": 0}
        while reply["number"] != self._number:  # a test that ran out of time left its reply unread
            reply = json.loads(self._process.stdout.readline())
        assert "failed" not in reply, f"Java's Admin could not {asked['method']}: {reply['failed']}"
        return reply
