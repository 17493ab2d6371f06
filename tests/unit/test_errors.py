"""The exceptions, and the table of Kafka's error codes."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

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
from kafwire.spark.exactly_once.decisions import Decision, Prepared
from kafwire.spark.exactly_once.outcomes import Outcome
from kafwire.types import TransactionHandle


def test_a_broker_error_names_the_operation_and_the_place() -> None:
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
def test_a_denied_operation(code: int, api: str, operation: str, resource: tuple[str, str | None]) -> None:
    error = broker_error(code, "here", api=api, **NAMES)
    assert isinstance(error, AuthorizationError)
    assert (error.operation, error.resource_type, error.resource_name) == (operation, *resource)
    assert (error.code, error.name, error.retriable) == (code, ErrorCode(code).name, False)
    on = "the Cluster" if resource[1] is None else f"{resource[0]} {resource[1]!r}"
    assert f"needs an ACL that permits {operation} on {on}" in str(error)
    assert str(error).endswith(" [here]")


def test_a_denied_unknown_request() -> None:
    error = broker_error(29, "here")
    assert isinstance(error, AuthorizationError)
    assert (error.operation, error.resource_type, error.resource_name) == (None, "Topic", None)
    assert error.message == "no ACL permits this to this client on a Topic [here]"
    assert broker_error(31, api="Heartbeat").message == "no ACL permits this to this client on the Cluster"


def test_alternative_permissions() -> None:
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


@pytest.mark.parametrize("code", [3, 10, 29, 12345])
def test_a_broker_s_text_forges_no_line(code: int) -> None:
    error = broker_error(code, "said: no\r\nERROR \x1b[2J\u202eall is lost, caf\u00e9")
    assert r"said: no\r\nERROR \x1b[2J\u202eall is lost, caf\u00e9".replace(r"\u00e9", "\u00e9") in str(error)
    assert str(error).isprintable()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


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


def import_optional(module: str) -> None:
    """Import a module, unless it needs a package that is not installed here."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        assert error.name in OPTIONAL, module


def all_errors() -> list[type[KafkaError]]:
    """Every class of errors in the package."""
    for found in pkgutil.walk_packages(kafwire.__path__, "kafwire."):
        if not found.name.startswith(("kafwire.testing", "kafwire.spark")) and "__main__" not in found.name:
            import_optional(found.name)
    classes = [KafkaError]
    for kind in classes:
        classes += [other for other in kind.__subclasses__() if other not in classes]
    return [kind for kind in classes if kind.__module__.startswith("kafwire.")]


OPTIONAL = {"dask", "duckdb", "opentelemetry", "polars", "ray"}
TAKEN = Prepared(TransactionHandle("sink-0", 1000, 3), 2, {"flights": (0, 1)})
OF_ADMIN = {"Mapping[Any, Any]": {"t": 1}, "Mapping[Any, KafkaError]": {}}
OF_SPARK = {"Decision": Decision("query", 7, (TAKEN,)), "Sequence[Outcome]": [Outcome.ABORTED]}


def made_by(kind: type[KafkaError]) -> KafkaError:
    """An error with every field set; its arguments are made by their annotations."""
    values = {
        "str": "text",
        "int": 7,
        "bool": True,
        "float": 2.5,
        "KafkaError": KafkaError("inner"),
        **OF_ADMIN,
        **OF_SPARK,
    }
    arguments: dict[str, Any] = {}
    positional: list[Any] = []
    own = "__init__" in {name for each in kind.__mro__ if each.__module__.startswith("kafwire.") for name in vars(each)}
    for name, parameter in inspect.signature(kind).parameters.items() if own else ():
        annotation = str(parameter.annotation).removesuffix(" | None")
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.append("text")
        elif parameter.kind is not parameter.VAR_KEYWORD:
            other: Any = (("t", 1),) if annotation.startswith("tuple") else {"t"}
            arguments[name] = 10 if name == "code" else values.get(annotation, other)
    error = kind(*positional, **arguments) if own else kind("text")
    error.in_doubt = True
    error.own = ["a field of the caller"]  # type: ignore[attr-defined]
    error.add_note("a note")
    error.__cause__ = broker_error(7, "the cause")
    return error


COPIES: list[Callable[[Any], Any]] = [
    *(partial(lambda protocol, error: pickle.loads(pickle.dumps(error, protocol)), n) for n in range(2, 6)),
    copy.copy,
    copy.deepcopy,
]


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__qualname__)
def test_a_copy_of_an_error_has_its_class_text_fields_and_cause(kind: type[KafkaError]) -> None:
    error = made_by(kind)
    for copied in COPIES:
        made = copied(error)
        assert type(made) is kind
        assert (str(made), made.args) == (str(error), error.args)
        fields, expected = dict(vars(made)), dict(vars(error))
        for name in [name for name, value in expected.items() if isinstance(value, KafkaError)]:
            assert str(fields.pop(name)) == str(expected.pop(name))
        assert fields == expected
        assert made.in_doubt is True
        assert str(made.__cause__) == str(error.__cause__)
        assert made.__suppress_context__ == error.__suppress_context__


def test_a_copy_in_this_process_keeps_the_delivery() -> None:
    error = KafkaError("x")
    error.delivery = handle = threading.Lock()  # neither picklable nor copyable
    assert copy.copy(error).delivery is handle
    assert copy.deepcopy(error).delivery is handle
    assert pickle.loads(pickle.dumps(error)).delivery is None


def test_a_cause_that_cannot_be_pickled_takes_nothing_along() -> None:
    class Local(Exception):
        pass

    class Needy(Exception):
        def __init__(self, first: int, second: int) -> None:
            super().__init__(f"{first} {second}")

    for cause in (Local("here"), Needy(1, 2)):
        error = KafkaError("x")
        error.in_doubt = True
        error.__cause__ = cause
        made = pickle.loads(pickle.dumps(error))
        assert (str(made), made.in_doubt, made.__cause__) == ("x", True, None)
        assert copy.copy(error).__cause__ is cause


def test_an_error_of_a_pool_says_that_the_record_may_be_in_the_log() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(BrokerError) as caught:
        pool.apply(raise_in_doubt)
    assert caught.value.in_doubt is True


def raise_in_doubt() -> None:
    error = broker_error(7, "x")
    error.in_doubt = True
    raise error


def test_hierarchy() -> None:
    public = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert all(issubclass(error, KafkaError) for error in public)
    assert issubclass(errors.KafkaTimeoutError, TimeoutError)
    assert issubclass(errors.KafkaConnectionError, ConnectionError)
    assert issubclass(errors.ConfigError, ValueError)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_the_text_of_an_error_code_asks_nothing(code: ErrorCode) -> None:
    """The code is all that is known: a cause that the code does not name is a guess."""
    assert "?" not in code.message
