"""Denials by ACLs, on the embedded broker and on a real one: an error at once, and nothing is sent again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import kafwire
from kafwire.cluster.list_offsets import end_of_epoch
from kafwire.errors import (
    AuthorizationError,
    KafkaError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
)
from kafwire.testing import EmbeddedKafka, KafkaCluster, Security
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION
from tests.support import seeds
from tests.support.acls import Cluster, Operation, Resource, allow, deny, forget
from tests.support.real_topics import committed_at

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
# A denial takes one round trip. Asking for an unknown topic again and again takes three seconds.
AT_ONCE_S = 2.0
ACLS = Security("SASL_PLAINTEXT", ["PLAIN"], users=USERS, acls=True, superusers=["admin"])


OLDER = "kafka 3.9.1"


@pytest.fixture(scope="module", params=["embedded", *seeds.sampled(["kafka", OLDER], "kafka")])
def guarded(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A node where alice may do all with topics, groups and transactional ids, unless a test denies it."""
    if request.param == "embedded":
        with EmbeddedKafka(security=ACLS, plain=True) as embedded:
            give(embedded)
            yield embedded
        return
    properties = {"auto.create.topics.enable": True, "group.coordinator.new.enable": True}
    version = OLDEST_VERSION if request.param == OLDER else DEFAULT_VERSION
    with KafkaCluster(version=version, security=ACLS, proxies=True, properties=properties) as running:
        give(running)
        yield running


def give(cluster: Cluster) -> None:
    """Let alice do all with topics, groups and transactional ids."""
    for resource in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID):
        allow(cluster, "alice", Operation.ALL, resource, "*")


class Case:
    """One client of alice's, and a topic with a record; transactional id and group have the topic's name."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.where = kafwire.TopicPartition(name, 0)
        self.made = self.options("alice")
        self._before: Counter[tuple[int, str | None, str]] = Counter()

    def options(self, user: str) -> dict[str, Any]:
        """Keyword arguments, with the topic's name as the client's id."""
        made: dict[str, Any] = self.cluster.client_options(user, "PLAIN")
        return {key.replace(".", "_"): value for key, value in made.items()} | {"client_id": self.name}

    def deny(self, operation: Operation, resource: Resource = Resource.TOPIC, name: str | None = None) -> None:
        deny(self.cluster, "alice", operation, resource, name or self.name)
        self._before = self._counts()

    def _counts(self) -> Counter[tuple[int, str | None, str]]:
        if isinstance(self.cluster, EmbeddedKafka):
            return Counter((seen.node, seen.client_id, seen.api) for seen in self.cluster.requests())
        return Counter(self.cluster.proxy.requests)

    @property
    def has_older_transactions(self) -> bool:
        """True if they are of version 1: partitions and offsets are announced to the coordinator."""
        return isinstance(self.cluster, KafkaCluster) and self.cluster.version == OLDEST_VERSION

    def requests(self, api: str) -> int:
        """How many of them the broker has got from this case's clients, since something was denied."""
        counts = self._counts() - self._before
        return sum(count for (_, client, name), count in counts.items() if (client, name) == (self.name, api))

    def grant(self) -> None:
        """Take back all that was denied to alice; what she may do by the rules for `*` she may do again."""
        forget(self.cluster, "alice")
        give(self.cluster)

    def another_topic(self) -> str:
        """Another topic, with a record."""
        name = f"{self.name}-other"
        with kafwire.Client(self.cluster.direct) as client:
            client.create_topic(name, partitions=1)
        with kafwire.Producer(self.cluster.direct) as producer:
            producer.send(name, b"other").result(timeout=30)
        return name


@pytest.fixture
def case(guarded: Cluster, topic_name: str) -> Case:
    """A case with a topic that has one record."""
    made = Case(guarded, topic_name)
    with kafwire.Client(guarded.direct) as client:
        client.create_topic(topic_name, partitions=1)
    with kafwire.Producer(guarded.direct) as producer:
        # As rows: the first of a process import pyarrow, which is not to be measured.
        producer.send_batch(topic_name, pa.table({"value": [b"value"]})).result(timeout=30)
    return made


def denial(of: BaseException) -> AuthorizationError:
    """The error, or the one that a transaction's error was caused by."""
    found = of.__cause__ if isinstance(of, TransactionError) else of
    assert isinstance(found, AuthorizationError), repr(of)
    return found


