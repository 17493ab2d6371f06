"""Random walks of a streams group's members: heartbeats, topologies, offsets, group options, and odd requests.

A walk is played on a broker over one socket. Its lines are the same in every world: the group's name, the member ids
and the process ids are the walk's own. Group options let assignments be made without waiting, or hardly at all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from kafwire import protocol
from kafwire.broker.groups.streams_topics import Status
from kafwire.broker.state import INTERNAL_PARTITIONS, java_hash
from kafwire.errors import ErrorCode
from tests.support import deadlines as waiting
from tests.support.share.walk import BrokerSocket, error_of

HEARTBEAT = protocol.StreamsGroupHeartbeatRequest
Tasks = dict[str, list[int]]


def subtopology(
    name: str,
    sources: tuple[str, ...] = (),
    *,
    stores: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartition: dict[str, int] | None = None,
    together: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    store_configs: dict[str, str] | None = None,
) -> Any:
    """A subtopology. `together`: the copartition group, as indexes of sources and repartition sources."""
    configs = [HEARTBEAT.KeyValue(key=key, value=value) for key, value in (store_configs or {}).items()]
    return HEARTBEAT.Subtopology(
        subtopology_id=name,
        source_topics=[*sources],
        state_changelog_topics=[HEARTBEAT.TopicInfo(name=each, topic_configs=configs) for each in stores],
        repartition_sink_topics=[*sinks],
        repartition_source_topics=[
            HEARTBEAT.TopicInfo(name=each, partitions=count) for each, count in (repartition or {}).items()
        ],
        copartition_groups=[]
        if together is None
        else [HEARTBEAT.CopartitionGroup(source_topics=[*together[0]], repartition_source_topics=[*together[1]])],
    )


def topologies(group: str, a: str, b: str, late: str) -> dict[str, list[Any]]:
    """Topologies by name: `a` has 4 partitions, `b` 2; `late` is created during the walk."""
    store, again, more = (f"{group}-{name}" for name in ("store-changelog", "again-repartition", "more-repartition"))
    return {
        "plain": [subtopology("0", (a,))],
        "two": [subtopology("0", (a,)), subtopology("1", (b,))],
        "stateful": [subtopology("0", (a,), stores=(store,)), subtopology("1", (b,))],
        "chain": [
            subtopology("0", (b,), sinks=(again,)),
            subtopology("1", repartition={again: 0}, stores=(store,)),
        ],
        "copartitioned": [
            subtopology("0", (b,), sinks=(again,)),
            subtopology("1", (a,), repartition={again: 0}, together=((0,), (0,)), stores=(store,)),
        ],
        "fixed": [
            subtopology("0", (b,), sinks=(again, more)),
            subtopology("1", repartition={again: 3, more: 3}, together=((), (0, 1))),
        ],
        "late": [subtopology("0", (a, late), stores=(store,))],
        "misfit": [subtopology("0", (a, b), together=((0, 1), ()))],
        "fixed misfit": [
            subtopology("0", (b,), sinks=(again,)),
            subtopology("1", (a,), repartition={again: 3}, together=((0,), (0,))),
        ],
        "refused store": [subtopology("0", (a,), stores=(store,), store_configs={"no.such": "1"})],
    }


def broken(a: str) -> list[list[Any]]:
    """Topologies that a coordinator refuses."""
    return [
        [subtopology("0")],
        [subtopology("0", (a,)), subtopology("0", (a,))],
        [subtopology("0", (a,), together=((3,), ()))],
        [subtopology("0", (a,), repartition={f"{a}-r": 0})],
        [subtopology("0", sinks=(f"{a}-r",), repartition={f"{a}-r": 0})],
        [subtopology("0", (a,), repartition={f"{a}-r": -1})],
        [subtopology("0", (a,), store_configs={}, stores=("__consumer_offsets",))],
        [subtopology("0", (a, "not valid", "neither?"))],
        [HEARTBEAT.Subtopology(subtopology_id="0", source_topic_regex=["a.*"])],
        [
            HEARTBEAT.Subtopology(
                subtopology_id="0",
                source_topics=[a],
                state_changelog_topics=[HEARTBEAT.TopicInfo(name="store", partitions=2)],
            )
        ],
        [],
    ]


@dataclass
class Member:
    """A member, and what its client remembers. `reports`: the tasks that it runs, by role."""

    member_id: str
    process_id: str
    instance_id: str | None = None
    epoch: int = 0
    is_in: bool = False
    given: list[Tasks] = field(default_factory=lambda: [{}, {}, {}])
    runs: list[Tasks] = field(default_factory=lambda: [{}, {}, {}])


@dataclass
class StreamsWalk:
    """One walk on one broker. `group`: its name in every world; `topics`: of 4 and of 2 partitions.

    `calm`: the group makes its second assignment much later than the first.
    """

    address: str
    group: str
    topics: tuple[str, str]
    seed: int
    calm: bool = False
    lines: list[str] = field(default_factory=list)

    def play(self, steps: int) -> list[str]:
        self._random = random.Random(self.seed)
        self._probes = 0
        self._late = f"{self.group}-late"
        known = topologies(self.group, *self.topics, self._late)
        self._shape = self._random.choice([*known, "stateful", "copartitioned"])
        self._topology = HEARTBEAT.Topology(epoch=3, subtopologies=known[self._shape])
        self._members = [self._new_member(number) for number in range(self._random.randint(1, 5))]
        with BrokerSocket(self.address) as self._broker:
            self._configure()
            for _ in range(steps):
                member = self._random.choice(self._members)
                kinds = {"join": 36, "odd": 6, "look": 3, "offsets": 3}
                if member.is_in:
                    kinds = {
                        "beat": 42,
                        "report": 30,
                        "leave": 6,
                        "again": 3,
                        "change": 9,
                        "odd": 9,
                        "look": 9,
                        "list": 3,
                        "offsets": 9,
                        "other": 3,
                        "options": 3,
                        "topic": 3,
                        "shutdown": 1,
                    }
                (kind,) = self._random.choices([*kinds], [*kinds.values()])
                getattr(self, f"_{kind}")(member)
        return self.lines

    def _configure(self) -> None:
        interval_ms = "15000" if self.calm else "0"
        self._set(
            streams_initial_rebalance_delay_ms="0",
            streams_assignment_interval_ms=interval_ms,
            streams_num_standby_replicas=str(self._random.choice([0, 1, 1, 2])),
        )

    def _set(self, **options: str) -> None:
        """Set options of the group. A real coordinator heeds them in order, a moment after the broker shows them."""
        self._broker.configure(self.group, **options)
        probe = self._probe(HEARTBEAT.Topology(subtopologies=[subtopology("0", self.topics)]))
        interval_ms = 5000 + self._probes
        self._broker.configure(probe.group_id, streams_heartbeat_interval_ms=str(interval_ms))
        waiting.until(
            lambda: self._broker.ask(probe).heartbeat_interval_ms == interval_ms, "the coordinator heeds the options"
        )

    def _new_member(self, number: int) -> Member:
        instance_id = f"i{number}" if self._random.random() < 0.3 else None
        return Member(f"m{number}", f"p{self._random.randrange(3)}", instance_id)

    def _say(self, asked: str, reported: str) -> None:
        self.lines.append(f"{asked} -> {reported}".replace(self.group, "G"))

    # --- heartbeats

    def _join(self, member: Member, **fields: Any) -> None:
        member.runs = [{}, {}, {}]
        first: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "process_id": member.process_id,
            "topology": self._topology,
            "rack_id": self._random.choice([None, "r1"]),
        }
        if self._random.random() < 0.3:
            first["user_endpoint"] = HEARTBEAT.Endpoint(host=member.member_id, port=1234)
        if self._random.random() < 0.3:
            first["client_tags"] = [HEARTBEAT.KeyValue(key="zone", value="z1")]
        self._beat(member, epoch=0, **{**first, **fields}, **_listed(member.runs))

    def _again(self, member: Member) -> None:
        if self._random.random() < 0.5:
            return self._join(member)
        return self._beat(member, epoch=member.epoch - 1, **_listed(member.runs))

    def _report(self, member: Member) -> None:
        """The member runs all given tasks, or some of them, and reports them."""
        member.runs = [dict(each) for each in member.given]
        listed = _listed(member.runs)
        if self._random.random() < 0.2:
            listed = _listed([{}, {}, {}])
        offsets: dict[str, Any] = {}
        if self._random.random() < 0.3:
            task = HEARTBEAT.TaskOffset(
                subtopology_id="0", partition=self._random.randrange(4), offset=self._random.randrange(100)
            )
            offsets = {"task_offsets": [task], "task_end_offsets": self._random.choice([None, [task]])}
        self._beat(member, **listed, **offsets)

    def _leave(self, member: Member) -> None:
        epoch = -2 if member.instance_id is not None and self._random.random() < 0.6 else -1
        self._beat(member, epoch=epoch)
        member.is_in, member.epoch = False, 0
        if self._random.random() < 0.5:
            used = {each.member_id for each in self._members}
            member.member_id = self._random.choice([each for each in map("m{}".format, range(10)) if each not in used])

    def _change(self, member: Member) -> None:
        change = self._random.choice(["rack", "process", "tags", "endpoint", "timeout"])
        if change == "rack":
            self._beat(member, rack_id=self._random.choice(["r1", "r2"]))
        elif change == "process":
            member.process_id = f"p{self._random.randrange(3)}"
            self._beat(member, process_id=member.process_id)
        elif change == "tags":
            keys = self._random.choice([[], ["zone"], ["zone", "rack"]])
            self._beat(member, client_tags=[HEARTBEAT.KeyValue(key=key, value="x") for key in keys])
        elif change == "endpoint":
            end = HEARTBEAT.Endpoint(host=member.member_id, port=self._random.randrange(1, 3))
            self._beat(member, user_endpoint=end, endpoint_information_epoch=self._random.randrange(3))
        else:
            self._beat(member, rebalance_timeout_ms=50_000 + self._random.randrange(2))

    def _shutdown(self, member: Member) -> None:
        self._beat(member, shutdown_application=True)

    def _odd(self, member: Member) -> None:
        stranger = Member("m999", "p0")
        kind = self._random.choice(
            ["ahead", "behind", "stranger", "empty", "first", "epoch", "lists", "tasks", "topology", "group", "static"]
        )
        if kind == "ahead":
            self._beat(member, epoch=member.epoch + 2)
        elif kind == "behind":
            self._beat(member, epoch=max(1, member.epoch - self._random.randint(1, 2)), **_listed([{"0": [0]}, {}, {}]))
        elif kind == "stranger":
            self._beat(stranger, epoch=self._random.choice([-2, -1, 1]), shutdown_application=False)
        elif kind == "empty":
            name = self._random.choice(["member_id", "instance_id", "rack_id"])
            self._beat(stranger, epoch=1, **{name: self._random.choice(["", " "])})
        elif kind == "first":
            self._odd_first(stranger)
        elif kind == "epoch":
            self._beat(member, epoch=self._random.choice([-2, -3]))
        elif kind == "lists":
            self._beat(member, active_tasks=[])
        elif kind == "tasks":
            self._beat(member, **_listed([{self._random.choice(["0", "9"]): [self._random.choice([-1, 70])]}, {}, {}]))
        elif kind == "topology":
            self._odd_topology(stranger)
        elif kind == "group":
            self._beat(member, epoch=self._random.choice([1, -1]), group_id=f"{self.group}-none")
        else:
            static = Member("m998", "p1", self._random.choice(["i0", "i1", "i7"]))
            self._beat(static, epoch=self._random.choice([1, -1, -2]))

    def _odd_first(self, stranger: Member) -> None:
        fields: dict[str, Any] = self._random.choice(
            [
                {"rebalance_timeout_ms": -1},
                {"topology": None},
                {"active_tasks": [HEARTBEAT.TaskIds(subtopology_id="0", partitions=[0])]},
                {"member_id": ""},
                {"group_id": " "},
            ]
        )
        given = {"rebalance_timeout_ms": 1000, "topology": self._topology, **_listed([{}, {}, {}]), **fields}
        self._beat(stranger, epoch=0, **given)

    def _odd_topology(self, stranger: Member) -> None:
        """A new group with a topology that is refused, or this group with another topology than its own."""
        fields = {"rebalance_timeout_ms": 1000, "process_id": "p0", **_listed([{}, {}, {}])}
        kind = self._random.choice(["broken", "older", "newer", "other", "negative", "beat"])
        if kind == "broken":
            wrong = HEARTBEAT.Topology(subtopologies=self._random.choice(broken(self.topics[0])[:-1]))
            self._beat(stranger, epoch=0, group_id=f"{self.group}-odd", topology=wrong, **fields)
        elif kind == "beat":
            self._beat(stranger, epoch=1, topology=self._topology)
        elif any(each.is_in for each in self._members):
            epoch = {"older": 2, "newer": 4, "other": 3, "negative": -1}[kind]
            parts = self._topology.subtopologies
            if kind == "other":
                parts = [*parts, subtopology("other", (self.topics[0],))]
            asked = HEARTBEAT.Topology(epoch=epoch, subtopologies=parts)
            self._beat(stranger, epoch=0, topology=asked, **fields)
            if kind == "older":
                self._beat(stranger, epoch=-1)

    def _beat(self, member: Member, *, epoch: int | None = None, **fields: Any) -> None:
        its_epoch = member.epoch if epoch is None else epoch
        given = {
            "group_id": self.group,
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "endpoint_information_epoch": 0,
            **fields,
        }
        request = HEARTBEAT(member_epoch=its_epoch, **given)
        version = self._random.choice([0, 1, 1])
        response = self._broker.ask(request, version)
        self._remember(member, its_epoch, given["group_id"], response)
        shown = {
            key: value for key, value in fields.items() if key not in ("topology", "group_id") and value is not None
        }
        asked = f"{member.member_id}/{member.instance_id} beat{version} {its_epoch} {shown} in {given['group_id']!r}"
        self._say(asked, _shown(response))
        missing = [each for each in response.status or [] if each.status_code == Status.MISSING_INTERNAL_TOPICS]
        if missing and not missing[0].status_detail.endswith("Creation failed"):
            self._settle_internal(response)

    def _remember(self, member: Member, epoch: int, group: str, response: Any) -> None:
        if group != self.group or member.member_id not in {each.member_id for each in self._members}:
            return
        if not response.error_code and epoch >= 0:
            member.epoch, member.is_in = response.member_epoch, True
            if response.active_tasks is not None:
                listed = response.active_tasks, response.standby_tasks, response.warmup_tasks
                member.given = [{each.subtopology_id: each.partitions for each in role} for role in listed]
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            member.is_in, member.epoch = False, 0

    # --- topics

    def _settle_internal(self, response: Any) -> None:
        """A real broker creates internal topics behind its response."""
        if self._shape == "refused store":  # the broker remembers why for ten seconds
            waiting.until(lambda: "Creation failed" in self._probe_status(), "the refusal is known")
            return
        stores = [topic.name for each in self._topology.subtopologies for topic in each.state_changelog_topics]
        again = [topic.name for each in self._topology.subtopologies for topic in each.repartition_source_topics]
        self._settle([*stores, *again])

    def _probe_status(self) -> str:
        """The statuses of another group with this group's topology. It changes nothing of this group."""
        response = self._broker.ask(self._probe(self._topology))
        return " ".join(each.status_detail for each in response.status)

    def _probe(self, topology: Any) -> Any:
        """The heartbeat of another group, which one thread coordinates with this one."""
        place = java_hash(self.group) % INTERNAL_PARTITIONS
        self._probes += 1
        names = (f"{self.group}-probe-{self._probes}-{number}" for number in range(10_000))
        name = next(each for each in names if java_hash(each) % INTERNAL_PARTITIONS == place)
        return HEARTBEAT(
            group_id=name,
            member_id="probe",
            rebalance_timeout_ms=1000,
            process_id="p",
            topology=topology,
            **_listed([{}, {}, {}]),
        )

    def _settle(self, names: list[str]) -> None:
        """The coordinator of the group knows of these topics."""
        probe = self._probe(HEARTBEAT.Topology(subtopologies=[subtopology("0", tuple(names))]))

        def are_known() -> bool:
            response = self._broker.ask(probe)
            assert not response.error_code, response
            return all(each.status_code != Status.MISSING_SOURCE_TOPICS for each in response.status)

        waiting.until(are_known, f"{names} are known")

    def _topic(self, member: Member) -> None:
        """The topic that the topology `late` lacks is created."""
        del member
        request = protocol.CreateTopicsRequest(timeout_ms=10_000)
        request.topics = [request.CreatableTopic(name=self._late, num_partitions=5, replication_factor=1)]
        (created,) = self._broker.ask(request).topics
        self._settle([self._late])
        self._say("create late", error_of(created))

    # --- the group from outside

    def _look(self, member: Member) -> None:
        del member
        # A change by a heartbeat that writes no record is seen once something else is written for this coordinator.
        self._broker.ask(self._probe(HEARTBEAT.Topology(subtopologies=[subtopology("0", self.topics)])))
        (found,) = self._broker.ask(protocol.StreamsGroupDescribeRequest(group_ids=[self.group])).groups
        epochs = f"{found.group_state} {found.group_epoch} {found.assignment_epoch} {found.assignor_name}"
        for each in found.members:
            each.client_tags.sort(key=lambda tag: tag.key)
        members = sorted(str(each) for each in found.members)
        self._say("look", f"{error_of(found)} {found.error_message} {epochs} {found.topology} {members}")

    def _list(self, member: Member) -> None:
        del member
        types = self._random.choice([[], ["streams"], ["Streams"], ["classic", "consumer", "share"]])
        states = self._random.choice([[], ["stable"], ["Empty"], ["NotReady"], ["not_ready"], ["Reconciling"]])
        response = self._broker.ask(protocol.ListGroupsRequest(types_filter=types, states_filter=states))
        shown = [
            f"{each.group_state} {each.group_type} {each.protocol_type}"
            for each in response.groups
            if each.group_id == self.group
        ]
        self._say(f"list {types} {states}", f"{error_of(response)} {shown}")

    def _options(self, member: Member) -> None:
        del member
        option = self._random.choice(["replicas", "replicas", "tags", "wrong"])
        if option == "wrong":
            self._wrong_option()
        elif option == "tags":
            tags = self._random.choice(["", "zone", "zone,rack"])
            self._set(streams_rack_aware_assignment_tags=tags)
            self._say(f"tags {tags}", "set")
        else:
            replicas = str(self._random.randrange(3))
            self._set(streams_num_standby_replicas=replicas)
            self._say(f"replicas {replicas}", "set")

    def _wrong_option(self) -> None:
        name, value = self._random.choice(
            [
                ("streams.num.standby.replicas", "3"),
                ("streams.num.standby.replicas", "-1"),
                ("streams.session.timeout.ms", "1000"),
                ("streams.heartbeat.interval.ms", "16000"),
                ("streams.task.offset.interval.ms", "14000"),
                ("streams.num.warmup.replicas", "21"),
                ("streams.acceptable.recovery.lag", "-1"),
                ("streams.assignor.name", "range"),
                ("streams.rack.aware.assignment.tags", "a,b,a"),
                ("streams.nothing", "1"),
            ]
        )
        request = protocol.IncrementalAlterConfigsRequest(validate_only=True)
        configs = [request.AlterableConfig(name=name, config_operation=0, value=value)]
        request.resources = [request.AlterConfigsResource(resource_type=32, resource_name=self.group, configs=configs)]
        (response,) = self._broker.ask(request).responses
        self._say(f"option {name}={value}", f"{error_of(response)} {response.error_message}")

    def _offsets(self, member: Member) -> None:
        kind = self._random.choice(["commit", "commit", "fetch", "forget", "group"])
        name = self._random.choice([*self.topics, f"{self.group}-again-repartition"])
        epoch = member.epoch - self._random.choice([0, 0, 0, 1, 2, -1])
        member_id = self._random.choice([member.member_id, member.member_id, "m999", ""])
        epoch = self._random.choice([epoch, epoch, -1])
        if kind == "commit":
            request = protocol.OffsetCommitRequest(
                group_id=self.group, member_id=member_id, generation_id_or_member_epoch=epoch
            )
            part = request.OffsetCommitRequestPartition
            parts = [part(partition_index=self._random.randrange(2), committed_offset=3)]
            request.topics = [request.OffsetCommitRequestTopic(name=name, partitions=parts)]
            version = self._random.choice([8, 9, 9])
            response = self._broker.ask(request, version)
            codes = [error_of(each) for topic in response.topics for each in topic.partitions]
            self._say(f"commit{version} {name} {parts[0].partition_index} {member_id} {epoch}", str(codes))
        elif kind == "fetch":
            fetch = protocol.OffsetFetchRequest()
            asked = fetch.OffsetFetchRequestGroup(group_id=self.group, topics=None)
            asked.member_id, asked.member_epoch = member_id or None, epoch
            fetch.groups = [asked]
            (found,) = self._broker.ask(fetch, 9).groups
            offsets = sorted(
                (t.name, p.partition_index, p.committed_offset) for t in found.topics for p in t.partitions
            )
            self._say(f"fetch {member_id} {epoch}", f"{error_of(found)} {offsets}")
        elif kind == "forget":
            forget = protocol.OffsetDeleteRequest(group_id=self.group)
            gone = forget.OffsetDeleteRequestPartition(partition_index=0)
            forget.topics = [forget.OffsetDeleteRequestTopic(name=name, partitions=[gone])]
            deleted = self._broker.ask(forget)
            codes = [error_of(each) for topic in deleted.topics for each in topic.partitions]
            self._say(f"forget {name}", f"{error_of(deleted)} {codes}")
        else:
            (deleted,) = self._broker.ask(protocol.DeleteGroupsRequest(groups_names=[self.group])).results
            self._say("delete group", f"{error_of(deleted)} {deleted.error_message}")

    def _other(self, member: Member) -> None:
        """Requests of other protocols for the group."""
        del member
        epoch = self._random.choice([0, 1, -1])
        consumer = protocol.ConsumerGroupHeartbeatRequest(group_id=self.group, member_id="c", member_epoch=epoch)
        consumer.topic_partitions, consumer.rebalance_timeout_ms = [], 1000
        consumer.subscribed_topic_names = ["x"]
        share = protocol.ShareGroupHeartbeatRequest(group_id=self.group, member_id="c", member_epoch=epoch)
        share.subscribed_topic_names = ["x"]
        join = protocol.JoinGroupRequest(group_id=self.group, session_timeout_ms=10_000, protocol_type="consumer")
        join.protocols = [join.JoinGroupRequestProtocol(name="range", metadata=b"")]
        leave = protocol.LeaveGroupRequest(group_id=self.group)
        leave.members = [leave.MemberIdentity(member_id="m0")]
        update = protocol.StreamsGroupTopologyDescriptionUpdateRequest(group_id=self.group, member_id="m0")
        reported = [self._broker.ask(each) for each in (consumer, share, update)]
        reported += self._broker.ask(protocol.DescribeGroupsRequest(groups=[self.group])).groups
        reported += self._broker.ask(protocol.ConsumerGroupDescribeRequest(group_ids=[self.group])).groups
        reported += self._broker.ask(protocol.ShareGroupDescribeRequest(group_ids=[self.group])).groups
        texts = [f"{error_of(each)} {each.error_message}" for each in reported]
        joined, left = self._broker.ask(join), self._broker.ask(leave)
        codes = error_of(joined), error_of(left), [error_of(each) for each in left.members]
        self._say(f"others {epoch}", f"{texts} {codes}")


