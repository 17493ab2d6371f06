"""`kafwire.lazy_dataclass`: the same as the standard library's dataclasses, and later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kafwire import lazy_dataclass
from tests.support.deadlines import PATIENCE_S, ended

Maker = Callable[..., Any]


def _family(dataclass: Maker) -> list[type]:
    """Classes of all kinds that kafwire has."""

    @dataclass
    class Plain:
        """Plain."""

        number: int
        text: str = "x"
        items: list[int] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=3, repr=False, compare=False)
        inner: int = dataclasses.field(default=4, init=False)
        shared: ClassVar[int] = 5

    @dataclass(frozen=True)
    class Frozen:
        """Frozen."""

        number: int
        text: str = "x"

    @dataclass(slots=True)
    class Slotted:
        """Slotted."""

        number: int
        text: str = "x"

        def __post_init__(self) -> None:
            self.number += 1

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        """Ordered."""

        number: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        """Base."""

        number: int = 1
        text: str = "b"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Sub(Base):
        """Sub."""

        number: int
        more: tuple[int, ...] = ()

    @dataclass(eq=False)
    class ByIdentity:
        """ByIdentity."""

        number: int

    @dataclass(frozen=True)
    class Own:
        """Own."""

        number: int

        def __init__(self, number: str) -> None:
            object.__setattr__(self, "number", int(number))

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Empty."""

    return [Plain, Frozen, Slotted, Ordered, Base, Sub, ByIdentity, Own, Empty]


_OURS = _family(lazy_dataclass.dataclass)
_THEIRS = _family(dataclasses.dataclass)
_PAIRS = pytest.mark.parametrize(
    ("ours", "theirs"), list(zip(_OURS, _THEIRS, strict=True)), ids=[kind.__name__ for kind in _OURS]
)