def refused(ask: Callable[[], object]) -> BaseException:
    """The error that `ask` raises, within a round trip."""
    began = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        ask()
    assert time.monotonic() - began < AT_ONCE_S, f"after {time.monotonic() - began:.1f} s: {caught.value}"
    return caught.value


# --- what a client of each kind does; each returns when it has met the denial --------------------------------------

Met = BaseException


def look_up(case: Case) -> Met:
    case.deny(Operation.DESCRIBE)
    with kafwire.Client(**case.made) as client:
        return refused(lambda: client.topic(case.name))


def look_up_offsets(case: Case) -> Met:
    with kafwire.Client(**case.made) as client:
        client.topic(case.name)
        case.deny(Operation.DESCRIBE)
        return refused(lambda: client.offsets([case.where]))


def look_up_epoch(case: Case) -> Met:
    with kafwire.Client(**case.made) as client:
        client.topic(case.name)
        case.deny(Operation.DESCRIBE)
        return refused(lambda: client._engine.run(end_of_epoch, client._cluster, case.name, 0, 0))


def create(case: Case) -> Met:
    case.deny(Operation.CREATE, name=case.name + "-new")
    with kafwire.Client(**case.made) as client:
        return refused(lambda: client.create_topic(case.name + "-new"))


def delete(case: Case) -> Met:
    case.deny(Operation.DELETE)
    with kafwire.Client(**case.made) as client:
        return refused(lambda: client.delete_topic(case.name))


def describe_config(case: Case) -> Met:
    case.deny(Operation.DESCRIBE_CONFIGS)
    with kafwire.Client(**case.made) as client:
        return refused(lambda: client.topic_config(case.name))


def send(case: Case) -> Met:
    case.deny(Operation.WRITE)
    with kafwire.Producer(**case.made) as producer:
        return refused(lambda: producer.send(case.name, b"x").result(timeout=30))


def send_undescribed(case: Case) -> Met:
    case.deny(Operation.DESCRIBE)
    with kafwire.Producer(**case.made) as producer:
        return refused(lambda: producer.send(case.name, b"x").result(timeout=30))


def send_to_a_new_topic(case: Case) -> Met:
    case.deny(Operation.CREATE, name=case.name + "-new")
    with kafwire.Producer(**case.made) as producer:
        return refused(lambda: producer.send(case.name + "-new", b"x").result(timeout=30))


def send_rows(case: Case) -> Met:
    case.deny(Operation.WRITE)
    with kafwire.Producer(**case.made) as producer:
        return refused(lambda: producer.send_batch(case.name, pa.table({"value": [b"x"]})).result(timeout=30))


def send_async(case: Case) -> Met:
    case.deny(Operation.WRITE)

    async def main() -> None:
        async with kafwire.AsyncProducer(**case.made) as producer:
            await (await producer.send(case.name, b"x"))

    return refused(lambda: asyncio.run(main()))


def get_a_producer_id(case: Case) -> Met:
    allow(case.cluster, "bob", Operation.DESCRIBE, Resource.TOPIC, case.name)
    try:
        with kafwire.Producer(**case.options("bob")) as producer:
            return refused(lambda: producer.send(case.name, b"x").result(timeout=30))
    finally:
        forget(case.cluster, "bob")


def poll(case: Case) -> Met:
    case.deny(Operation.READ)
    with kafwire.Consumer(**case.made, assign=[case.where], start="earliest") as consumer:
        error = refused(lambda: consumer.poll(timeout=30))
        assert case.requests("Fetch") == 1
        return error


def poll_async(case: Case) -> Met:
    case.deny(Operation.READ)

    async def main() -> None:
        async with kafwire.AsyncConsumer(**case.made, assign=[case.where], start="earliest") as consumer:
            try:
                await consumer.poll(timeout=30)
            finally:
                assert case.requests("Fetch") == 1

    return refused(lambda: asyncio.run(main()))


def consume_undescribed(case: Case) -> Met:
    case.deny(Operation.DESCRIBE)
    return refused(lambda: kafwire.Consumer(**case.made, topics=[case.name]))


def scan(case: Case) -> Met:
    case.deny(Operation.READ)
    others = {name: value for name, value in case.made.items() if name != "bootstrap_servers"}
    return refused(lambda: list(kafwire.scan(case.made["bootstrap_servers"], case.name, **others).batches()))


