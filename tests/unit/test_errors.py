"""The exceptions, and the table of Kafka's error codes."""

import pickle

import pytest

import kafwire
from kafwire import errors
from kafwire.errors import (
    ERROR_CODES,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    KafkaError,
    ProtocolError,
    RecordTooLargeError,
    broker_error,
)


def test_broker_error_says_what_and_where() -> None:
    error = broker_error(6, "topic flights, partition 3, broker 1")
    assert type(error) is BrokerError
    assert (error.code, error.name, error.retriable) == (6, "NOT_LEADER_OR_FOLLOWER", True)
    assert str(error).startswith("NOT_LEADER_OR_FOLLOWER (6): ")
    assert "topic flights, partition 3, broker 1" in str(error)


@pytest.mark.parametrize("code", [10, 18])
def test_too_large(code: int) -> None:
    error = broker_error(code, "here")
    assert isinstance(error, RecordTooLargeError)
    assert isinstance(error, BrokerError)
    assert error.code == code
    assert not error.retriable
    assert RecordTooLargeError("2 MB are more than max_request_size").name == "MESSAGE_TOO_LARGE"


NAMES = {"topic": "t", "group": "g", "transactional_id": "x", "user": "User:u"}


@pytest.mark.parametrize(
    ("code", "api", "operation", "resource"),
    [
        (29, "Produce", "Write", ("Topic", "t")),
        (30, "TxnOffsetCommit", "Read", ("Group", "g")),
        (53, "TxnOffsetCommit", "Write", ("TransactionalId", "x")),
        (31, "InitProducerId", "IdempotentWrite", ("Cluster", None)),
        (65, "CreateDelegationToken", "CreateTokens", ("User", "User:u")),
    ],
)
def test_what_is_not_permitted(code: int, api: str, operation: str, resource: tuple[str, str | None]) -> None:
    error = broker_error(code, "here", api=api, **NAMES)
    assert isinstance(error, AuthorizationError)
    assert (error.operation, error.resource_type, error.resource_name) == (operation, *resource)
    assert (error.code, error.name, error.retriable) == (code, ErrorCode(code).name, False)
    on = "the Cluster" if resource[1] is None else f"{resource[0]} {resource[1]!r}"
    assert f"needs an ACL that permits {operation} on {on}" in str(error)
    assert str(error).endswith(" [here]")


def test_what_is_not_permitted_to_an_unknown_request() -> None:
    error = broker_error(29, "here")
    assert isinstance(error, AuthorizationError)
    assert (error.operation, error.resource_type, error.resource_name) == (None, "Topic", None)
    assert error.message == "no ACL permits this to this client on a Topic [here]"
    assert broker_error(31, api="Heartbeat").message == "no ACL permits this to this client on the Cluster"


def test_what_will_do_instead() -> None:
    assert broker_error(29, api="CreateTopics", topic="t").message == (
        "this client needs an ACL that permits Create on Topic 't', or Create on the Cluster"
    )


def test_every_error_is_a_public_name_of_the_package() -> None:
    classes = {
        name
        for name in errors.__all__
        if isinstance(value := getattr(errors, name), type) and issubclass(value, Exception)
    }
    assert classes - set(kafwire.__all__) == set()
    for name in classes:
        assert getattr(kafwire, name) is getattr(errors, name)


def test_unknown_code() -> None:
    error = broker_error(31999, "here")
    assert (error.code, error.name, error.retriable) == (31999, "UNKNOWN_ERROR_CODE", False)


def test_table_is_whole() -> None:
    assert sorted(ERROR_CODES) == list(range(-1, 137))
    assert len({error.name for error in ERROR_CODES.values()}) == len(ERROR_CODES)
    assert all(error.code == code and error.message for code, error in ERROR_CODES.items())


def test_codes_are_numbers_with_kafkas_names() -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code == 3
    assert f"{code} {code.name} {code.retriable}" == "3 UNKNOWN_TOPIC_OR_PARTITION True"
    assert ERROR_CODES[3] is ErrorCode(3) is code
    assert pickle.loads(pickle.dumps(code)) is code
    assert ErrorCode.__module__ == "kafwire.errors"


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_COORDINATOR])
def test_an_error_holds_the_plain_number_of_its_code(code: ErrorCode) -> None:
    """A process with another build of this package reads it too."""
    error = broker_error(code, "here")
    assert type(error.code) is int
    assert vars(error) == vars(broker_error(int(code), "here"))
    assert str(error).startswith(f"{code.name} ({int(code)}): ")
    assert b"ErrorCode" not in pickle.dumps(error)


def test_protocol_error_names_its_place() -> None:
    error = ProtocolError("bad", api="MetadataResponse", version=12, offset=7)
    assert (error.api, error.version, error.offset) == ("MetadataResponse", 12, 7)
    assert str(error) == "bad [MetadataResponse version 12 at offset 7]"
    assert str(ProtocolError("bad")) == "bad"


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError("bad", api="X", version=1, offset=0),
        broker_error(3, "here"),
        broker_error(18, "here"),
        broker_error(30, "here", api="OffsetCommit", group="billing"),
        errors.ConfigError("no such option"),
        errors.KafkaTimeoutError("5 s"),
        errors.KafkaConnectionError("reset"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_travels_between_processes(error: KafkaError) -> None:
    """Spark's workers send their exceptions to the driver by pickle."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_hierarchy() -> None:
    public = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert all(issubclass(error, KafkaError) for error in public)
    assert issubclass(errors.KafkaTimeoutError, TimeoutError)
    assert issubclass(errors.KafkaConnectionError, ConnectionError)
    assert issubclass(errors.ConfigError, ValueError)
