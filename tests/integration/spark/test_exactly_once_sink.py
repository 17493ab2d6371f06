"""The exactly-once sink without Spark: each level of `transaction.version`, faults between two steps."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.cli import main
from kafwire.errors import ConfigError, ErrorCode, KafkaError, TransactionError, broker_error
from kafwire.spark.exactly_once import sinks
from kafwire.spark.exactly_once.decisions import Decision, Prepared, coordinator_id, encode, task_id
from kafwire.spark.exactly_once.kafka import KafkaCoordination, completed
from kafwire.spark.exactly_once.outcomes import BatchAbortedError, HalfCommittedError, OvertakenError
from kafwire.spark.exactly_once.sink import Plan
from kafwire.spark.options import write_options
from kafwire.testing import EmbeddedKafka, KafkaCluster
from kafwire.types import TransactionHandle
from tests.support.deadlines import until

QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module", params=["embedded", "0", "1", "2"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """One node; "0" to "2" is Kafka's `transaction.version`."""
    if request.param == "embedded":
        with EmbeddedKafka(configs={"auto.create.topics.enable": False}) as kafka:
            yield kafka.bootstrap
    else:
        features = ("--feature", f"transaction.version={request.param}")
        with KafkaCluster(format_options=features, properties=QUICK) as cluster:
            yield cluster.bootstrap