def reading(case: Case) -> kafwire.Consumer:
    """A consumer of a group that has read and committed."""
    made: dict[str, Any] = case.made | {"group_id": case.name, "enable_auto_commit": False}
    consumer = kafwire.Consumer(**made, assign=[case.where], start="earliest")
    assert consumer.poll(timeout=30)
    consumer.commit()
    return consumer


def find_the_group(case: Case) -> Met:
    case.deny(Operation.DESCRIBE, Resource.GROUP)
    with kafwire.Consumer(**case.made, group_id=case.name, enable_auto_commit=False) as consumer:
        return refused(lambda: consumer.committed([case.where]))


def commit(case: Case) -> Met:
    with reading(case) as consumer:
        case.deny(Operation.READ, Resource.GROUP)
        return refused(lambda: consumer.commit({case.where: 0}))


def commit_of_a_topic(case: Case) -> Met:
    with reading(case) as consumer:
        case.deny(Operation.READ)
        return refused(lambda: consumer.commit({case.where: 0}))


def ask_for_committed(case: Case) -> Met:
    with reading(case) as consumer:
        case.deny(Operation.DESCRIBE, Resource.GROUP)
        return refused(lambda: consumer.committed([case.where]))


def ask_for_committed_of_a_topic(case: Case) -> Met:
    with reading(case) as consumer:
        case.deny(Operation.DESCRIBE)
        return refused(lambda: consumer.committed([case.where]))


def initialize(case: Case) -> Met:
    case.deny(Operation.WRITE, Resource.TRANSACTIONAL_ID)
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        return refused(producer.init_transactions)


def find_the_transactions(case: Case) -> Met:
    case.deny(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID)
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        return refused(producer.init_transactions)


def in_transaction(case: Case, step: Callable[[kafwire.Producer], Met]) -> Met:
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(case.name, b"x").result(timeout=30)
        return step(producer)


def write_in_transaction(case: Case) -> Met:
    def step(producer: kafwire.Producer) -> Met:
        case.deny(Operation.WRITE)
        error = refused(lambda: producer.send(case.name, b"x").result(timeout=30))
        assert isinstance(refused(producer.commit_transaction), TransactionAbortableError)
        return error

    return in_transaction(case, step)


def write_without_the_id(case: Case) -> Met:
    def step(producer: kafwire.Producer) -> Met:
        case.deny(Operation.WRITE, Resource.TRANSACTIONAL_ID)
        error = refused(lambda: producer.send(case.name, b"x").result(timeout=30))
        assert isinstance(refused(producer.commit_transaction), TransactionFatalError)
        return error

    return in_transaction(case, step)


def begin_writing(case: Case) -> Met:
    """The first record of a transaction: before version 2 its partition is added to the transaction first."""
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        case.deny(Operation.WRITE)
        error = refused(lambda: producer.send(case.name, b"x").result(timeout=30))
        assert isinstance(refused(producer.commit_transaction), TransactionAbortableError)
        return error


def begin_writing_without_the_id(case: Case) -> Met:
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        case.deny(Operation.WRITE, Resource.TRANSACTIONAL_ID)
        error = refused(lambda: producer.send(case.name, b"x").result(timeout=30))
        assert isinstance(refused(producer.commit_transaction), TransactionFatalError)
        return error


def end_the_transaction(case: Case) -> Met:
    def step(producer: kafwire.Producer) -> Met:
        case.deny(Operation.WRITE, Resource.TRANSACTIONAL_ID)
        error = refused(producer.commit_transaction)
        assert isinstance(error, TransactionFatalError)
        return error

    return in_transaction(case, step)


def send_offsets(case: Case, denied: Operation, resource: Resource) -> Met:
    def step(producer: kafwire.Producer) -> Met:
        case.deny(denied, resource)
        group = kafwire.ConsumerGroupMetadata(case.name)
        error = refused(lambda: producer.send_offsets_to_transaction({case.where: 1}, group))
        assert isinstance(error, TransactionAbortableError)
        return error

    return in_transaction(case, step)


def send_offsets_of_a_group(case: Case) -> Met:
    return send_offsets(case, Operation.READ, Resource.GROUP)


