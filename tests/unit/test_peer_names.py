"""The names of other clients in the classes: an AttributeError with a line to write, which names methods that exist."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
from typing import Any
from unittest.mock import create_autospec

import pytest

import kafwire
from kafwire.peer_names import (
    ADMIN,
    ADMIN_ARGUMENTS,
    BATCH,
    CLIENT,
    CONSUMER,
    CONSUMER_ARGUMENTS,
    DELIVERY,
    MODULE,
    PRODUCER,
    PRODUCER_ARGUMENTS,
    RECORD,
    SHARE_CONSUMER,
    SHARE_CONSUMER_ARGUMENTS,
    called_property,
    line_for,
)

Table = dict[str, str]
TABLES: list[tuple[type, type, Table]] = [
    (kafwire.Producer, kafwire.AsyncProducer, PRODUCER),
    (kafwire.Consumer, kafwire.AsyncConsumer, CONSUMER),
    (kafwire.ShareConsumer, kafwire.AsyncShareConsumer, SHARE_CONSUMER),
    (kafwire.Admin, kafwire.AsyncAdmin, ADMIN),
    (kafwire.Client, kafwire.AsyncClient, CLIENT),
]
ARGUMENTS: list[tuple[Any, dict[str, Table]]] = [
    (kafwire.Producer, PRODUCER_ARGUMENTS),
    (kafwire.AsyncProducer, PRODUCER_ARGUMENTS),
    (kafwire.Consumer, CONSUMER_ARGUMENTS),
    (kafwire.AsyncConsumer, CONSUMER_ARGUMENTS),
    (kafwire.Admin, ADMIN_ARGUMENTS),
    (kafwire.AsyncAdmin, ADMIN_ARGUMENTS),
    (kafwire.ShareConsumer, SHARE_CONSUMER_ARGUMENTS),
    (kafwire.AsyncShareConsumer, SHARE_CONSUMER_ARGUMENTS),
]
COMPILED: list[tuple[type, Table]] = [
    (kafwire.Delivery, DELIVERY),
    (kafwire.BatchDelivery, DELIVERY),
    (kafwire.Batch, BATCH),
    (kafwire.Record, RECORD),
]
BOTH = [(kind, table) for blocking, awaited, table in TABLES for kind in (blocking, awaited)]
IDS = [kind.__name__ for kind, _ in BOTH]


@pytest.mark.parametrize(("kind", "table"), BOTH, ids=IDS)
def test_reading_one_is_an_attribute_error_with_the_line(kind: Any, table: Table) -> None:
    blocking = not kind.__name__.startswith("Async")
    own = table.keys() & vars(kind).keys()
    assert own == ({"start"} if kind in (kafwire.AsyncProducer, kafwire.AsyncConsumer) else set())
    instance = kind.__new__(kind)  # as it is before it connects
    for name in table.keys() - own:
        line = line_for(table[name], blocking=blocking)
        how = line if line.startswith("leave it out: ") else f"write {line}"
        with pytest.raises(AttributeError) as raised:
            getattr(instance, name)
        assert str(raised.value) == f"{kind.__name__!r} object has no attribute {name!r}: {how}"
        assert not hasattr(instance, name)
        assert not hasattr(kind, name)
        assert name not in dir(instance)


@pytest.mark.parametrize(("kind", "table"), BOTH, ids=IDS)
def test_a_line_names_existing_methods_and_requests(kind: type, table: Table) -> None:
    """Its calls are of methods that the class has, awaited if they are to be, with requests and fields of Kafka's."""
    kinds = {
        "producer": "Producer",
        "consumer": "ShareConsumer" if table is SHARE_CONSUMER else "Consumer",
        "admin": "Admin",
        "client": "Client",
    }
    prefix = "Async" if kind.__name__.startswith("Async") else ""
    for name in table:
        line = line_for(table[name], blocking=not prefix)
        if line.startswith("leave it out: "):
            continue
        tree = compile(line, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in kinds:
                owner = getattr(kafwire, prefix + kinds[node.value.id])
                assert hasattr(owner, node.attr), line
            if isinstance(node, ast.Call) and (called := ast.unparse(node.func)).startswith("kafwire.protocol."):
                request = eval(called)  # names of the table
                assert {keyword.arg for keyword in node.keywords} <= request.__annotations__.keys(), line
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and "." not in (owner_name := ast.unparse(node.func.value))
            ):
                owner = getattr(kafwire, prefix + kinds[owner_name]) if owner_name in kinds else None
                if owner is not None:
                    returns = str(inspect.signature(getattr(owner, node.func.attr)).return_annotation)
                    is_awaited = inspect.iscoroutinefunction(getattr(owner, node.func.attr)) or "Coroutine" in returns
                    assert (id(node) in awaited) == is_awaited, line


@pytest.mark.parametrize("kind", [kafwire.Producer, kafwire.AsyncProducer])
def test_a_producer_keeps_the_fast_path_of_attributes(kind: type) -> None:
    """CPython 3.11 specializes attributes of classes without `__getattr__` only: 150 ns of `send`, or 200 ns."""
    assert not any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in kind.__mro__[:-1])


