"""Shared parts of the tests of the fault proxy: frames by hand, and a stage whose rules are the test's."""

import random
import struct

from kafwire.protocol import MESSAGES
from kafwire.testing.faults import Fault, Rule
from kafwire.testing.faults.conversation import Conversation
from kafwire.testing.faults.line import End, Line
from kafwire.testing.faults.script import Decision, FaultScript, Occasion


def sized(body: bytes) -> bytes:
    """A frame."""
    return struct.pack(">i", len(body)) + body


def request(
    api: str, correlation_id: int, body: bytes = b"", *, version: int = 4, client_id: str | None = "me"
) -> bytes:
    """A request's frame; the body is anything."""
    name = (client_id or "").encode()
    key: int = MESSAGES[f"{api}Request"].api_key  # type: ignore[attr-defined]
    head = struct.pack(">hhih", key, version, correlation_id, len(name) if client_id is not None else -1)
    return sized(head + name + body)


def response(correlation_id: int, body: bytes = b"answer") -> bytes:
    """A response's frame."""
    return sized(struct.pack(">i", correlation_id) + body)


class Staged:
    """A conversation without sockets; `sent` and `received` are what has come out for the broker and for the client."""

    def __init__(self, *rules: Rule, seed: int = 1) -> None:
        self.script = FaultScript(lambda name: random.Random(f"{seed}/{name}").random)
        for rule in rules:
            self.script.add(rule)
        self.occasions: list[Occasion] = []
        self.events: list[tuple[float, str, Fault]] = []
        self.spreads: list[tuple[Fault, int]] = []
        self.given_back = 0
        self.talk = Conversation(3, 1, self)
        self.sent = b""
        self.received = b""
        self.broker_end: End | None = None
        self.client_end: End | None = None

    # -- what the conversation asks of its stage

    def decide(self, occasion: Occasion, now: float) -> Decision | None:
        self.occasions.append(occasion)
        return self.script.decide(occasion, now)

    def give_back(self, decision: Decision) -> None:
        self.given_back += 1
        self.script.give_back(decision)

    def played(self, occasion: Occasion, fault: Fault, now: float) -> None:
        self.events.append((now, occasion.api, fault))

    def spread(self, fault: Fault, broker: int, now: float) -> None:
        self.spreads.append((fault, broker))

    # -- what a test does

    def say(self, data: bytes, now: float = 0.0) -> None:
        """The client sends."""
        self.talk.from_client(data, now)
        self.pass_on(now)

    def reply(self, data: bytes, now: float = 0.0) -> None:
        """The broker sends."""
        self.talk.from_broker(data, now)
        self.pass_on(now)

    def pass_on(self, now: float) -> None:
        """Take the pieces that are due, one at a time."""
        self.talk.tick(now)
        data, end = drained(self.talk.to_broker, now)
        self.sent += data
        self.broker_end = self.broker_end or end
        data, end = drained(self.talk.to_client, now)
        self.received += data
        self.client_end = self.client_end or end


def drained(line: Line, now: float) -> tuple[bytes, End | None]:
    """The bytes that a line lets go now, and its end if it is reached."""
    data = b""
    while (piece := line.take(now)) is not None:
        if isinstance(piece, End):
            return data, piece
        data += piece
        line.sent(len(piece), now)
    return data, None