class Job:
    """A query that writes batches of three tasks, ten rows each."""

    def __init__(self, bootstrap: str, sink: str, **options: str) -> None:
        self.bootstrap, self.sink, self.topic, self.run = bootstrap, sink, f"{sink}-out", uuid.uuid4().hex[:6]
        given = {"kafka.bootstrap.servers": bootstrap, "delivery": "exactly-once", "sink": sink, "topic": self.topic}
        self.options = write_options(given | options, is_stream=True)

    def plan(self) -> Plan:
        return sinks.run(self.options, lambda sink: sink.plan())

    def write(self, batch: int, tasks: Sequence[int] = (0, 1, 2)) -> list[Prepared]:
        found = []
        for task in tasks:
            name = task_id(self.sink, self.run, task, 0, 0, batch)
            with kafwire.Producer(**{**self.options.client, "transactional_id": name}) as producer:
                producer.begin_transaction()
                for number in range(10):
                    producer.send(self.topic, f"{batch} {task} {number}".encode(), partition=task)
                found.append(Prepared(producer.detach(), 10, {self.topic: (task,)}))
        return found

    def commit(self, batch: int, prepared: Sequence[Prepared], plan: Plan) -> None:
        sinks.run(self.options, lambda sink: sink.commit("q", batch, prepared, plan.identity))

    def abort(self, batch: int, prepared: Sequence[Prepared]) -> bool:
        return sinks.run(self.options, lambda sink: sink.abort("q", batch, prepared))

    def decide(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Write a decision and nothing else, as a driver that is killed then."""
        coordination = KafkaCoordination(self.options)
        decision = Decision("q", batch, tuple(prepared))
        name = {"transactional_id": coordinator_id(self.sink)}
        coordination.close()
        with kafwire.Producer(**{**self.options.client, **name}) as producer, producer.transaction():
            for key, value in encode(self.sink, decision):
                producer.send(str(self.options.state_topic), value, key=key)

    def end(self, handle: TransactionHandle, *, commit: bool) -> int:
        return int(sinks.run(self.options, lambda sink: sink._cluster.end([handle], commit=commit))[0])

    def committed(self) -> dict[int, int]:
        """Rows by batch, once the coordinator has the markers of all ended transactions in the logs."""
        until(lambda: not self._transactions("PrepareCommit", "PrepareAbort"), "the markers are in the logs")
        found: dict[int, int] = {}
        rows = set()
        with kafwire.scan(self.bootstrap, self.topic, isolation_level="read_committed") as scan:
            for batch in scan.batches():
                for record in batch:
                    rows.add(record.value)
                    number = int(record.value.split()[0])
                    found[number] = found.get(number, 0) + 1
        assert sum(found.values()) == len(rows), "rows appear twice"
        return found

    def ongoing(self) -> list[str]:
        return self._transactions("Ongoing")

    def _transactions(self, *states: str) -> list[str]:
        with kafwire.Client(self.bootstrap) as client:
            response = client.call(protocol.ListTransactionsRequest(state_filters=list(states)), broker=1)
            return [
                each.transactional_id
                for each in response.transaction_states
                if f":{self.sink}:" in each.transactional_id
            ]


@pytest.fixture
def make(bootstrap: str, request: pytest.FixtureRequest) -> Callable[..., Job]:
    name = f"sink{uuid.uuid4().hex[:6]}"
    with kafwire.Client(bootstrap) as client:
        client.create_topic(f"{name}-out", partitions=3, replication_factor=1)
    return lambda **options: Job(bootstrap, name, **options)


def test_batches_are_committed_in_whole_and_strays_aborted(make: Callable[..., Job]) -> None:
    job = make()
    for batch in range(3):
        plan = job.plan()
        assert plan.done == ({"q": batch - 1} if batch else {})
        lost_attempt = job.write(7, tasks=[2])
        job.commit(batch, job.write(batch), plan)
        assert job.end(lost_attempt[0].handle, commit=True) != 0
    assert job.committed() == {0: 30, 1: 30, 2: 30}
    assert not job.ongoing()


def test_a_driver_that_is_killed_before_the_decision_leaves_nothing(make: Callable[..., Job]) -> None:
    make().write(0)
    job = make()
    plan = job.plan()
    assert not job.ongoing()
    job.commit(0, job.write(0), plan)
    assert job.committed() == {0: 30}


@pytest.mark.parametrize("ended", [0, 1, 3])
def test_a_decided_batch_is_rolled_forward(make: Callable[..., Job], ended: int) -> None:
    job = make()
    job.plan()
    prepared = job.write(0)
    job.decide(0, prepared)
    for each in prepared[:ended]:
        assert job.end(each.handle, commit=True) == 0
    plan = make().plan()
    assert plan.is_done("q", 0)
    assert job.committed() == {0: 30}


def test_an_old_copy_of_a_checkpoint_is_refused(make: Callable[..., Job]) -> None:
    job = make()
    for batch in range(2):
        plan = job.plan()
        job.commit(batch, job.write(batch), plan)
    plan = make().plan()
    assert plan.is_done("q", 1)
    assert not plan.is_done("q", 2)
    with pytest.raises(
        BatchAbortedError, match="batch 0 of query q is older than batch 1, which the sink has committed"
    ):
        plan.is_done("q", 0)


def test_abort_after_a_failed_commit_commits_a_decided_batch(make: Callable[..., Job]) -> None:
    job = make()
    job.plan()
    prepared = job.write(0)
    job.decide(0, prepared)
    assert job.abort(0, prepared)
    assert job.committed() == {0: 30}
    undecided = job.write(1)
    assert not job.abort(1, undecided)
    assert job.committed() == {0: 30}
    assert not job.ongoing()


def test_two_live_drivers_stay_exact(make: Callable[..., Job]) -> None:
    old, new = make(), make()
    old_plan = old.plan()
    old_rows = old.write(0)
    new_plan = new.plan()
    with pytest.raises(OvertakenError, match="another driver took over the sink"):
        old.commit(0, old_rows, old_plan)
    new_rows = new.write(0)
    with pytest.raises(OvertakenError):
        new.commit(0, new_rows, new_plan)  # the old driver took over in between
    plan = new.plan()
    new.commit(0, new.write(0), plan)
    assert new.committed() == {0: 30}


def test_a_transaction_that_timed_out_before_the_decision_aborts_the_batch(make: Callable[..., Job]) -> None:
    job = make()
    plan = job.plan()
    prepared = job.write(0)
    assert job.end(prepared[1].handle, commit=False) == 0
    with pytest.raises(BatchAbortedError, match="batch 0 was aborted before its commit: .* is no longer open"):
        job.commit(0, prepared, plan)
    assert job.committed() == {}
    assert not job.ongoing()


@pytest.mark.parametrize("choice", ["--accept-loss", "--rewrite"])
def test_a_half_committed_batch_stops_the_sink_until_the_user_chooses(
    make: Callable[..., Job], choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make()
    job.plan()
    prepared = job.write(0)
    job.decide(0, prepared)
    assert job.end(prepared[1].handle, commit=False) == 0  # as a time-out does
    for _ in range(2):
        with pytest.raises(HalfCommittedError, match=f"10 records were aborted in {job.topic}-1") as caught:
            make().plan()
        assert caught.value.aborted == (prepared[1],)
    assert job.committed() == {0: 20}
    recover = ["spark", "recover", job.sink, "-b", job.bootstrap]
    with pytest.raises(SystemExit) as ended:
        main(recover)
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert [line.split()[3:] for line in shown.out.splitlines() if job.topic in line] == [
        ["0", "10", "committed"],
        ["1", "10", "aborted"],
        ["2", "10", "committed"],
    ]
    with pytest.raises(SystemExit) as ended:
        main([*recover, choice])
    assert not ended.value.code
    assert make().plan().done == ({"q": 0} if choice == "--accept-loss" else {})


def test_time_outs_above_the_brokers_limit_are_refused_by_name(make: Callable[..., Job]) -> None:
    job = make(**{"kafka.transaction.timeout.ms": "900001"})
    with pytest.raises(ConfigError, match="option kafka.transaction.timeout.ms=900001 is above the brokers'"):
        job.plan()


def test_a_state_topic_that_loses_decisions_is_refused(bootstrap: str, make: Callable[..., Job]) -> None:
    with kafwire.Client(bootstrap) as client:
        name = f"state{uuid.uuid4().hex[:6]}"
        client.create_topic(name, partitions=1, replication_factor=1, config={"cleanup.policy": "delete"})
        with pytest.raises(ConfigError, match=f"option stateTopic={name}: its cleanup.policy is delete"):
            make(stateTopic=name).plan()
        client.create_topic(f"{name}-2", partitions=2, replication_factor=1, config={"cleanup.policy": "compact"})
        with pytest.raises(ConfigError, match="has 2 partitions, one is needed"):
            make(stateTopic=f"{name}-2").plan()


def test_a_new_state_topic_is_not_described(make: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that lags knows no such topic for a moment."""

    def refuse(_: kafwire.Client, name: str) -> dict[str, str | None]:
        raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"describing topic {name!r}")

    monkeypatch.setattr(kafwire.Client, "topic_config", refuse)
    job = make()
    plan = job.plan()
    job.commit(0, job.write(0), plan)
    assert job.committed() == {0: 30}


