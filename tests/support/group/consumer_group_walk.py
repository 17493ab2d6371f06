"""Random walks of a group of the consumer protocol: heartbeats that members could send, and some that they should not.

A walk is played on a broker over one socket. The lines are the same in every world: topics go by name, and member ids
are the walk's own. The group's option lets assignments be made without waiting.
"""

from __future__ import annotations

import random
import socket
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafwire.protocol.framing import decode_response, decode_versioned, encode_request, encode_versioned
from tests.support import deadlines as waiting

LONG_MS = 300_000
Places = frozenset[tuple[str, int]]
GROUP = 32  # the resource type of a group's options


@dataclass
class Slot:
    """The player of a member: what it remembers."""

    number: int
    instance_id: str | None
    member_id: str
    epoch: int = 0
    is_in: bool = False
    topics: tuple[str, ...] = ()
    reported: Places = frozenset()
    owned: Places = frozenset()
    is_classic: bool = False
    leads: bool = False


@dataclass
class Walk:
    """One walk, on one broker. `topics`: names and ids, by which the broker knows them."""

    address: str
    topics: dict[str, uuid.UUID]
    seed: int
    is_mixed: bool = False  # whether one member speaks the classic protocol: alone in a classic group, it never waits
    lines: list[str] = field(default_factory=list)

    def play(self, steps: int) -> list[str]:
        host, _, port = self.address.rpartition(":")
        self._random = random.Random(self.seed)
        self._group = f"walk-{self.seed}-{uuid.uuid4().hex[:8]}"
        self._names = {topic_id: name for name, topic_id in self.topics.items()}
        self._members = 0
        names = self._random.sample([None, None, None, "i3", "i4"], self._random.randint(2, 3 if self.is_mixed else 5))
        self._slots = [Slot(number, name, self._new_id()) for number, name in enumerate(names)]
        if self.is_mixed:
            self._slots[0].is_classic, self._slots[0].instance_id = True, None
        with socket.create_connection((host, int(port))) as self._socket:
            self._socket.settimeout(60)
            self._prepare()
            for _ in range(steps):
                self._step()
        return self.lines

    def _new_id(self) -> str:
        self._members += 1
        return f"m{self._members}"

    def _prepare(self) -> None:
        request = protocol.IncrementalAlterConfigsRequest()
        config = request.AlterableConfig(name="consumer.assignment.interval.ms", config_operation=0, value="0")
        resource = request.AlterConfigsResource(resource_type=GROUP, resource_name=self._group, configs=[config])
        request.resources = [resource]
        (response,) = self._ask(request).responses
        assert response.error_code == 0, response.error_message
        asked = protocol.DescribeConfigsRequest()
        asked.resources = [asked.DescribeConfigsResource(resource_type=GROUP, resource_name=self._group)]
        waiting.until(lambda: self._is_set(asked), "the broker knows of the group's option")

    def _is_set(self, asked: Any) -> bool:
        (response,) = self._ask(asked).results
        return any((each.name, each.value) == ("consumer.assignment.interval.ms", "0") for each in response.configs)

    # --- one step

    def _step(self) -> None:
        slot = self._random.choice(self._slots)
        kinds = {"beat": 12, "quiet": 3, "want": 2, "leave": 2, "rejoin": 1, "look": 2, "odd": 3, "commit": 3}
        kinds |= {"fetch": 2, "list": 1, "other": 1}
        if self.is_mixed:
            kinds["leave"] = 6
        if not slot.is_in:
            kinds = {"join": 12, "odd": 2, "look": 1, "commit": 1, "other": 1}
        if slot.is_classic:
            kinds = {
                "classic_beat": 5,
                "classic_join": 4,
                "classic_sync": 5,
                "look": 1,
                "list": 1,
                "commit": 2,
                "fetch": 1,
            }
            kinds |= {"classic_leave": 1} if slot.is_in else {"classic_join": 12}
        (kind,) = self._random.choices([*kinds], [*kinds.values()])
        getattr(self, f"_{kind}")(slot)

    def _choose(self, slot: Slot) -> dict[str, Any]:
        """The topics and the assignor that it wants, as fields."""
        count = self._random.randint(0 if self._random.random() < 0.2 else 1, len(self.topics))
        names = tuple(sorted(self._random.sample([*self.topics, "none"], count)))
        said: dict[str, Any] = {"subscribed_topic_names": [*names]}
        slot.topics = names
        if self._random.random() < 0.3:
            said["server_assignor"] = self._random.choice(["uniform", "range"])
        return said

    def _join(self, slot: Slot) -> None:
        slot.epoch, slot.reported, slot.owned = 0, frozenset(), frozenset()
        self._beat(slot, rebalance_timeout_ms=LONG_MS, rack_id=None, **self._choose(slot))

    def _rejoin(self, slot: Slot) -> None:
        if self._random.random() < 0.5:
            slot.member_id = self._new_id()
        self._join(slot)

    def _want(self, slot: Slot) -> None:
        self._beat(slot, **self._choose(slot))

    def _quiet(self, slot: Slot) -> None:
        self._heartbeat(slot, slot.epoch)

    def _beat(self, slot: Slot, **fields: Any) -> None:
        """Report the member's partitions: the assigned ones, or those of a reconciliation that is not done."""
        if self._random.random() < 0.8:
            slot.owned = slot.reported
        elif self._random.random() < 0.5:
            slot.owned &= slot.reported
        self._heartbeat(slot, slot.epoch, owned=slot.owned, **fields)

    def _leave(self, slot: Slot) -> None:
        epoch = -2 if slot.instance_id and self._random.random() < 0.6 else -1
        self._heartbeat(slot, epoch)
        slot.is_in = False
        if self._random.random() < 0.7:
            slot.member_id = self._new_id()

    def _odd(self, slot: Slot) -> None:
        """A request that a healthy client does not send."""
        kind = self._random.choice(["ahead", "behind", "taken", "stranger", "assignor", "first", "away", "invalid"])
        if kind == "ahead":
            self._heartbeat(slot, slot.epoch + self._random.randint(1, 3))
        elif kind == "behind":
            self._heartbeat(slot, max(slot.epoch - 1, 1), owned=self._random.choice([slot.reported, slot.owned, None]))
        elif kind == "taken":
            other = self._random.choice(self._slots)
            ghost = Slot(9, other.instance_id, self._random.choice([other.member_id, slot.member_id, "m0"]))
            self._heartbeat(ghost, self._random.choice([-1, -2, 1, 3]))
        elif kind == "stranger":
            self._heartbeat(Slot(9, self._random.choice([None, "i9"]), "m0"), self._random.choice([-1, 1]))
        elif kind == "assignor":
            self._heartbeat(slot, slot.epoch, server_assignor="sticky")
        elif kind == "first":
            said: dict[str, Any] = {"owned": frozenset(), "rebalance_timeout_ms": 1000, "subscribed_topic_names": ["x"]}
            said.pop(self._random.choice([*said]))
            self._heartbeat(Slot(9, None, "m0"), 0, **said)
        elif kind == "away":
            self._heartbeat(Slot(9, None, slot.member_id), -2)
        else:
            self._heartbeat(Slot(9, self._random.choice(["", None]), ""), self._random.choice([-3, 0, 2]))

    def _look(self, slot: Slot) -> None:
        del slot
        (its,) = self._ask(protocol.ConsumerGroupDescribeRequest(group_ids=[self._group])).groups
        members = sorted(
            f"{m.member_id}/{m.instance_id} {m.member_epoch} {m.client_id} {m.client_host} {m.member_type}"
            f" {sorted(m.subscribed_topic_names)} {m.subscribed_topic_regex!r}"
            f" has {_shown(self._places(m.assignment))} to have {_shown(self._places(m.target_assignment))}"
            for m in its.members
        )
        what = f"{its.group_state} {its.group_epoch} {its.assignment_epoch} {its.assignor_name}"
        self._note("look", f"{_error(its)} {self._text(its.error_message)} {what}", *members)

    def _list(self, slot: Slot) -> None:
        del slot
        types = self._random.choice([[], ["classic"], ["Consumer"]])
        response = self._ask(protocol.ListGroupsRequest(types_filter=types))
        own = [g for g in response.groups if g.group_id == self._group]
        self._note(f"list {types}", str([(g.protocol_type, g.group_state, g.group_type) for g in own]))

    def _commit(self, slot: Slot) -> None:
        epoch = slot.epoch - self._random.choice([0, 0, 1, 2, -1])
        member_id = slot.member_id
        if self._random.random() < 0.2:
            epoch, member_id = -1, ""
        version = self._random.choice([8, 9, 9, 10, 10])
        topic = self._random.choice([*self.topics])
        request = protocol.OffsetCommitRequest(
            group_id=self._group, generation_id_or_member_epoch=epoch, member_id=member_id
        )
        parts = [request.OffsetCommitRequestPartition(partition_index=i, committed_offset=1) for i in range(2)]
        request.topics = [request.OffsetCommitRequestTopic(name=topic, topic_id=self.topics[topic], partitions=parts)]
        response = self._ask(request, version)
        codes = [_error(part) for part in response.topics[0].partitions]
        self._note(f"{member_id} commit v{version} {epoch} {topic}", str(codes))

    def _fetch(self, slot: Slot) -> None:
        epoch = slot.epoch - self._random.choice([0, 0, 1, -1])
        member_id = self._random.choice([slot.member_id, slot.member_id, "m0", None])
        request = protocol.OffsetFetchRequest()
        request.groups = [
            request.OffsetFetchRequestGroup(group_id=self._group, member_id=member_id, member_epoch=epoch, topics=[])
        ]
        (response,) = self._ask(request, 9).groups
        self._note(f"{member_id} fetch {epoch}", _error(response))

    def _other(self, slot: Slot) -> None:
        """Requests of classic groups, and requests from outside."""
        kind = self._random.choice(["heartbeat", "describe", "leave", "delete", "offsets"])
        if kind == "heartbeat":
            beat = protocol.HeartbeatRequest(group_id=self._group, member_id="stranger", generation_id=1)
            self._note(kind, _error(self._ask(beat)))
        elif kind == "describe":
            (its,) = self._ask(protocol.DescribeGroupsRequest(groups=[self._group])).groups
            what = f"{_error(its)} {self._text(its.error_message)} {its.group_state} {its.protocol_type!r}"
            self._note(kind, f"{what} {its.members}")
        elif kind == "leave":
            leaving = [(slot.member_id if not slot.instance_id else "", slot.instance_id), ("m0", None)]
            leave = protocol.LeaveGroupRequest(group_id=self._group)
            leave.members = [leave.MemberIdentity(member_id=m, group_instance_id=i) for m, i in leaving]
            response = self._ask(leave)
            codes = [(m.member_id, m.group_instance_id, _error(m)) for m in response.members]
            self._note(f"{kind} {leaving}", f"{_error(response)} {codes}")
            slot.is_in = False
        elif kind == "delete":
            response = self._ask(protocol.DeleteGroupsRequest(groups_names=[self._group]))
            self._note(kind, _error(response.results[0]))
        else:
            topic = self._random.choice([*self.topics])
            delete = protocol.OffsetDeleteRequest(group_id=self._group)
            part = delete.OffsetDeleteRequestPartition(partition_index=0)
            delete.topics = [delete.OffsetDeleteRequestTopic(name=topic, partitions=[part])]
            response = self._ask(delete)
            errors = [_error(part) for each in response.topics for part in each.partitions]
            self._note(f"{kind} {topic}", f"{_error(response)} {errors}")

    # --- the classic protocol

    def _classic_join(self, slot: Slot) -> None:
        if not any(each.is_in for each in self._slots):
            return  # Kafka's coordinator forgets a group that is empty then, and later requests do not see that at once
        if not slot.is_in or self._random.random() < 0.2:
            count = self._random.randint(1, len(self.topics))
            slot.topics = tuple(sorted(self._random.sample([*self.topics, "none"], count)))
        if self._random.random() < 0.8:
            slot.owned = slot.reported
        subscription = ConsumerProtocolSubscription(topics=[*slot.topics])
        subscription.owned_partitions = [
            subscription.TopicPartition(topic=name, partitions=[i for n, i in sorted(slot.owned) if n == name])
            for name in sorted({name for name, _ in slot.owned})
        ]
        request = protocol.JoinGroupRequest(
            group_id=self._group,
            member_id=slot.member_id,
            group_instance_id=slot.instance_id,
            protocol_type="consumer" if self._random.random() < 0.95 else "connect",
            session_timeout_ms=LONG_MS,
            rebalance_timeout_ms=LONG_MS,
        )
        named = request.JoinGroupRequestProtocol(name="range", metadata=encode_versioned(subscription, 1))
        request.protocols = [named]
        response = self._ask(request)
        if not response.error_code:
            slot.is_in, slot.epoch, slot.leads = True, response.generation_id, bool(response.members)
        elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            slot.is_in = False
        reported = f"{response.protocol_type} {response.protocol_name} led by {response.leader!r}"
        members = [(each.member_id, each.group_instance_id) for each in response.members]
        asked = f"{slot.member_id}/{slot.instance_id} join {request.protocol_type} {slot.topics} {_shown(slot.owned)}"
        self._note(asked, f"{_error(response)} {response.member_id} in {response.generation_id} {reported} {members}")

    def _classic_sync(self, slot: Slot) -> None:
        generation = slot.epoch - (self._random.random() < 0.1)
        request = protocol.SyncGroupRequest(
            group_id=self._group,
            member_id=slot.member_id,
            group_instance_id=slot.instance_id,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range" if self._random.random() < 0.95 else "other",
        )
        if slot.leads:
            first = min(self.topics)
            places = ConsumerProtocolAssignment.TopicPartition(topic=first, partitions=[0])
            given = encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[places]), 1)
            request.assignments = [request.SyncGroupRequestAssignment(member_id=slot.member_id, assignment=given)]
        response = self._ask(request)
        data, reported = bytes(response.assignment), "nothing"
        if data:
            version, assignment = decode_versioned(ConsumerProtocolAssignment, data)
            slot.reported = frozenset((t.topic, i) for t in assignment.assigned_partitions for i in t.partitions)
            reported = f"v{version} {_shown(slot.reported)}"
        asked = f"{slot.member_id}/{slot.instance_id} sync {generation} {request.protocol_name}"
        self._note(asked, f"{_error(response)} {response.protocol_type} {response.protocol_name} {reported}")

    def _classic_beat(self, slot: Slot) -> None:
        generation = slot.epoch - (self._random.random() < 0.1)
        request = protocol.HeartbeatRequest(
            group_id=self._group,
            member_id=slot.member_id,
            group_instance_id=slot.instance_id,
            generation_id=generation,
        )
        code = _error(self._ask(request))
        self._note(f"{slot.member_id}/{slot.instance_id} classic beat {generation}", code)

    def _classic_leave(self, slot: Slot) -> None:
        request = protocol.LeaveGroupRequest(group_id=self._group)
        request.members = [request.MemberIdentity(member_id=slot.member_id, group_instance_id=slot.instance_id)]
        (response,) = self._ask(request).members
        self._note(f"{slot.member_id}/{slot.instance_id} classic leave", _error(response))
        slot.is_in, slot.reported, slot.owned = False, frozenset(), frozenset()

    # --- requests and responses

    def _heartbeat(self, slot: Slot, epoch: int, *, owned: Places | None = None, **fields: Any) -> None:
        request = protocol.ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=slot.member_id,
            member_epoch=epoch,
            instance_id=slot.instance_id,
            **fields,
        )
        if owned is not None:
            request.topic_partitions = [
                request.TopicPartitions(topic_id=topic_id, partitions=[i for n, i in sorted(owned) if n == name])
                for name, topic_id in self.topics.items()
                if any(n == name for n, _ in owned)
            ]
        response = self._ask(request)
        reported = None if response.assignment is None else self._places(response.assignment)
        if not response.error_code and epoch >= 0:
            slot.epoch, slot.is_in = response.member_epoch, True
            slot.reported = slot.reported if reported is None else reported
        elif response.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            slot.is_in = False
        said = " ".join(f"{name}={value}" for name, value in fields.items())
        asked = f"{slot.member_id}/{slot.instance_id} beat {epoch} {_shown(owned)} {said}"
        what = (
            f"{_error(response)} {self._text(response.error_message)} {response.member_id} in {response.member_epoch}"
        )
        self._note(asked, f"{what} {response.heartbeat_interval_ms} {_shown(reported)}")

    def _places(self, assignment: Any) -> Places:
        return frozenset((self._names[t.topic_id], i) for t in assignment.topic_partitions for i in t.partitions)

    def _text(self, message: str | None) -> str | None:
        return None if message is None else message.replace(self._group, "g")

    def _note(self, asked: str, *reported: str) -> None:
        self.lines.append(f"{asked} -> {'; '.join(reported)}")

    def _ask(self, message: Any, version: int | None = None) -> Any:
        version = type(message).max_version if version is None else version
        body = encode_request(message, version, 1, "walker")
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        return decode_response(type(message), self._socket.recv(size, socket.MSG_WAITALL), version)[1]


def _shown(places: Places | Sequence[tuple[str, int]] | None) -> str:
    if places is None:
        return "-"
    names = sorted({name for name, _ in places})
    return "{" + " ".join(f"{name}:{','.join(str(i) for n, i in sorted(places) if n == name)}" for name in names) + "}"


def _error(response: Any) -> str:
    return ErrorCode(response.error_code).name if response.error_code else "ok"
