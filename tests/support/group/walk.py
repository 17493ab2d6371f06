"""Random walks of a classic group: requests that members could send, and some that they should not.

A walk is played on a broker over sockets, each request over one of its own, so that none is held up by one that waits.
The lines are the same in every world: member ids are M1, M2, ... in the order in which they were given.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol.framing import decode_response, encode_request

# Each member likes them in the same order: which of two wins that have as many votes is not said.
PROTOCOLS = ("a", "b", "c")
LONG_MS = 300_000


@dataclass
class Slot:
    """The player of a member: what it remembers."""

    number: int
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    needs_sync: bool = False
    others: list[str] = field(default_factory=list)
    chosen: str | None = None
    protocols: tuple[str, ...] = PROTOCOLS


@dataclass
class Waiting:
    """A request without a response."""

    asked: str
    slot: Slot | None
    message: Any
    version: int
    socket: socket.socket


class Walk:
    """One walk, on one broker. `settle_ms`: how long nothing must come until nothing is taken to come."""

    def __init__(self, address: str, topic: str, seed: int, *, settle_ms: float = 25.0) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._topic = (host, int(port)), topic
        self._settle_s = settle_ms / 1000
        self._random = random.Random(seed)
        self._group = f"walk-{seed}-{uuid.uuid4().hex[:8]}"
        self._names: dict[str, str] = {}
        self._ghosts: list[str] = []
        self._waiting: list[Waiting] = []
        names = self._random.sample([None, None, None, "i3", "i4"], self._random.randint(2, 5))
        self._slots = [Slot(number, name) for number, name in enumerate(names)]
        self.lines: list[str] = []

    def play(self, steps: int) -> list[str]:
        try:
            for _ in range(steps):
                self._step()
        finally:
            for each in self._waiting:
                each.socket.close()
        return self.lines

    # --- one step

    def _step(self) -> None:
        waiting = [each.slot for each in self._waiting]
        idle = [slot for slot in self._slots if slot not in waiting]
        slot = self._random.choice(idle if idle and self._random.random() < 0.9 else self._slots)
        kinds = {"join": 2, "sync": 1, "beat": 3, "commit": 2, "leave": 1, "look": 1, "odd": 2, "restart": 1, "list": 1}
        if slot.instance_id:
            kinds["restart"] = 4
        if slot.generation < 0:
            kinds["join"] = 16
        elif slot.needs_sync:
            kinds["sync"] = 25
        (kind,) = self._random.choices([*kinds], [*kinds.values()])
        getattr(self, f"_{kind}")(slot)

    def _join(self, slot: Slot) -> None:
        version = self._random.choice([5, 8, 9] if slot.instance_id else [2, 3, 4, 6, 9])
        if self._random.random() < 0.15:
            chosen = sorted(self._random.sample(PROTOCOLS, self._random.randint(1, 3)))
            slot.protocols = tuple(chosen)
        data = b"new" if self._random.random() < 0.1 else b"old"
        request = protocol.JoinGroupRequest(
            group_id=self._group,
            member_id=slot.member_id,
            group_instance_id=slot.instance_id,
            protocol_type="consumer" if self._random.random() < 0.97 else "connect",
            session_timeout_ms=LONG_MS,
            rebalance_timeout_ms=LONG_MS,
        )
        names = [request.JoinGroupRequestProtocol(name=name, metadata=data) for name in slot.protocols]
        request.protocols = names
        what = f"join v{version} {request.protocol_type} {'+'.join(slot.protocols)} {data.decode()}"
        self._ask(f"{self._label(slot)} {what}", slot, request, version)

    def _sync(self, slot: Slot) -> None:
        version = self._random.choice([3, 5])
        if not slot.member_id:
            return self._join(slot)
        slot.needs_sync = False
        request = protocol.SyncGroupRequest(
            group_id=self._group,
            generation_id=slot.generation,
            member_id=slot.member_id,
            group_instance_id=slot.instance_id,
            protocol_type="consumer",
            protocol_name=slot.chosen or "a",
        )
        if slot.leads:
            kind = request.SyncGroupRequestAssignment
            request.assignments = [
                kind(member_id=each, assignment=f"for {self._name(each)}".encode()) for each in slot.others
            ]
        what = f"sync v{version} {slot.generation} {request.protocol_name}{' leading' if slot.leads else ''}"
        return self._ask(f"{self._label(slot)} {what}", slot, request, version)

    def _beat(self, slot: Slot) -> None:
        generation = slot.generation - (self._random.random() < 0.1)
        request = protocol.HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=slot.member_id,
            group_instance_id=slot.instance_id,
        )
        self._ask(f"{self._label(slot)} beat {generation}", slot, request, 3)

    def _commit(self, slot: Slot) -> None:
        without_member = self._random.random() < 0.2
        request = protocol.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=-1 if without_member else slot.generation,
            member_id="" if without_member else slot.member_id,
            group_instance_id=None if without_member else slot.instance_id,
        )
        part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request.topics = [request.OffsetCommitRequestTopic(name=self._topic, partitions=[part])]
        sender = "no member" if without_member else f"{self._label(slot)} {slot.generation}"
        self._ask(f"{sender} commit", slot, request, 8)

    def _leave(self, slot: Slot) -> None:
        request = protocol.LeaveGroupRequest(group_id=self._group)
        leaving = [(slot.member_id, slot.instance_id)]
        if self._ghosts and self._random.random() < 0.7:
            leaving.append((self._random.choice(self._ghosts), None))
        if slot.instance_id and self._random.random() < 0.5:
            leaving[0] = "", slot.instance_id
        request.members = [request.MemberIdentity(member_id=m, group_instance_id=i) for m, i in leaving]
        shown = ", ".join(f"{self._name(m)}/{i}" for m, i in leaving)
        self._ask(f"leave {shown}", None, request, 5)
        if not slot.instance_id:
            slot.member_id, slot.generation, slot.leads = "", -1, False

    def _look(self, slot: Slot) -> None:
        self._ask("describe", None, protocol.DescribeGroupsRequest(groups=[self._group]), 6)

    def _list(self, slot: Slot) -> None:
        states = self._random.choice([[], ["stable"], ["Empty", "PreparingRebalance"], ["completingrebalance"]])
        types = self._random.choice([[], ["classic"], ["Consumer"]])
        request = protocol.ListGroupsRequest(states_filter=states, types_filter=types)
        self._ask(f"list {states} {types}", None, request, 5)

    def _odd(self, slot: Slot) -> None:
        """A request that a healthy client does not send."""
        kind = self._random.choice(["delete", "no name", "short", "stranger", "taken", "no protocols", "empty"])
        join: dict[str, Any] = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS}
        named = protocol.JoinGroupRequest.JoinGroupRequestProtocol(name="a", metadata=b"odd")
        if kind == "delete":
            self._ask(kind, None, protocol.DeleteGroupsRequest(groups_names=[self._group]), 2)
        elif kind == "no name":
            self._ask(kind, None, protocol.HeartbeatRequest(group_id="", member_id="m", generation_id=1), 3)
        elif kind == "short":
            join["session_timeout_ms"] = 10
            request = protocol.JoinGroupRequest(group_id=self._group, member_id="m", protocols=[named], **join)
            self._ask(kind, None, request, 5)
        elif kind == "stranger":
            request = protocol.JoinGroupRequest(
                group_id=self._group, member_id="stranger", protocol_type="consumer", protocols=[named], **join
            )
            self._ask(kind, None, request, 5)
        elif kind == "taken":  # another member's id with this one's instance id
            member_id = self._random.choice(self._slots).member_id
            beat = protocol.HeartbeatRequest(
                group_id=self._group, member_id=member_id, generation_id=1, group_instance_id="i3"
            )
            self._ask(f"{kind} {self._name(member_id)}", None, beat, 3)
        elif kind == "no protocols":
            request = protocol.JoinGroupRequest(group_id=self._group, protocol_type="consumer", **join)
            self._ask(kind, None, request, 5)
        else:
            sync = protocol.SyncGroupRequest(group_id=self._group, member_id=slot.member_id, generation_id=1)
            self._ask(f"{self._label(slot)} {kind}", None, sync, 5)

    def _restart(self, slot: Slot) -> None:
        """The process has ended, and another one comes: it knows nothing."""
        if slot.member_id and not slot.instance_id:
            self._ghosts.append(slot.member_id)
        slot.member_id, slot.generation, slot.leads, slot.others = "", -1, False, []
        self._join(slot)

    # --- requests and responses

    def _name(self, member_id: str) -> str:
        """A member's name; for a member without a response so far the start of its id."""
        return self._names.get(member_id) or (f"{member_id[:-36]}?" if len(member_id) > 36 else member_id or "''")

    def _label(self, slot: Slot) -> str:
        return f"{slot.number}={self._name(slot.member_id)}{'/' + slot.instance_id if slot.instance_id else ''}"

    def _ask(self, asked: str, slot: Slot | None, message: Any, version: int) -> None:
        connection = socket.create_connection(self._address)
        connection.settimeout(10)
        body = encode_request(message, version, 1, "walker")
        connection.sendall(struct.pack(">i", len(body)) + body)
        new = Waiting(asked, slot, message, version, connection)
        self._waiting.append(new)
        self.lines.append(f"{asked} -> waits")
        place = len(self.lines) - 1
        for each, response in self._arrived():
            text = self._reported(each, response)
            if each is new:
                self.lines[place] = f"{asked} -> {text}"
            else:
                self.lines.append(f"    later: {each.asked} -> {text}")
        self.lines[place + 1 :] = sorted(self.lines[place + 1 :])

    def _arrived(self) -> list[tuple[Waiting, Any]]:
        """All responses until there have been none for some time."""
        found = []
        until = time.monotonic() + self._settle_s
        while self._waiting:
            sockets = [each.socket for each in self._waiting]
            readable, _, _ = select.select(sockets, [], [], max(until - time.monotonic(), 0))
            if not readable:
                break
            for each in [each for each in self._waiting if each.socket in readable]:
                each.socket.settimeout(10)
                head = each.socket.recv(4, socket.MSG_PEEK)
                assert len(head) == 4, f"{each.asked}: the broker has closed the connection"
                data = self._receive(each.socket)
                found.append((each, decode_response(type(each.message), data, each.version)[1]))
                self._waiting.remove(each)
                each.socket.close()
                until = time.monotonic() + self._settle_s
        found.sort(key=lambda pair: pair[0].asked)
        for each, response in found:
            if type(each.message).__name__ == "JoinGroupRequest" and response.member_id:
                self._names.setdefault(response.member_id, f"M{len(self._names) + 1}")
        return found

    @staticmethod
    def _receive(connection: socket.socket) -> bytes:
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        return connection.recv(size, socket.MSG_WAITALL)

    def _reported(self, each: Waiting, response: Any) -> str:
        kind = type(each.message).__name__.removesuffix("Request")
        slot = each.slot
        if slot is not None and getattr(response, "error_code", 0) == ErrorCode.REBALANCE_IN_PROGRESS:
            slot.generation = -1
        if kind == "JoinGroup":
            if slot is not None and response.member_id and response.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
                slot.member_id, slot.generation = response.member_id, response.generation_id
                slot.leads = bool(response.members) and not response.skip_assignment
                slot.others = [member.member_id for member in response.members]
                slot.chosen = response.protocol_name
                slot.needs_sync = not response.error_code
            elif slot is not None and response.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
            ):
                slot.member_id, slot.generation, slot.leads = "", -1, False
            members = sorted((self._name(m.member_id), m.group_instance_id, m.metadata) for m in response.members)
            return (
                f"{_error(response)} {self._name(response.member_id)} in {response.generation_id}"
                f" {response.protocol_type} {response.protocol_name!r} led by {self._name(response.leader)}"
                f" {'skip ' if response.skip_assignment else ''}{members}"
            )
        if kind == "SyncGroup":
            return f"{_error(response)} {response.assignment!r} {response.protocol_type} {response.protocol_name}"
        if kind == "LeaveGroup":
            members = [(self._name(m.member_id), m.group_instance_id, _error(m)) for m in response.members]
            return f"{_error(response)} {members}"
        if kind == "OffsetCommit":
            return _error(response.topics[0].partitions[0])
        if kind == "DescribeGroups":
            (its,) = response.groups
            message = (its.error_message or "").replace(self._group, "g") or None
            described = sorted(
                (
                    self._name(m.member_id),
                    m.group_instance_id,
                    m.client_id,
                    m.client_host,
                    m.member_metadata,
                    m.member_assignment,
                )
                for m in its.members
            )
            return f"{_error(its)} {message} {its.group_state} {its.protocol_type!r} {its.protocol_data!r} {described}"
        if kind == "ListGroups":
            own = [g for g in response.groups if g.group_id == self._group]
            return f"{_error(response)} {[(g.protocol_type, g.group_state, g.group_type) for g in own]}"
        if kind == "DeleteGroups":
            return _error(response.results[0])
        return _error(response)


def _error(response: Any) -> str:
    return ErrorCode(response.error_code).name if response.error_code else "ok"