def test_a_detached_producer_cannot_add_to_its_transaction(make: Callable[..., Job]) -> None:
    job = make()
    name = task_id(job.sink, job.run, 0, 0, 0, 0)
    with kafwire.Producer(**{**job.options.client, "transactional_id": name}) as producer:
        producer.begin_transaction()
        producer.send(job.topic, b"0 0 0")
        handle = producer.detach()
        with pytest.raises(TransactionError, match="detached"):
            producer.send(job.topic, b"0 0 1")
    assert job.ongoing() == [name]
    assert job.end(handle, commit=True) == 0
    assert job.committed() == {0: 1}


def test_a_driver_that_is_fenced_while_it_writes_names_the_sink(make: Callable[..., Job]) -> None:
    job = make()
    job.plan()
    coordination = KafkaCoordination(job.options)
    completed(coordination.fence())
    make().plan()
    with pytest.raises(
        KafkaError, match=f"another driver took over the sink {job.sink} while this one wrote to kafwire-"
    ):
        completed(coordination.write([(f"{job.sink}//0".encode(), None)]))
    coordination.close()


def test_a_driver_reads_its_own_decisions_once(make: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    job = make()
    reads = []
    scan = kafwire.Client.scan

    def counted(self: kafwire.Client, *args: Any, **options: Any) -> kafwire.Scan:
        reads.append(options["start"])
        return scan(self, *args, **options)

    monkeypatch.setattr(kafwire.Client, "scan", counted)
    for batch in range(3):
        plan = job.plan()
        job.commit(batch, job.write(batch), plan)
    assert reads == []
    other = KafkaCoordination(job.options)
    completed(other.fence())
    completed(other.write([(f"{job.sink}/other/0".encode(), None)]))
    other.close()
    assert job.plan().done == {"q": 2}
    assert len(reads) == 1
    job.decide(3, prepared := job.write(3))
    assert job.plan().done == {"q": 3}
    assert job.end(prepared[0].handle, commit=True) == 0
    assert job.committed() == dict.fromkeys(range(4), 30)