def _listed(roles: list[Tasks]) -> dict[str, Any]:
    """The tasks of each role as a heartbeat lists them."""
    return {
        name: [HEARTBEAT.TaskIds(subtopology_id=each, partitions=indexes) for each, indexes in tasks.items()]
        for name, tasks in zip(("active_tasks", "standby_tasks", "warmup_tasks"), roles, strict=True)
    }


def _shown(response: Any) -> str:
    """A response to a heartbeat, without the order of Kafka's hash tables."""
    tasks = [
        None if role is None else sorted((each.subtopology_id, each.partitions) for each in role)
        for role in (response.active_tasks, response.standby_tasks, response.warmup_tasks)
    ]
    ends = response.partitions_by_user_endpoint
    shown = ends and sorted(
        [
            each.user_endpoint.host,
            each.user_endpoint.port,
            _parts(each.active_partitions),
            _parts(each.standby_partitions),
        ]
        for each in ends
    )
    intervals = response.heartbeat_interval_ms, response.task_offset_interval_ms, response.acceptable_recovery_lag
    statuses = [(each.status_code, each.status_detail) for each in response.status or []]
    return (
        f"{error_of(response)} {response.error_message} {response.member_id} in {response.member_epoch} {intervals}"
        f" {statuses} {tasks} ends {response.endpoint_information_epoch} {shown}"
    )


def _parts(topics: list[Any]) -> list[tuple[str, list[int]]]:
    return sorted((each.topic, each.partitions) for each in topics)
