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
from kafwire import protocol
from kafwire.peer_names import ADMIN, CONSUMER, PRODUCER, SHARE_CONSUMER, called_property, line_for

Table = dict[str, str]
TABLES: list[tuple[type, type, Table]] = [
    (kafwire.Producer, kafwire.AsyncProducer, PRODUCER),
    (kafwire.Consumer, kafwire.AsyncConsumer, CONSUMER),
    (kafwire.ShareConsumer, kafwire.AsyncShareConsumer, SHARE_CONSUMER),
    (kafwire.Client, kafwire.AsyncClient, ADMIN),
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
def test_a_line_names_what_there_is(kind: type, table: Table) -> None:
    """Its calls are of methods that the class has, awaited if they are to be, with requests and fields of Kafka's."""
    kinds = {
        "producer": "Producer",
        "consumer": "ShareConsumer" if table is SHARE_CONSUMER else "Consumer",
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


def test_a_property_that_is_called_says_so() -> None:
    found = called_property("assignment", {1, 2})
    with pytest.raises(TypeError, match="assignment is a property, not a method: write consumer.assignment"):
        found()  # type: ignore[operator]
    assert found == {1, 2}
    assert repr(found) == "{1, 2}"
    for made in (found | {3}, found - {1}, found.copy(), copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert type(made) is set


def test_requests_of_the_admin_table_are_kafka_s() -> None:
    named = {name for line in ADMIN.values() for name in re.findall(r"protocol\.(\w+)", line)}
    assert named <= set(protocol.__all__)
    assert len(named) > 20