def send_offsets_of_a_topic(case: Case) -> Met:
    return send_offsets(case, Operation.READ, Resource.TOPIC)


def send_offsets_of_a_hidden_group(case: Case) -> Met:
    return send_offsets(case, Operation.DESCRIBE, Resource.GROUP)


class Denied(NamedTuple):
    """A call and its denial: the operation and the resource, and the API, with how many requests of it.

    `older`: the API where transactions are of version 1, if it is another one.
    """

    meet: Callable[[Case], Met]
    operation: str
    resource: str
    api: str
    requests: int = 1
    suffix: str = ""  # of the resource's name, after the topic's
    older: str = ""


DENIED = [
    Denied(look_up, "Describe", "Topic", "Metadata", 1),
    Denied(look_up_offsets, "Describe", "Topic", "ListOffsets"),
    Denied(look_up_epoch, "Describe", "Topic", "OffsetForLeaderEpoch"),
    Denied(create, "Create", "Topic", "CreateTopics", suffix="-new"),
    Denied(delete, "Delete", "Topic", "DeleteTopics"),
    Denied(describe_config, "DescribeConfigs", "Topic", "DescribeConfigs"),
    Denied(send, "Write", "Topic", "Produce"),
    Denied(send_rows, "Write", "Topic", "Produce"),
    Denied(send_async, "Write", "Topic", "Produce"),
    Denied(send_undescribed, "Describe", "Topic", "Produce", 0),
    Denied(send_to_a_new_topic, "Create", "Topic", "Produce", 0, "-new"),
    Denied(get_a_producer_id, "IdempotentWrite", "Cluster", "InitProducerId"),
    Denied(poll, "Read", "Topic", "Fetch", 2),  # the second ends the session
    Denied(poll_async, "Read", "Topic", "Fetch", 2),
    Denied(scan, "Read", "Topic", "Fetch"),
    Denied(consume_undescribed, "Describe", "Topic", "Fetch", 0),
    Denied(find_the_group, "Describe", "Group", "FindCoordinator"),
    Denied(commit, "Read", "Group", "OffsetCommit"),
    Denied(commit_of_a_topic, "Read", "Topic", "OffsetCommit"),
    Denied(ask_for_committed, "Describe", "Group", "OffsetFetch"),
    Denied(ask_for_committed_of_a_topic, "Describe", "Topic", "OffsetFetch"),
    Denied(initialize, "Write", "TransactionalId", "InitProducerId"),
    Denied(find_the_transactions, "Describe", "TransactionalId", "FindCoordinator"),
    Denied(write_in_transaction, "Write", "Topic", "Produce"),
    Denied(write_without_the_id, "Write", "TransactionalId", "Produce"),
    Denied(begin_writing, "Write", "Topic", "Produce", older="AddPartitionsToTxn"),
    Denied(begin_writing_without_the_id, "Write", "TransactionalId", "Produce", older="AddPartitionsToTxn"),
    Denied(end_the_transaction, "Write", "TransactionalId", "EndTxn"),
    Denied(send_offsets_of_a_group, "Read", "Group", "TxnOffsetCommit", older="AddOffsetsToTxn"),
    Denied(send_offsets_of_a_topic, "Read", "Topic", "TxnOffsetCommit"),
    Denied(send_offsets_of_a_hidden_group, "Describe", "Group", "FindCoordinator"),
]


@pytest.mark.parametrize("denied", DENIED, ids=lambda denied: denied.meet.__name__)
def test_a_denial_is_an_error_at_once_and_by_name(case: Case, denied: Denied) -> None:
    error = denied.meet(case)
    reported = denial(error)
    name = None if denied.resource == "Cluster" else case.name + denied.suffix
    assert (reported.operation, reported.resource_type, reported.resource_name) == (
        denied.operation,
        denied.resource,
        name,
    )
    on = "the Cluster" if name is None else f"{denied.resource} {name!r}"
    assert f"needs an ACL that permits {denied.operation} on {on}" in str(error)
    assert not reported.in_doubt
    api = denied.older or denied.api if case.has_older_transactions else denied.api
    assert case.requests(api) == denied.requests


# --- the others go on, and so does the denied client once the ACL is there ------------------------------------------