def _outcome(function: Callable[[], object]) -> object:
    """The result of a call, or the kind and text of its error."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def _set(one: object, name: str) -> object:
    setattr(one, name, 2)
    return getattr(one, name)


def _make(kind: type, number: int = 1) -> Any:
    return kind() if kind.__name__ == "Empty" else kind(number=number)


@_PAIRS
def test_instances_are_the_same(ours: type, theirs: type) -> None:
    for number in (1, 2):
        mine, their = _make(ours, number), _make(theirs, number)
        assert repr(mine) == repr(their)
        assert dataclasses.asdict(mine) == dataclasses.asdict(their)
        assert dataclasses.astuple(mine) == dataclasses.astuple(their)
        assert (mine == _make(ours)) == (their == _make(theirs))
        assert (mine != object()) == (their != object())
        if "__hash__" in ours.__dict__:
            assert _outcome(lambda one=mine: hash(one)) == _outcome(lambda one=their: hash(one))  # type: ignore[misc]
        assert hasattr(mine, "__dict__") == hasattr(their, "__dict__")
        assert repr(copy.copy(mine)) == repr(mine) == repr(copy.deepcopy(mine))
        assert mine.__reduce_ex__(4)[2:] == their.__reduce_ex__(4)[2:]
        if ours.__name__ == "Plain":
            assert mine == ours(number, hidden=7)
            assert mine != ours(number, items=[1])
        if ours.__name__ not in {"Empty", "Own"}:
            assert repr(dataclasses.replace(mine, number=9)) == repr(dataclasses.replace(their, number=9))


@_PAIRS
def test_classes_are_the_same(ours: type, theirs: type) -> None:
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert [(one.name, one.type, one.default, one.kw_only) for one in dataclasses.fields(ours)] == [
        (one.name, one.type, one.default, one.kw_only) for one in dataclasses.fields(theirs)
    ]
    params, wanted = ours.__dataclass_params__, theirs.__dataclass_params__  # type: ignore[attr-defined]
    assert (params.frozen, params.eq, params.order) == (wanted.frozen, wanted.eq, wanted.order)
    assert ours.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]
    assert ours.__dict__.get("__slots__") == theirs.__dict__.get("__slots__")
    assert ours.__qualname__ == theirs.__qualname__
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


@_PAIRS
def test_mistakes_have_the_same_errors(ours: type, theirs: type) -> None:
    def mistakes(kind: type) -> list[Callable[[], object]]:
        one = _make(kind)
        return [
            lambda: kind(nothing=1),
            lambda: kind(1, 2, 3, 4, 5, 6),
            lambda: _set(one, "number"),
            lambda: _set(one, "nothing"),
            lambda: delattr(one, "number"),
            lambda: one < _make(kind, 2),
            lambda: one >= _make(kind, 2),
        ]

    found, wanted = ([_outcome(mistake) for mistake in mistakes(kind)] for kind in (ours, theirs))
    for index, error in enumerate(wanted):
        # The standard library's `super(cls, self)` names the class without slots, and fails itself.
        if "instance or subtype of type" in str(error):
            verb = "assign to" if index < 4 else "delete"
            name = "nothing" if index == 3 else "number"
            wanted[index] = dataclasses.FrozenInstanceError, f"cannot {verb} field {name!r}"
    assert found == wanted


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Pickled:
    """A dataclass at a path that `pickle` finds."""

    number: int
    text: str = "x"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol: int) -> None:
    one = Pickled(1, "y")
    assert pickle.loads(pickle.dumps(one, protocol)) == one


def test_the_first_use_may_be_unpickling_or_a_subclass() -> None:
    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class One:
        number: int

    made = One.__new__(One)
    made.__setstate__([5])  # type: ignore[attr-defined]
    assert made.number == 5

    @lazy_dataclass.dataclass(frozen=True)
    class Base:
        number: int

    class Sub(Base):
        def __init__(self) -> None:
            super().__init__(6)

    assert Sub().number == 6
    assert repr(Sub()).endswith("Sub(number=6)")

    @dataclasses.dataclass(frozen=True)
    class Standard(Base):
        text: str = "x"

    assert Standard(1).text == "x"
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Thawed", (Base,), {"__annotations__": {}}))

    @lazy_dataclass.dataclass(frozen=True)
    class Again(Standard):
        more: int = 3

    assert dataclasses.astuple(Again(1)) == (1, "x", 3)


def test_a_hash_leaves_fields_out_and_fields_that_are_compared_differ() -> None:
    @lazy_dataclass.dataclass(frozen=True)
    class One:
        number: int
        inert: list[int] = dataclasses.field(default_factory=list, hash=False)
        note: str = dataclasses.field(default="x", compare=False)

    assert hash(One(1, [2], "y")) == hash(One(1)) != hash(One(2))
    assert One(1, [2]) != One(1) == One(1, note="y")


@dataclasses.dataclass
class Standard:
    """A standard class with a name that is no field."""

    shared: ClassVar[int] = 5
    number: int = 1


@dataclasses.dataclass(frozen=True)
class MorePickled(Pickled):
    """A standard subclass of a lazy class with slots."""

    more: int = 0


def test_a_subclass_of_a_standard_class_leaves_its_class_variables_out() -> None:
    @lazy_dataclass.dataclass
    class Sub(Standard):
        text: str = "x"

    assert list(inspect.signature(Sub).parameters) == ["number", "text"]
    assert Sub(2).shared == 5


def test_a_pickle_of_a_standard_subclass_has_its_own_fields() -> None:
    one = MorePickled(1, "y", 3)
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one


def test_a_default_that_instances_would_share_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"One\.items: .* set default_factory"):

        @lazy_dataclass.dataclass
        class One:
            items: list[int] = []  # noqa: RUF012


def test_init_sets_attributes_by_the_setattr_of_the_body() -> None:
    @lazy_dataclass.dataclass
    class Doubled:
        number: int

        def __setattr__(self, name: str, value: int) -> None:
            object.__setattr__(self, name, 2 * value)

    assert Doubled(2).number == 4


def test_fields_that_another_thread_reads_keep_their_types() -> None:
    @lazy_dataclass.dataclass
    class One:
        number: int

    first = dataclasses.fields(One)
    assert lazy_dataclass._standard_fields(One)["number"] is not first[0], "made by a thread that lost the race"
    assert first[0].type == "int"


def test_a_definition_compiles_nothing() -> None:
    compiled = []
    active = True
    sys.addaudithook(lambda event, _: compiled.append(event) if active and event == "compile" else None)

    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class One:
        number: int

    assert compiled == []
    One(1)
    One(2)
    active = False
    assert compiled == ["compile"]


def test_threads_race_for_the_first_instance() -> None:
    for _ in range(50):

        @lazy_dataclass.dataclass(frozen=True, slots=True)
        class One:
            number: int

        start = threading.Barrier(4)
        found: list[int] = []

        def make(start: threading.Barrier = start, kind: type = One, found: list[int] = found) -> None:
            start.wait(PATIENCE_S)
            found.append(kind(3).number)

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        ended(*threads)
        assert found == [3] * 4