def test_instances_do_not_list_the_names() -> None:
    producer = kafwire.Producer("127.0.0.1:1")
    try:
        assert "poll" not in dir(producer)
        assert {"send", "close", "flush"} <= set(dir(producer))
        assert not hasattr(producer, "poll")
        with pytest.raises(AttributeError, match=r"write producer\.send\(topic, value, key=key\)"):
            producer.produce  # type: ignore[attr-defined]  # noqa: B018
    finally:
        producer.close()


def test_a_subclass_may_have_such_a_method() -> None:
    class Mine(kafwire.Producer):
        def poll(self) -> int:
            return 1

    with Mine("127.0.0.1:1", value_serializer="json") as producer:
        assert producer.poll() == 1
        assert "poll" in dir(producer)
        with pytest.raises(AttributeError, match="'Mine' object has no attribute 'produce'"):
            producer.produce  # type: ignore[attr-defined]  # noqa: B018


def test_serializing_producers_are_named_as_users_know_them() -> None:
    with kafwire.Producer("127.0.0.1:1", value_serializer="json") as producer:
        with pytest.raises(AttributeError, match="'Producer' object has no attribute 'poll': leave it out"):
            producer.poll  # type: ignore[attr-defined]  # noqa: B018
        producer.poll = len  # type: ignore[attr-defined]  # a test double
        assert producer.poll is len  # type: ignore[attr-defined]


def test_a_double_is_made_of_a_class() -> None:
    assert create_autospec(kafwire.Client).close() is not None


@pytest.mark.parametrize("kind", [kind for kind, _ in BOTH])
def test_other_names_are_errors_as_ever(kind: Any) -> None:
    instance = kind.__new__(kind)
    with pytest.raises(AttributeError) as raised:
        instance.sned  # noqa: B018
    assert str(raised.value) == f"{kind.__name__!r} object has no attribute 'sned'"
    assert (raised.value.name, raised.value.obj) == ("sned", instance), "for Python's own suggestions"


def test_parameters_of_the_peers_are_a_type_error_with_the_line() -> None:
    for kind, table in ARGUMENTS:
        blocking = not kind.__name__.startswith("Async")
        instance: Any = kind.__new__(kind)  # a refusal comes before anything is done
        for method, lines in table.items():
            for name, line in lines.items():
                with pytest.raises(TypeError) as raised:
                    called = getattr(instance, method)(**{name: None})
                    called.send(None)  # of a coroutine, which begins then
                reported = line_for(line, blocking=blocking)
                how = reported if reported.startswith("leave it out") else f"write {reported}"
                where = f"{kind.__name__}.{method}()"
                assert str(raised.value) == f"{where} got an unexpected keyword argument {name!r}: {how}"


@pytest.mark.parametrize(("kind", "table"), ARGUMENTS, ids=[kind.__name__ for kind, _ in ARGUMENTS])
def test_methods_with_such_parameters_keep_their_signatures(kind: type, table: dict[str, Table]) -> None:
    for name, lines in table.items():
        method = getattr(kind, name)
        below = method.__wrapped__
        assert inspect.signature(method) == inspect.signature(below)
        assert inspect.iscoroutinefunction(method) == inspect.iscoroutinefunction(below)
        assert method.__doc__ == below.__doc__
        for line in lines.values():
            if not line.startswith("leave it out"):
                ast.parse(line_for(line, blocking=True))


@pytest.mark.parametrize(("kind", "table"), COMPILED, ids=[kind.__name__ for kind, _ in COMPILED])
def test_a_compiled_class_has_the_names_as_lines_to_write(kind: Any, table: Table) -> None:
    instance = kind() if kind is kafwire.Record else None
    for name, line in table.items():
        how = line if line.startswith("leave it out: ") else f"write {line}"
        with pytest.raises(AttributeError) as raised:
            getattr(kind if instance is None else instance, name)
        assert str(raised.value) == f"{kind.__name__!r} object has no attribute {name!r}: {how}"
        assert not hasattr(kind, name)
        if instance is not None:
            assert name not in dir(instance)


def test_a_record_keeps_its_fields_beside_the_names() -> None:
    record = kafwire.Record(b"EWR-IAH", b"UA", timestamp_ms=7, topic="flights", partition=0, offset=3)
    assert {"value", "key", "topic", "partition", "offset", "headers", "timestamp_ms"} <= set(dir(record))
    assert pickle.loads(pickle.dumps(record)) == record
    assert eval(RECORD["timestamp"]) == 7
    assert eval(RECORD["serialized_key_size"]) == 2


def test_an_unknown_name_of_the_package_has_the_line_of_a_peer_s() -> None:
    for name, line in MODULE.items():
        with pytest.raises(AttributeError) as raised:
            getattr(kafwire, name)
        assert str(raised.value).startswith(f"module 'kafwire' has no attribute {name!r}: ")
        assert not hasattr(kafwire, name)
        for used in re.findall(r"kafwire\.(\w+)", line):
            assert hasattr(kafwire, used), line


def test_a_property_that_is_called_says_so() -> None:
    found = called_property("assignment", {1, 2})
    with pytest.raises(TypeError, match="assignment is a property, not a method: write consumer.assignment"):
        found()  # type: ignore[operator]
    assert found == {1, 2}
    assert repr(found) == "{1, 2}"
    for made in (found | {3}, found - {1}, found.copy(), copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert type(made) is set