def values(batches: list[kafwire.Batch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in batch]


def test_other_partitions_are_read_on_and_the_denied_one_when_it_is_permitted(case: Case) -> None:
    other = case.another_topic()
    case.deny(Operation.READ)
    with kafwire.Consumer(**case.made, topics=[case.name, other], start="earliest") as consumer:
        found: list[bytes | None] = []
        denials = 0
        while not found or not denials:
            try:
                found += values(consumer.poll(timeout=30))
            except AuthorizationError as error:
                assert error.resource_name == case.name
                denials += 1
        assert found == [b"other"]
        case.grant()
        while len(found) < 2:
            found += values(consumer.poll(timeout=30))
    assert found == [b"other", b"value"]


def test_a_denied_partition_costs_one_request_for_each_call(case: Case) -> None:
    case.deny(Operation.READ)
    with kafwire.Consumer(**case.made, assign=[case.where], start="earliest") as consumer:
        for count in range(1, 4):
            assert denial(refused(lambda: consumer.poll(timeout=30))).operation == "Read"
            assert consumer.end_offsets([case.where]) == {case.where: 1}
            assert case.requests("Fetch") == count


@pytest.mark.parametrize("way", ["batches", "records", "partition_stream", "arrow_stream"])
def test_each_way_to_read_goes_on_when_it_is_permitted(case: Case, way: str) -> None:
    case.deny(Operation.READ)
    with kafwire.Consumer(**case.made, assign=[case.where], start="earliest") as consumer:

        def read() -> Any:
            if way == "batches":
                return next(iter(next(consumer.batches()))).value
            if way == "records":
                return next(iter(consumer)).value
            if way == "partition_stream":
                return next(iter(next(consumer.partition_stream(case.where)))).value
            reader = consumer.arrow_stream().to_reader()
            return bytes(reader.read_next_batch()["value"][0].as_py())

        with pytest.raises(OSError if way == "arrow_stream" else AuthorizationError, match="permits Read on"):
            read()
        case.grant()
        assert read() == b"value"


@pytest.mark.parametrize("way", ["poll", "partition_stream"])
def test_an_async_consumer_goes_on_when_it_is_permitted(case: Case, way: str) -> None:
    case.deny(Operation.READ)

    async def main() -> list[bytes | None]:
        async with kafwire.AsyncConsumer(**case.made, assign=[case.where], start="earliest") as consumer:

            async def read() -> list[bytes | None]:
                if way == "poll":
                    return values(await consumer.poll(timeout=30))
                async for batch in consumer.partition_stream(case.where):
                    return values([batch])
                return []

            with pytest.raises(AuthorizationError):
                await read()
            await asyncio.to_thread(case.grant)
            return await read()

    assert asyncio.run(main()) == [b"value"]


def test_a_position_that_may_not_be_looked_up_is_found_when_it_is_permitted(case: Case) -> None:
    """The offset is out of range, and the look-up of the log's start is denied; reading is permitted."""
    with kafwire.Consumer(**case.made, assign=[case.where], start="earliest", auto_offset_reset="earliest") as consumer:
        consumer.seek(case.where, 1000)
        case.deny(Operation.DESCRIBE)
        error = denial(refused(lambda: consumer.poll(timeout=30)))
        assert (error.operation, error.resource_name) == ("Describe", case.name)
        case.grant()
        assert values(consumer.poll(timeout=30)) == [b"value"]


def test_a_topic_that_metadata_deny_is_read_when_it_is_permitted(case: Case) -> None:
    """Nothing of it is known any more but that it is denied: the metadata are asked for again."""
    with kafwire.Consumer(**case.made, assign=[case.where], start="earliest") as consumer:
        case.deny(Operation.ALL)
        consumer._engine.run(consumer._core.cluster.refresh, [case.name], at_once=True)
        for _ in range(3):
            assert denial(refused(lambda: consumer.poll(timeout=30))).resource_name == case.name
        case.grant()
        assert values(consumer.poll(timeout=30)) == [b"value"]


def test_records_to_other_topics_go_on_and_to_the_denied_one_when_it_is_permitted(case: Case) -> None:
    other = case.another_topic()
    case.deny(Operation.WRITE)
    with kafwire.Producer(**case.made) as producer:
        denied, taken = producer.send(case.name, b"x"), producer.send(other, b"x")
        assert taken.result(timeout=30).offset == 1
        assert denial(refused(lambda: denied.result(timeout=30))).resource_name == case.name
        for count in range(2, 4):
            assert refused(lambda: producer.send(case.name, b"x").result(timeout=30))
            assert producer.send(other, b"x").result(timeout=30).offset == count
        case.grant()
        assert producer.send(case.name, b"x").result(timeout=30).offset == 1


def test_a_producer_that_waits_for_each_record_meets_the_denial_once(case: Case) -> None:
    """The producer sends past the engine by then."""
    with kafwire.Producer(**case.made, linger_ms=0) as producer:
        for count in range(1, 6):
            assert producer.send(case.name, b"x").result(timeout=30).offset == count
        case.deny(Operation.WRITE)
        for count in range(1, 4):
            assert denial(refused(lambda: producer.send(case.name, b"x").result(timeout=30))).operation == "Write"
            assert case.requests("Produce") == count
        case.grant()
        assert producer.send(case.name, b"x").result(timeout=30).offset == 6


def test_a_producer_id_is_asked_for_once_for_each_record_that_needs_it(case: Case) -> None:
    allow(case.cluster, "bob", Operation.DESCRIBE, Resource.TOPIC, case.name)
    with kafwire.Producer(**case.options("bob")) as producer:
        for count in range(1, 4):
            error = denial(refused(lambda: producer.send(case.name, b"x").result(timeout=30)))
            assert "or Write on any Topic" in error.message
            assert case.requests("InitProducerId") == count
        allow(case.cluster, "bob", Operation.WRITE, Resource.TOPIC, case.name)
        assert producer.send(case.name, b"x").result(timeout=30).offset == 1
    forget(case.cluster, "bob")


def test_a_transaction_that_met_a_denial_is_aborted_and_the_next_one_goes_on(case: Case) -> None:
    other = case.another_topic()
    case.deny(Operation.WRITE)
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        producer.init_transactions()
        with pytest.raises(TransactionAbortableError) as caught, producer.transaction():
            producer.send(other, b"lost")
            producer.send(case.name, b"lost")
        assert denial(caught.value).operation == "Write"
        assert case.requests("Produce") <= 2
        with producer.transaction():
            producer.send(other, b"kept")
        case.grant()
        with producer.transaction():
            producer.send(case.name, b"kept")
    others = {name: value for name, value in case.made.items() if name != "bootstrap_servers"}
    found = committed_at(case.made["bootstrap_servers"], case.name, other, **others)
    assert found == [b"kept", b"kept", b"other", b"value"]


def test_transactions_are_initialized_when_it_is_permitted(case: Case) -> None:
    case.deny(Operation.WRITE, Resource.TRANSACTIONAL_ID)
    with kafwire.Producer(**case.made, transactional_id=case.name) as producer:
        for count in range(1, 3):
            assert denial(refused(producer.init_transactions)).resource_type == "TransactionalId"
            assert case.requests("InitProducerId") == count
        case.grant()
        with producer.transaction():
            producer.send(case.name, b"x")


def test_offsets_are_committed_when_it_is_permitted(case: Case) -> None:
    with kafwire.Consumer(**case.made, group_id=case.name, assign=[case.where], start="earliest") as consumer:
        assert consumer.poll(timeout=30)
        case.deny(Operation.READ, Resource.GROUP)
        for count in range(1, 3):
            assert refused(consumer.commit)
            assert case.requests("OffsetCommit") == count
        case.grant()
        consumer.commit()
        assert consumer.committed([case.where])[case.where] is not None


def test_a_denied_topic_does_not_wait_for_one_that_may_still_be_made(case: Case) -> None:
    case.deny(Operation.DESCRIBE)
    error = denial(refused(lambda: kafwire.Consumer(**case.made, topics=["missing", case.name])))
    assert error.resource_name == case.name


def test_a_topic_is_created_without_permission_to_describe_it(case: Case) -> None:
    """Create does not imply Describe: the topic is there, although it cannot be waited for."""
    name = f"{case.name}-new"
    allow(case.cluster, "bob", Operation.CREATE, Resource.TOPIC, name)
    with kafwire.Client(**case.options("bob")) as client:
        client.create_topic(name, partitions=2)
        assert denial(refused(lambda: client.topic(name))).operation == "Describe"
    with kafwire.Client(case.cluster.direct) as client:
        assert client.partitions_for(name) == {0, 1}
    forget(case.cluster, "bob")
