"""Random walks of a share group's members: heartbeats, offsets, what a group is shown as, and what should not be sent.

A walk is played on a broker over one socket. The lines are the same in every world: topics go by name, and member ids
are the walk's own. The group's option lets assignments be made without waiting.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from tests.support import deadlines as waiting
from tests.support.share.walk import BrokerSocket, error_of


@dataclass
class Member:
    """The player of a member of a group: what it remembers."""

    member_id: str
    epoch: int = 0
    is_in: bool = False


@dataclass
class MembersWalk:
    """One walk of a group's members on one broker. `topics`: names and ids, by which the broker knows them."""

    address: str
    topics: dict[str, uuid.UUID]
    seed: int
    lines: list[str] = field(default_factory=list)

    def play(self, steps: int) -> list[str]:
        self._random = random.Random(self.seed)
        self._group = f"share-{self.seed}-{uuid.uuid4().hex[:8]}"
        self._names = {topic_id: name for name, topic_id in self.topics.items()}
        self._members = [Member(f"m{number}") for number in range(self._random.randint(1, 5))]
        self._wanted: set[str] = set()
        with BrokerSocket(self.address) as self._broker:
            self._broker.configure(self._group, share_assignment_interval_ms="0")
            for _ in range(steps):
                member = self._random.choice(self._members)
                kinds = {"join": 12, "odd": 2, "look": 1, "offsets": 1}
                if member.is_in:
                    kinds = {
                        "beat": 12,
                        "want": 3,
                        "leave": 2,
                        "again": 1,
                        "look": 3,
                        "odd": 3,
                        "offsets": 3,
                        "list": 1,
                    }
                (kind,) = self._random.choices([*kinds], [*kinds.values()])
                getattr(self, f"_{kind}")(member)
        return self.lines

    def _choose(self) -> list[str]:
        return sorted(self._random.sample([*self.topics, "none"], self._random.randint(1, len(self.topics))))

    def _join(self, member: Member) -> None:
        self._beat(member, epoch=0, names=self._choose())

    def _again(self, member: Member) -> None:
        self._beat(member, epoch=self._random.choice([0, member.epoch - 1]), names=self._choose())

    def _want(self, member: Member) -> None:
        self._beat(member, names=self._choose())

    def _leave(self, member: Member) -> None:
        self._beat(member, epoch=-1)
        member.is_in, member.epoch = False, 0
        if self._random.random() < 0.5:
            member.member_id = f"m{self._random.randrange(10)}"

    def _odd(self, member: Member) -> None:
        kind = self._random.choice(["ahead", "behind", "stranger", "id", "first", "epoch", "rack", "group"])
        if kind == "ahead":
            self._beat(member, epoch=member.epoch + 2)
        elif kind == "behind":
            self._beat(member, epoch=max(1, member.epoch - 2))
        elif kind == "stranger":
            self._beat(Member("m999"), epoch=self._random.choice([-1, 1]))
        elif kind == "id":
            self._beat(Member(self._random.choice(["", "m" * 37])), epoch=0, names=["none"])
        elif kind == "first":
            self._beat(Member("m999"), epoch=0, names=self._random.choice([None, []]))
        elif kind == "epoch":
            self._beat(member, epoch=-2)
        elif kind == "rack":
            self._beat(member, rack_id=self._random.choice(["", "r1"]))
        else:
            self._beat(
                member, epoch=self._random.choice([0, 1, -1]), names=["none"], group=self._random.choice(["", "x9"])
            )

    def _beat(
        self,
        member: Member,
        *,
        epoch: int | None = None,
        names: list[str] | None = None,
        group: str = "g",
        **fields: Any,
    ) -> None:
        its_epoch = member.epoch if epoch is None else epoch
        request = protocol.ShareGroupHeartbeatRequest(
            group_id=self._group if group == "g" else group and f"{self._group}-{group}",
            member_id=member.member_id,
            member_epoch=its_epoch,
            subscribed_topic_names=names,
            **fields,
        )
        response = self._broker.ask(request)
        if not response.error_code and its_epoch >= 0 and group == "g":
            member.epoch, member.is_in = response.member_epoch, True
            self._wanted |= {*(names or ())} & self.topics.keys()
            self._is_ready()
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            member.is_in, member.epoch = False, 0
        reported = "-"
        if response.assignment is not None:
            topics = {
                self._names[each.topic_id]: sorted(each.partitions)
                for each in response.assignment.topic_partitions
                if each.partitions
            }
            reported = str(sorted(topics.items()))
        asked = f"{member.member_id} beat {its_epoch} {names} {fields} in {group!r}"
        message = (response.error_message or "").replace(self._group, "g")
        now = f"{response.member_id} in {response.member_epoch} {response.heartbeat_interval_ms}"
        what = f"{error_of(response)} {message} {now}"
        self.lines.append(f"{asked} -> {what} {reported}")

    def _is_ready(self) -> None:
        """A real broker makes the share partitions of a heartbeat ready behind its response."""
        waiting.until(lambda: self._wanted <= self._broker.ready(self._group).keys(), "share partitions are ready")

    def _look(self, member: Member) -> None:
        del member
        (found,) = self._broker.ask(protocol.ShareGroupDescribeRequest(group_ids=[self._group])).groups
        members = sorted(
            f"{m.member_id} {m.member_epoch} {m.rack_id} {m.client_id} {m.client_host}"
            f" {sorted(m.subscribed_topic_names)}"
            f" {sorted((t.topic_name, sorted(t.partitions)) for t in m.assignment.topic_partitions if t.partitions)}"
            for m in found.members
        )
        message = (found.error_message or "").replace(self._group, "g")
        epochs = f"{found.group_epoch} {found.assignment_epoch} {found.assignor_name}"
        self.lines.append(f"look -> {error_of(found)} {message} {found.group_state} {epochs} {members}")

    def _list(self, member: Member) -> None:
        del member
        types = self._random.choice([[], ["share"], ["Share"], ["classic", "consumer"]])
        states = self._random.choice([[], ["stable"], ["Empty"]])
        response = self._broker.ask(protocol.ListGroupsRequest(types_filter=types, states_filter=states))
        shown = [
            f"{each.group_state} {each.group_type} {each.protocol_type}"
            for each in response.groups
            if each.group_id == self._group
        ]
        self.lines.append(f"list {types} {states} -> {error_of(response)} {shown}")

    def _offsets(self, member: Member) -> None:
        del member
        kind = self._random.choice(["alter", "delete", "look", "group", "other"])
        name = self._random.choice([*self.topics, "none"])
        if kind == "alter":
            alter = protocol.AlterShareGroupOffsetsRequest(group_id=self._group)
            part = alter.AlterShareGroupOffsetsRequestPartition
            parts = [part(partition_index=0, start_offset=3), part(partition_index=9, start_offset=1)]
            alter.topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)]
            response = self._broker.ask(alter)
            reported = [
                (t.topic_name, t.topic_id.int != 0, p.partition_index, error_of(p), p.error_message)
                for t in response.responses
                for p in t.partitions
            ]
            self.lines.append(f"alter {name} -> {error_of(response)} {response.error_message} {reported}")
        elif kind == "delete":
            delete = protocol.DeleteShareGroupOffsetsRequest(group_id=self._group)
            delete.topics = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name=name)]
            response = self._broker.ask(delete)
            forgotten = [(t.topic_name, t.topic_id.int != 0, error_of(t), t.error_message) for t in response.responses]
            message = (response.error_message or "").replace(self._group, "g")
            self.lines.append(f"delete {name} -> {error_of(response)} {message} {forgotten}")
            if not response.error_code and forgotten and forgotten[0][2] == "ok":
                self._wanted.discard(name)
        elif kind == "look":
            ready = sorted((topic, sorted(its)) for topic, its in self._broker.ready(self._group).items())
            self.lines.append(f"ready -> {ready}")
        elif kind == "group":
            response = self._broker.ask(protocol.DeleteGroupsRequest(groups_names=[self._group]))
            self.lines.append(f"delete group -> {error_of(response.results[0])}")
            if not response.results[0].error_code:
                self._wanted.clear()
        else:
            self._other_protocols()

    def _other_protocols(self) -> None:
        """A share group is asked for as what it is not."""
        beat = protocol.ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id="c", member_epoch=1, topic_partitions=[]
        )
        reported = [self._broker.ask(beat)]
        reported += self._broker.ask(protocol.DescribeGroupsRequest(groups=[self._group])).groups
        reported += self._broker.ask(protocol.ConsumerGroupDescribeRequest(group_ids=[self._group])).groups
        fetch = protocol.OffsetFetchRequest()
        fetch.groups = [fetch.OffsetFetchRequestGroup(group_id=self._group, topics=None)]
        codes = [ErrorCode(self._broker.ask(fetch, 9).groups[0].error_code).name]
        texts = [f"{error_of(each)} {(each.error_message or '').replace(self._group, 'g')}" for each in reported]
        self.lines.append(f"other protocols -> {texts} {codes}")
