"""One Java process that runs Kafka's own classes. Its commands: tests/conformance/java/Oracle.java."""

import hashlib
import json
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafwire.testing.cluster.kafka import DEFAULT_VERSION, cache_folder, class_path, java

_FOLDER = Path(__file__).parents[2] / "conformance"
_SOURCES = _FOLDER / "java"
_CASES = _FOLDER / "judged_differently.json"
_INT = struct.Struct(">i")


class OracleError(Exception):
    """Kafka's classes refused what they were given; the text is Java's class name and message."""


class Read(NamedTuple):
    """A message as Java read it."""

    written: bytes
    json: Any
    records: list[bytes]


def compiled() -> Path:
    """The folder of the oracle's classes, compiled once per state of the sources."""
    sources = sorted(_SOURCES.glob("*.java"))
    state = hashlib.sha256("\0".join([class_path(), *(source.read_text() for source in sources)]).encode())
    target = cache_folder() / f"oracle-{state.hexdigest()[:16]}"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="compiling-") as scratch:
            classes = Path(scratch) / "classes"
            command = [java("javac"), "-proc:none", "-cp", class_path(), "-d", str(classes)]
            done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            try:
                classes.rename(target)
            except OSError:
                assert target.is_dir()  # another process was quicker
    return target


class Oracle:
    """Starts the process on entry, with the classes of one release. Those of 3.9 serve messages alone."""

    def __init__(self, release: str = DEFAULT_VERSION) -> None:
        self._class_path = f"{compiled()}{os.pathsep}{class_path(release)}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                *(java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m"),
                *("-cp", self._class_path, "Oracle"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def ask(self, *questions: tuple[str | bytes, ...]) -> list[list[bytes] | OracleError]:
        """The results of questions, in one round trip."""
        assert self._process.stdin is not None
        round_trip = [_INT.pack(len(questions))]
        for question in questions:
            round_trip.append(_INT.pack(len(question)))
            for word in question:
                data = word.encode() if isinstance(word, str) else word
                round_trip += (_INT.pack(len(data)), data)
        self._process.stdin.write(b"".join(round_trip))
        self._process.stdin.flush()
        return [self._result() for _ in questions]

    def _result(self) -> list[bytes] | OracleError:
        good = self._read(1) == b"\1"
        words = [self._read(self._number()) for _ in range(self._number())]
        return words if good else OracleError(words[0].decode())

    def _number(self) -> int:
        number: int = _INT.unpack(self._read(4))[0]
        return number

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        assert len(data) == size, "the oracle's process has ended"
        return data

    def one(self, *question: str | bytes) -> list[bytes]:
        """The result of one question; raises `OracleError`."""
        (result,) = self.ask(question)
        return good(result)


def good(result: list[bytes] | OracleError) -> list[bytes]:
    """Return a result, or raise its error."""
    if isinstance(result, OracleError):
        raise result
    return result


class Differences(NamedTuple):
    """Bytes that only Java or only kafwire refuses: the reason, by the error of the side that refuses."""

    java_is_stricter: dict[str, str]
    java_is_laxer: dict[str, str]

    def refused_here(self, error: Exception, result: list[bytes] | OracleError) -> str:
        """Why we refuse, alone or as Java does. A difference that is not listed fails."""
        return "damage refused by both" if isinstance(result, OracleError) else _reason(self.java_is_laxer, error)

    def refused_by_java(self, error: OracleError) -> str:
        """Why Java refuses alone. A difference that is not listed fails."""
        return _reason(self.java_is_stricter, error)

    def reasons(self) -> set[str]:
        """All that is listed, as it is said."""
        return {_said(pattern, why) for listed in self for pattern, why in listed.items()}


def _reason(listed: dict[str, str], error: Exception) -> str:
    for pattern, why in listed.items():
        if re.search(pattern, str(error)):
            return _said(pattern, why)
    raise AssertionError(f"judged differently: {error}")


def _said(pattern: str, why: str) -> str:
    return f"{why} ({pattern})"


def judged_differently(kind: str) -> list[Any]:
    """Cases of `messages` or `records` that only one side refuses."""
    cases: list[Any] = json.loads(_CASES.read_text())[kind]
    return cases


def read(name: str, version: int, data: bytes) -> tuple[str | bytes, ...]:
    """The question what Java makes of a message's bytes."""
    return "read", name, str(version), data


def as_read(result: list[bytes] | OracleError) -> Read:
    """The result of `read`; raises `OracleError`."""
    written, text, *records = good(result)
    return Read(written, json.loads(text), records)


def make(name: str, version: int, form: Any) -> tuple[str | bytes, ...]:
    """The question what Java writes for a message in its JSON form."""
    return "make", name, str(version), json.dumps(form)


def fill(name: str, version: int, fields: Any) -> tuple[str | bytes, ...]:
    """The question what Java writes for a message of which only these fields, in JSON, are set."""
    return "fill", name, str(version), json.dumps(fields)
