"""`ConnectionMachine` passes correct code, the frame core among it, and finds each of many planted bugs."""

from __future__ import annotations

import struct
from collections import deque

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kafwire.errors import ProtocolError
from kafwire.runtime.frames import Frames
from kafwire.testing.strategies import ConnectionAdapter, ConnectionMachine, Fault
from tests.support import seeds

QUIET = settings(
    database=None,
    max_examples=500,
    report_multiple_bugs=False,
    stateful_step_count=30,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


class FramesAdapter(ConnectionAdapter):
    """kafwire's own frame core."""

    def __init__(self, max_frame: int) -> None:
        self.frames = Frames(max_frame)

    def queue(self, token: int, correlation_id: int, request: bytes, *, expects_response: bool) -> None:
        self.frames.queue(token, correlation_id, [request], expects_response)

    def take(self, limit: int) -> bytes:
        return self.frames.take(limit)

    def feed(self, data: bytes) -> None:
        self.frames.feed(data)

    def completions(self) -> list[tuple[int, bytes | None]]:
        return [(token, None if frame is None else bytes(frame)) for _, token, frame in self.frames.completions()]

    def close(self) -> list[int]:
        return self.frames.outstanding()


class FramesMachine(ConnectionMachine):
    def connect(self) -> ConnectionAdapter:
        return FramesAdapter(self.max_frame)


class SmallFramesMachine(FramesMachine):
    """Frames larger than the limit come naturally: what they are refused for is their size only."""

    max_frame = 70_004
    faults = frozenset({Fault.TOO_LARGE, Fault.TOO_SMALL})


class SimpleAdapter(ConnectionAdapter):
    """A client's side as one would write it on a page; `bug` names the one planted in it."""

    def __init__(self, max_frame: int, bug: str = "") -> None:
        self.max_frame = max_frame
        self.bug = bug
        self.out = bytearray()
        self.unsent: deque[tuple[int, int, bool, int]] = deque()
        self.left = 0
        self.sent: deque[tuple[int, int]] = deque()
        self.done: list[tuple[int, bytes | None]] = []
        self.received = bytearray()
        self.broken = False

    def queue(self, token: int, correlation_id: int, request: bytes, *, expects_response: bool) -> None:
        self.out += struct.pack(">i", len(request)) + request
        if self.bug == "waits for all":
            expects_response = True
        self.unsent.append((token, correlation_id, expects_response, 4 + len(request)))

    def take(self, limit: int) -> bytes:
        if self.broken and self.bug != "sends after a refusal":
            return b""
        limit -= self.bug == "sends nothing for one byte"
        data = bytes(self.out[: limit + (self.bug == "takes one more")])
        del self.out[: len(data)]
        self.left += len(data)
        while self.unsent and self.left >= self.unsent[0][3]:
            token, correlation_id, expects_response, size = self.unsent.popleft()
            self.left -= size
            if expects_response:
                self.sent.append((token, correlation_id))
            elif self.bug != "forgets requests without a response":
                self.done.append((token, None))
        return data

    def feed(self, data: bytes) -> None:
        if self.broken and self.bug != "goes on after a refusal":
            raise ProtocolError("broken")
        try:
            self.parse(data)
        except ProtocolError:
            self.broken = True
            raise

    def parse(self, data: bytes) -> None:
        if self.bug == "loses a lone byte of a prefix" and len(self.received) + len(data) < 2:
            return
        self.received += data
        while len(self.received) >= 4:
            (size,) = struct.unpack_from(">i", self.received)
            if size > self.max_frame and self.bug != "any size":
                raise ProtocolError("too large")
            if size < 4 and self.bug == "skips small sizes":
                del self.received[:4]
                continue
            if size < 4:
                raise ProtocolError("too small")
            if len(self.received) < 4 + size:
                return
            frame = bytes(self.received[4 : 4 + size])
            del self.received[: 4 + size]
            if self.bug == "one frame per piece":
                self.received.clear()
            self.complete(frame)

    def complete(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if self.bug == "responds by id":
            for pair in self.sent:
                if pair[1] == correlation_id:
                    self.sent.remove(pair)
                    self.done.append((pair[0], frame))
                    return
        if self.bug == "drops what it does not know" and (not self.sent or self.sent[0][1] != correlation_id):
            return
        if self.bug == "responds before requests" and any(correlation_id == each[1] for each in self.unsent):
            return
        if not self.sent or (self.sent[0][1] != correlation_id and self.bug != "any id"):
            raise ProtocolError("not the id")
        self.done.append((self.sent.popleft()[0], frame[self.bug == "cuts long ones" and len(frame) > 20_000 :]))

    def completions(self) -> list[tuple[int, bytes | None]]:
        done, self.done = self.done, []
        return done

    def close(self) -> list[int]:
        lost = [token for token, _ in self.sent] + [token for token, *_ in self.unsent]
        return lost[1:] if self.bug == "loses one at the end" else lost


BUGS = (
    "waits for all",
    "sends after a refusal",
    "sends nothing for one byte",
    "takes one more",
    "forgets requests without a response",
    "goes on after a refusal",
    "loses a lone byte of a prefix",
    "any size",
    "skips small sizes",
    "one frame per piece",
    "responds by id",
    "drops what it does not know",
    "responds before requests",
    "any id",
    "cuts long ones",
    "loses one at the end",
)


def machine(bug: str) -> type[ConnectionMachine]:
    class Planted(ConnectionMachine):
        def connect(self) -> ConnectionAdapter:
            return SimpleAdapter(self.max_frame, bug)

    return Planted


def test_frames() -> None:
    run_state_machine_as_test(FramesMachine, settings=settings(QUIET, max_examples=seeds.examples(60)))


def test_frames_at_their_limit() -> None:
    run_state_machine_as_test(SmallFramesMachine, settings=settings(QUIET, max_examples=seeds.examples(25)))


def test_a_simple_client() -> None:
    run_state_machine_as_test(machine(""), settings=settings(QUIET, max_examples=seeds.examples(40)))


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine(bug), settings=settings(QUIET, max_examples=3000, phases=[Phase.generate]))


@pytest.mark.parametrize("bug", ["waits for all", "one frame per piece", "any id"])
def test_a_find_shrinks_to_few_steps(bug: str) -> None:
    with pytest.raises(AssertionError) as caught:
        # always the same examples: from some beginnings shrinking ends a little above the smallest
        run_state_machine_as_test(machine(bug), settings=settings(QUIET, derandomize=True, max_examples=3000))
    steps = [line for note in caught.value.__notes__ for line in note.splitlines() if line.startswith("state.")]
    assert 3 <= len(steps) <= 9, "\n".join(steps)
    assert all(len(step) < 90 for step in steps), "\n".join(steps)


def test_faults_may_be_left_out() -> None:
    class Tolerant(ConnectionMachine):
        faults = frozenset(Fault) - {Fault.LATER_ID}

        def connect(self) -> ConnectionAdapter:
            return SimpleAdapter(self.max_frame, "responds by id")

    run_state_machine_as_test(Tolerant, settings=settings(QUIET, max_examples=seeds.examples(40)))


def test_connect_has_to_be_defined() -> None:
    with pytest.raises(NotImplementedError, match="has to define connect"):
        ConnectionMachine()
