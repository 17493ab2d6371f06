"""Dataclasses that cost little at import: the first use of a class compiles its `__init__`, not its definition.

The standard library compiles up to six functions from text, which takes half a millisecond for a dataclass, even if a
program never uses it. `dataclass` here has the options that kafwire uses, and its classes behave the same: signature,
repr, equality, hash, frozen instances, slots, pickles, `fields`, `replace`, `asdict` and subclasses. `InitVar` and
`KW_ONLY` are not supported. Only `__init__` is compiled from text: a loop over the fields would slow each new instance
down.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
import sys
from collections.abc import Callable, Mapping
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass

__all__ = ["dataclass"]

_FIELDS = "__lazy_fields__"
_MISSING = dataclasses.MISSING


class _Lazy:
    """An attribute of a class that `make` creates at the first access."""

    def __init__(self, name: str, make: Callable[[type], Any]) -> None:
        self._name = name
        self._make = make
        self._of: type | None = None

    def bind(self, cls: type) -> None:
        """Become the attribute of `cls`."""
        self._of = cls
        setattr(cls, self._name, self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        assert self._of is not None
        made = self._make(self._of)
        setattr(self._of, self._name, made)  # racing threads create equal attributes
        getter = getattr(type(made), "__get__", None)
        return made if getter is None else getter(made, instance, owner)


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    order: bool = False,
) -> Any:
    """Make a class a dataclass, as `dataclasses.dataclass` does; methods are created at their first use."""

    def decorate(cls: type) -> type:
        own = _own_fields(cls, kw_only=kw_only)
        known: dict[str, tuple[Any, dataclasses.Field[Any]]] = {}
        for base in reversed(cls.__mro__[1:]):
            known |= _fields_of(base)
        known |= own
        if slots:
            cls = _with_slots(cls, own, frozen=frozen)
        setattr(cls, _FIELDS, known)
        _add_methods(cls, known, frozen=frozen, eq=eq, order=order)
        if "__init__" not in cls.__dict__:
            _Lazy("__init__", lambda made: _init_of(made, frozen=frozen)).bind(cls)
        _Lazy("__dataclass_fields__", _standard_fields).bind(cls)
        _Lazy("__dataclass_params__", lambda made: _standard_params(made, frozen=frozen, eq=eq, order=order)).bind(cls)
        return cls

    return decorate if cls is None else decorate(cls)


if not TYPE_CHECKING:
    dataclass = _dataclass


def _own_fields(cls: type, *, kw_only: bool) -> dict[str, tuple[Any, dataclasses.Field[Any]]]:
    """Return the fields that the body of a class declares, each with its annotation."""
    found: dict[str, tuple[Any, dataclasses.Field[Any]]] = {}
    for name, annotation in cls.__annotations__.items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = cls.__dict__.get(name, _MISSING)
        field = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        if type(field.default).__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name}: instances would share this default, set default_factory")
        if field.kw_only is _MISSING:
            field.kw_only = kw_only
        found[name] = annotation, field
        if field.default is not _MISSING:
            setattr(cls, name, field.default)
        elif default is not _MISSING:
            delattr(cls, name)
    return found


def _fields_of(base: type) -> Mapping[str, tuple[Any, dataclasses.Field[Any]]]:
    """Return the fields of a class that is a dataclass already, of this module or of the standard library."""
    own: Mapping[str, tuple[Any, dataclasses.Field[Any]]] | None = base.__dict__.get(_FIELDS)
    if own is not None:
        return own
    standard = dataclasses.fields(base) if "__dataclass_fields__" in base.__dict__ else ()
    return {field.name: (field.type, field) for field in standard}


def _with_slots(cls: type, own: Mapping[str, Any], *, frozen: bool) -> type:
    """Return a copy of the class with a slot for each of its own fields."""
    inherited = {name for base in cls.__mro__[1:] for name in _slots_of(base)}
    namespace = {name: value for name, value in cls.__dict__.items() if name not in own}
    namespace["__slots__"] = tuple(name for name in own if name not in inherited)
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    if frozen:
        namespace.setdefault("__getstate__", _get_state)
        namespace.setdefault("__setstate__", _set_state)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _slots_of(base: type) -> tuple[str, ...]:
    slots: Any = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]  # with fields of a subclass


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=False):
        object.__setattr__(self, field.name, value)


def _add_methods(
    cls: type, known: Mapping[str, tuple[Any, dataclasses.Field[Any]]], *, frozen: bool, eq: bool, order: bool
) -> None:
    """Give `cls` all methods of a dataclass that its body does not define."""
    made: dict[str, Any] = {"__repr__": _repr([name for name, (_, field) in known.items() if field.repr])}
    if sys.version_info >= (3, 13):
        made["__replace__"] = dataclasses.replace
    if eq:
        compared = [name for name, (_, field) in known.items() if field.compare]
        for name in ("eq", "lt", "le", "gt", "ge") if order else ("eq",):
            made[f"__{name}__"] = _comparison(name, compared)
    if eq and cls.__dict__.get("__hash__") is None:  # Python sets it to None for a body with only an `__eq__`
        hashed = [name for name, (_, field) in known.items() if (field.compare if field.hash is None else field.hash)]
        cls.__hash__ = None  # type: ignore[assignment]
        made |= {"__hash__": _hash(hashed)} if frozen else {}
    if frozen:
        made["__setattr__"], made["__delattr__"] = _frozen(cls, frozenset(known))
    for name, method in made.items():
        if cls.__dict__.get(name) is None:
            if name != "__replace__":
                method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
    if "__match_args__" not in cls.__dict__:
        positional = tuple(name for name, (_, field) in known.items() if field.init and not field.kw_only)
        setattr(cls, "__match_args__", positional)  # noqa: B010 # a type has none


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the attributes `names` of an object as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _comparison(name: str, names: list[str]) -> Callable[[Any, Any], Any]:
    """Return `__eq__` or another comparison, of objects of the same class only."""
    values, compare = _values(names), getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        return compare(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

    return method


def _hash(names: list[str]) -> Callable[[Any], int]:
    values = _values(names)

    return lambda self: hash(values(self))


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def text(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return text


def _frozen(cls: Any, names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return `__setattr__` and `__delattr__` that refuse the fields, and in `cls` itself all attributes."""

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return set_attribute, delete_attribute


