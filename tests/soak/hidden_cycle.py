"""One cycle of `hidden_inputs`: processes are stopped within transactions, a coordinator dies, all is read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafwire
from kafwire import protocol
from kafwire.errors import KafkaError
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.history.observe import read_all
from kafwire.types import TopicPartition
from tests.soak.cluster import CONSUMER_OFFSETS, TRANSACTION_STATE, Unwell, Watch
from tests.soak.group_load import PARTITIONS, Load
from tests.soak.group_processes import MemberProcess
from tests.soak.hidden_evidence import describe
from tests.soak.hidden_judgement import READERS, LanePlan, Plan, Verdict, judge, reported
from tests.soak.matrix import Topic

SINK_PARTITIONS = 2
SESSION_MS = 2_000
_BEGUN_COMMITS = 3
_BEGIN_S, _STOP_S, _SETTLE_S, _PLACE_S = 60.0, 5.0, 90.0, 30.0
_AFTER_S = 2.0  # the last producer of an id goes on for so long
_HELD_S = 1.0
_LOOK_S = 0.02
_CALL_MS = 30_000

Tell = Callable[[str], None]


class StoppingMember(MemberProcess):
    """A member that stops itself within a transaction on request."""

    MODULE = "tests.soak.hidden_member"

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        super().__init__(spec, folder)
        self.journal = folder / f"{self.name}.journal"

    def stop_itself(self, stage: str, milliseconds: float) -> None:
        """Let the process stop itself at that stage of its next transaction."""
        self._say(f"stop {stage} {milliseconds}")

    def await_stop(self, seconds: float) -> bool:
        """Wait until the process has stopped itself; stop it if it does not. True if it did."""
        deadline = time.monotonic() + seconds
        while not self._stands():
            if time.monotonic() > deadline:
                self.pause()
                return False
            time.sleep(0.001)
        self.is_paused = True
        return True

    def is_within(self) -> bool:
        """True if the transaction of its last records is not over."""
        return (self.lines() or ["L"])[-1].startswith("R ")

    def commits(self) -> int:
        """How many transactions were reported to it as committed."""
        return sum(line.startswith("C ") and line.endswith(" ok") for line in self.lines())

    def lines(self) -> list[str]:
        """The whole lines of its journal."""
        text = self.journal.read_text(errors="replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def _stands(self) -> bool:
        assert self._process is not None
        try:
            status = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"


@dataclass
class Lane:
    """One transactional id: its group, its sink, and its processes, the first and the successor."""

    number: int
    plan: LanePlan
    group: str
    sink: str
    transactional_id: str
    first: StoppingMember
    successor: StoppingMember
    stopped: str = ""  # the stage of the transaction in which the first process was stopped; "" for none
    verdict: Verdict = field(default_factory=Verdict)
    claimed: int = 0

    @property
    def last(self) -> StoppingMember:
        """The process that goes on to the end."""
        return self.successor if self.plan.successor else self.first


class Cycle:
    """Runs one plan on a cluster that is there."""

    def __init__(
        self,
        plan: Plan,
        cluster: KafkaCluster,
        watch: Watch,
        folder: Path,
        *,
        seed: int,
        rate: float,
        mistake: bool,
        tell: Tell,
    ) -> None:
        self.plan = plan
        self._mistake = mistake
        self._cluster, self._watch, self._folder, self._rate, self._tell = cluster, watch, folder, rate, tell
        self._source = f"hidden-{plan.cycle}"
        self.lanes = [self._lane(number, one, seed) for number, one in enumerate(plan.lanes)]
        self.held = 0  # commits that were reported while the coordinator could not send their markers
        self.violations: list[str] = []
        self.states: list[str] = []

    def run(self) -> None:
        """Run; `violations` are in words then, and each lane has its verdict."""
        client = kafwire.Client(self._cluster.direct, default_api_timeout_ms=_CALL_MS)
        load: Load | None = None
        try:
            self._prepare(client)
            load = Load(self._cluster.bootstrap, [self._source], self._rate)
            for lane in self.lanes:
                lane.first.join()
            self._await(self._have_begun, _BEGIN_S, "not at work")
            self._strike()
            time.sleep(_AFTER_S)
            self._watch.wait_whole(self._topics(), time.sleep)
            load.stop()
            ends = dict(load.ends[self._source])
            load = None
            committed = self._await_commits(ends)
            self.states = self._states(client)
            for lane in self.lanes:
                self._close(lane)
            for lane in self.lanes:
                self._judge(lane, ends, committed.get(lane.group, {}))
            if not self.violations:
                for topic in self._topics():
                    client.delete_topic(topic.name)
        finally:
            if load is not None:
                load.stop()
            for lane in self.lanes:
                for member in (lane.first, lane.successor):
                    if member.runs:
                        member.kill()
            client.close()

    def hidden(self) -> dict[str, set[bytes]]:
        """The values that are hidden, or otherwise wrong, by sink."""
        found = {}
        for lane in self.lanes:
            verdict = lane.verdict
            inputs = verdict.hidden | verdict.lost | verdict.twice | verdict.disagreed
            if inputs:
                found[lane.sink] = {b"%d/%d" % one for one in inputs}
        return found

    # -- before

    def _lane(self, number: int, plan: LanePlan, seed: int) -> Lane:
        group = f"{self._source}-{number}"
        transactional_id = f"hidden-{number}"
        sink = f"{group}-sink"

        def member(role: str) -> StoppingMember:
            return StoppingMember(
                {
                    "client": "kafwire",
                    "bootstrap": self._cluster.direct,
                    "topic": self._source,
                    "sink": sink,
                    "group": group,
                    "name": f"{group}-{role}",
                    "transactional_id": transactional_id,
                    "how": "loop-upto",
                    "seed": seed,
                    "mistake": self._mistake and not number and role == "first",
                    "options": {"group_protocol": "consumer", "request_timeout_ms": 5_000},
                },
                self._folder,
            )

        return Lane(number, plan, group, sink, transactional_id, member("first"), member("successor"))

    def _topics(self) -> list[Topic]:
        return [Topic(self._source, PARTITIONS), *(Topic(lane.sink, SINK_PARTITIONS) for lane in self.lanes)]

    def _prepare(self, client: kafwire.Client) -> None:
        """Place the leaders, and create the topics.

        A node that coordinates nothing leads the first partition of each sink.
        """
        transactions, offsets, sink = self.plan.leaders
        everywhere = [transactions, offsets, sink]
        alone = self.plan.order == "hold markers"  # else a write of the state waits for the node that is cut off
        self._place(client, TRANSACTION_STATE, [transactions, offsets] if alone else everywhere)
        self._place(client, CONSUMER_OFFSETS, [offsets, sink, transactions])
        self._create(client, self._source, [everywhere] * PARTITIONS)
        for lane in self.lanes:
            self._create(client, lane.sink, [[sink, transactions, offsets], [transactions, offsets, sink]])
        self._watch.wait_whole(self._topics(), time.sleep)

    def _place(self, client: kafwire.Client, topic: str, replicas: list[int]) -> None:
        """Move the only partition of an internal topic to these nodes, led by the first."""
        alter, elect = protocol.AlterPartitionReassignmentsRequest, protocol.ElectLeadersRequest
        part = alter.ReassignablePartition(partition_index=0, replicas=replicas)
        moved = alter(topics=[alter.ReassignableTopic(name=topic, partitions=[part])])
        elected = elect(election_type=0, topic_partitions=[elect.TopicPartitions(topic=topic, partitions=[0])])

        def is_placed() -> bool:
            partitions = client.metadata([topic]).topics[0].partitions
            if not partitions:  # the first question for a coordinator creates the topic
                kind = int(topic == TRANSACTION_STATE)
                client.call(protocol.FindCoordinatorRequest(key_type=kind, coordinator_keys=["hidden"]))
                return False
            (found,) = partitions
            if list(found.replica_nodes) == replicas and set(found.isr_nodes) == set(replicas):
                if found.leader_id == replicas[0]:
                    return True
                client.call(elected, broker=self._watch.controller())
            elif list(found.replica_nodes) != replicas:
                client.call(moved, broker=self._watch.controller())
            return False

        self._await(lambda: _tried(is_placed), _PLACE_S, f"{topic} is not placed on {replicas}")

    def _create(self, client: kafwire.Client, topic: str, assignments: Sequence[list[int]]) -> None:
        create = protocol.CreateTopicsRequest
        placed = [
            create.CreatableReplicaAssignment(partition_index=number, broker_ids=nodes)
            for number, nodes in enumerate(assignments)
        ]
        made = create.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=placed)
        (result,) = client.call(create(topics=[made]), broker=self._watch.controller()).topics
        if result.error_code:
            raise Unwell(f"{topic} was not created: error {result.error_code} {result.error_message}")

    def _have_begun(self) -> bool:
        for lane in self.lanes:
            lane.first.check()
        return all(lane.first.commits() >= _BEGUN_COMMITS for lane in self.lanes)

    # -- the strike

    def _strike(self) -> None:
        plan = self.plan
        transactions, offsets, sink = plan.leaders
        node = self._cluster.node(transactions if plan.victim == "transactions" else offsets)
        if plan.order == "kill first":
            node.kill()
            time.sleep(plan.gap_s)
            for lane in self.lanes:
                lane.first.pause()
                lane.first.await_stop(_STOP_S)
                lane.stopped = "waits" if lane.first.is_within() else ""
        else:
            for lane in self.lanes:
                lane.first.stop_itself(lane.plan.stage, lane.plan.commit_ms)
            for lane in self.lanes:
                lane.stopped = lane.plan.stage if lane.first.await_stop(_STOP_S) else ""
            if plan.order == "hold markers":
                self._hold(transactions, sink)
            else:
                time.sleep(plan.gap_s)
            node.kill()
            self._cluster.rejoin()
        stopped = time.monotonic()
        self._tell(
            f"cycle {plan.cycle}: {plan.order}, node {node.id} ({plan.victim}) is dead, "
            f"stopped at {[lane.stopped or 'no transaction' for lane in self.lanes]}"
        )
        self._go_on(node.id, stopped)

    def _hold(self, transactions: int, sink: int) -> None:
        """Let the stopped processes commit while the coordinator cannot send markers to the leader of the sinks."""
        before = [lane.first.commits() for lane in self.lanes]
        self._cluster.part(transactions, sink)
        for lane in self.lanes:
            lane.first.resume()
        deadline = time.monotonic() + _HELD_S
        while time.monotonic() < deadline and self.held < len(self.lanes):
            self.held = sum(lane.first.commits() > count for lane, count in zip(self.lanes, before, strict=True))
            time.sleep(0.001)
        time.sleep(self.plan.gap_s / 3)
        for lane in self.lanes:
            lane.first.pause()

    def _go_on(self, dead: int, stopped: float) -> None:
        """Start the node, begin successors, continue and end the stopped processes, each at its time."""
        due: list[tuple[float, int, Callable[[], None]]] = [(self.plan.down_s, -1, self._cluster.node(dead).start)]
        for lane in self.lanes:
            one = lane.plan
            due.append((one.paused_s, lane.number, lane.first.resume))
            if one.successor:
                due.append((one.successor_s, lane.number, lane.successor.join))
                end = lane.first.kill if one.killed else lane.first.leave
                due.append((one.paused_s + one.overlap_s, lane.number, end))
        for at, _, act in sorted(due, key=lambda each: each[:2]):
            left = stopped + at - time.monotonic()
            if left > 0:
                time.sleep(left)
            act()

    # -- after

    def _await_commits(self, ends: dict[int, int]) -> dict[str, dict[int, int]]:
        """Wait until each group's committed offsets are where the inputs end; those offsets by group."""
        places = [TopicPartition(self._source, number) for number in range(PARTITIONS)]
        found: dict[str, dict[int, int]] = {}
        for lane in self.lanes:

            def is_done(lane: Lane = lane) -> bool:
                lane.last.check()
                with kafwire.Consumer(self._cluster.direct, assign=places, group_id=lane.group) as consumer:
                    offsets = consumer.committed()
                found[lane.group] = {where.partition: offset or 0 for where, offset in offsets.items()}
                return all(found[lane.group].get(number, 0) >= end for number, end in ends.items())

            try:
                self._await(lambda: _tried(is_done), _SETTLE_S, f"{lane.group}: inputs to {ends} are not committed")
            except Unwell as error:
                self.violations.append(f"{error}; committed are {found.get(lane.group)}\n{lane.last.where()}")
        return found

    def _states(self, client: kafwire.Client) -> list[str]:
        """The coordinator's state of each transactional id."""
        request = protocol.DescribeTransactionsRequest(transactional_ids=[lane.transactional_id for lane in self.lanes])
        try:
            leader = client.metadata([TRANSACTION_STATE]).topics[0].partitions[0].leader_id
            return describe(client.call(request, broker=leader))
        except KafkaError as error:
            return [f"the coordinator does not describe its transactions: {error}"]

    def _close(self, lane: Lane) -> None:
        for member in (lane.first, lane.successor):
            try:
                member.close()
            except RuntimeError as error:
                self.violations.append(str(error))

    def _judge(self, lane: Lane, ends: dict[int, int], committed: dict[int, int]) -> None:
        claimed = reported([lane.first.lines(), lane.successor.lines()])
        seen = {reader: self._outputs(lane.sink, *reader) for reader in READERS}
        lane.claimed = len(claimed)
        lane.verdict = judge(ends, claimed, committed, seen)
        self.violations += [f"{lane.sink}: {line}" for line in lane.verdict.lines]

    def _outputs(self, sink: str, client: str, level: str) -> list[bytes]:
        rows = read_all(self._cluster.direct, [sink], client=client, isolation_level=level)
        return [value or b"" for _, _, _, values, _ in rows for value in values]

    def _await(self, condition: Callable[[], bool], seconds: float, failure: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Unwell(f"{failure} after {seconds:g} s")
            time.sleep(_LOOK_S)


def _tried(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except KafkaError:
        return False
