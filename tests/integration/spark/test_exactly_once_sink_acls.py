"""The permissions of the exactly-once sink: a missing one is an error before the first task, with all that it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire.errors import KafkaError
from kafwire.spark.exactly_once import sinks
from kafwire.spark.options import write_options
from kafwire.testing import EmbeddedKafka, Security
from tests.support.acls import Operation, Resource, allow, deny, forget

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
ACLS = Security("SASL_PLAINTEXT", ["PLAIN"], users=USERS, acls=True, superusers=["admin"])


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(security=ACLS, plain=True, configs={"auto.create.topics.enable": False}) as running:
        for resource in (Resource.TOPIC, Resource.TRANSACTIONAL_ID):
            allow(running, "alice", Operation.ALL, resource, "*")
        yield running
        forget(running, "alice")


def plan(kafka: EmbeddedKafka) -> None:
    given = {f"kafka.{name}": str(value) for name, value in kafka.client_options("alice", "PLAIN").items()}
    options = write_options({**given, "delivery": "exactly-once", "sink": "flights"}, is_stream=True)
    sinks.run(options, lambda sink: sink.plan())


@pytest.mark.parametrize(
    ("operation", "resource", "name"),
    [
        (Operation.WRITE, Resource.TRANSACTIONAL_ID, "kafwire.spark:flights:check"),
        (Operation.WRITE, Resource.TRANSACTIONAL_ID, "kafwire.spark:flights:coord"),
        (Operation.CREATE, Resource.TOPIC, "kafwire-sink-flights"),
    ],
)
def test_a_missing_permission_is_named_before_the_first_task(
    kafka: EmbeddedKafka, operation: Operation, resource: Resource, name: str
) -> None:
    deny(kafka, "alice", operation, resource, name)
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED") as caught:
        plan(kafka)
    needs = "needs WRITE and DESCRIBE on TransactionalIds with the prefix 'kafwire.spark:flights:', and READ, WRITE"
    assert any(needs in note for note in caught.value.__notes__)


def test_these_permissions_are_enough(kafka: EmbeddedKafka) -> None:
    plan(kafka)