class _Factory:
    """The default of a parameter whose field has a factory. Signatures show it as the standard library does."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init_of(cls: Any, *, frozen: bool) -> Callable[..., None]:
    """Compile the `__init__` of a dataclass."""
    known: Mapping[str, tuple[Any, dataclasses.Field[Any]]] = cls.__dict__[_FIELDS]
    slotless = "__slots__" not in cls.__dict__
    outer: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    positional: list[str] = []
    keywords: list[str] = []
    body: list[str] = []
    for name, (_, field) in known.items():
        value = name
        if field.default_factory is not _MISSING:
            outer[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _factory else {name}" if field.init else f"_make_{name}()"
        elif field.default is not _MISSING:
            outer[f"_default_{name}"] = field.default
            value = name if field.init else f"_default_{name}"
        if not field.init and field.default_factory is _MISSING and (slotless or field.default is _MISSING):
            continue  # the class has the default, if there is one
        if field.init:
            default = "_factory" if field.default_factory is not _MISSING else f"_default_{name}"
            shown = name if field.default is field.default_factory else f"{name}={default}"
            (keywords if field.kw_only else positional).append(shown)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    lines = [f"def make({', '.join(outer)}):", f" def __init__({parameters}):"]
    lines += [f"  {line}" for line in body or ["pass"]]
    found: dict[str, Any] = {}
    # A text for `exec` would clear CPython's mark of an unhandled KeyboardInterrupt, and with it the exit status.
    code = compile("\n".join([*lines, " return __init__"]), "<dataclass>", "exec")
    exec(code, sys.modules[cls.__module__].__dict__, found)  # noqa: S102 # as the standard library
    init: Callable[..., None] = found["make"](**outer)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {name: kind for name, (kind, field) in known.items() if field.init} | {"return": None}
    return init


def _standard_fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields in the standard library's form, which `dataclasses.fields` reads."""
    made: dict[str, dataclasses.Field[Any]] = _standard(cls, init=False, repr=False, eq=False).__dataclass_fields__
    return made


def _standard_params(cls: type, *, frozen: bool, eq: bool, order: bool) -> Any:
    """Return the options in the standard library's form, which its subclasses read."""
    return _standard(cls, frozen=frozen, eq=eq, order=order).__dataclass_params__


def _standard(cls: type, **options: bool) -> Any:
    """Return a dataclass of the standard library with the fields of `cls`."""
    known: Mapping[str, tuple[Any, dataclasses.Field[Any]]] = cls.__dict__[_FIELDS]
    # Copies: another thread may read the fields of the class meanwhile.
    namespace: dict[str, Any] = {name: copy.copy(field) for name, (_, field) in known.items()}
    # Plain `object`: the standard library would search texts as annotations for ClassVar and InitVar, by a pattern. It
    # would write a docstring, by the signature, where there is none.
    namespace |= {"__annotations__": dict.fromkeys(known, object), "__module__": cls.__module__, "__doc__": "-"}
    made: Any = dataclasses.dataclass(**options)(type(cls.__name__, (), namespace))
    for name, (kind, _) in known.items():
        made.__dataclass_fields__[name].type = kind
    return made
