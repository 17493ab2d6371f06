"""`scripts.protocol_tables`: the page of the messages has all of them."""

from __future__ import annotations

import re

from kafwire.protocol import MESSAGES, Request, Response
from scripts import protocol_tables


def test_the_page_is_current() -> None:
    page = protocol_tables.PAGE.read_text()
    assert page == protocol_tables.written(page), "run python -m scripts.protocol_tables"


def test_each_message_has_one_row() -> None:
    requests = [f"{name}Request" for name in re.findall(r"^\| \d+ \| `(\w+)`", protocol_tables.apis(), re.MULTILINE)]
    others = re.findall(r"^\| `(\w+)` \|", protocol_tables.data(), re.MULTILINE)
    assert sorted(requests) == sorted(name for name, cls in MESSAGES.items() if issubclass(cls, Request))
    assert others == [name for name, cls in MESSAGES.items() if not issubclass(cls, Request | Response)]


def test_a_row_says_which_versions_are_not_negotiated() -> None:
    assert "| 0 | `Produce` | 0-13; Kafka 4 removed 0-2 | 9+ | Appends one batch " in protocol_tables.apis()
