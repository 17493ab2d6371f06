"""Finds: the broken promise, the smallest case that breaks it, and the files for a report."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafwire.errors import ProtocolError
from kafwire.protocol.kafka_json import to_json
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.execute import Transcript
from kafwire.testing.fuzzer.judge import Violation

FORMAT = 1
_BYTES_SHOWN = 4096

_TEST = '''"""{title}

Written by `kafwire fuzz`. Needs kafwire and pytest, and a server: KAFWIRE_FUZZ_TARGET=host:port (on loopback).
KAFWIRE_FUZZ_DESTRUCTIVE=1 permits requests that change the server, which this case {needs}.
"""

import json
import os

from kafwire.testing.fuzzer import replay

FIND = json.loads(
    r"""
{find}
"""
)


def test_{name}() -> None:
    target = os.environ.get("KAFWIRE_FUZZ_TARGET")
    assert target, "set KAFWIRE_FUZZ_TARGET to the host:port of a server"
    broken = replay(FIND, target, destructive=os.environ.get("KAFWIRE_FUZZ_DESTRUCTIVE") == "1")
    assert not broken, "\\n".join(broken)
'''


@dataclass
class Find:
    """A broken promise with its smallest case.

    Args:
        violation: the promise.
        api: the API.
        case: the smallest case.
        transcript: the bytes that were sent and received.
        reproduced: the repeats that broke the promise again, as "3 of 3".
        shrunk: True if the case was made smaller.
        destructive: True if the case needs `destructive`.
        original: seed and number of the first case that broke the promise.
        versions: the versions of all cases that broke it in the same way.
        count: the number of cases that broke it in the same way.

    Example:
        >>> from kafwire.testing.fuzzer import Find
        >>> "versions" in Find.__dataclass_fields__
        True
    """

    violation: Violation
    api: str
    case: Case
    transcript: Transcript
    reproduced: str
    shrunk: bool
    destructive: bool
    original: tuple[int, int]
    versions: set[int] = field(default_factory=set)
    count: int = 1

    @property
    def flaky(self) -> bool:
        """True if some repeats did not break the promise."""
        tries = self.reproduced.split(" of ")
        return tries[0] != tries[1]

    @property
    def name(self) -> str:
        """A name for files and functions."""
        text = f"{self.violation.rule}_{self.api}_{self.original[0]}_{self.original[1]}_{self.violation.step}"
        return re.sub(r"\W+", "_", text).lower()

    @property
    def versions_text(self) -> str:
        """The versions as a range: "3-7"."""
        low, high = min(self.versions), max(self.versions)
        return str(low) if low == high else f"{low}-{high}"

    def to_json(self) -> dict[str, Any]:
        """Return the find as JSON, which `--replay` reads.

        Returns:
            A dict that `json.dumps` takes.
        """
        return {
            "kafwire_fuzz": FORMAT,
            "rule": self.violation.rule,
            "promise": self.violation.promise,
            "seen": self.violation.detail,
            "api": self.api,
            "versions": self.versions_text,
            "seed": self.original[0],
            "case_number": self.original[1],
            "count": self.count,
            "reproduced": self.reproduced,
            "shrunk": self.shrunk,
            "destructive": self.destructive,
            "case": self.case.to_json(),
            "exchange": [_exchange(exchange) for exchange in self.transcript.exchanges],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write the JSON and a test.

        Args:
            folder: the folder; it is created if needed.

        Returns:
            The files.
        """
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json(), indent=2)
        json_file = folder / f"{self.name}.json"
        json_file.write_text(text + "\n")
        test_file = folder / f"test_{self.name}.py"
        title = f"{self.violation.rule}: {self.api} {self.versions_text}."
        needs = "has" if self.destructive else "has not"
        test_file.write_text(_TEST.format(title=title, needs=needs, find=text, name=self.name))
        return [json_file, test_file]


def _exchange(exchange: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sent": exchange.sent[:_BYTES_SHOWN].hex(),
        "status": exchange.status,
        "received": exchange.received[:_BYTES_SHOWN].hex(),
    }
    if exchange.error:
        found["error"] = exchange.error
    if exchange.response is not None:
        try:
            found["answer"] = to_json(exchange.response, exchange.version)
        except ProtocolError as error:
            # The response may have another version than the request: a refused ApiVersions request gets version 0.
            found["answer"] = str(error)
    return found
