"""The vocabulary for declarations of messages, one file per API, written by hand.

    class HeartbeatRequest(Request[HeartbeatResponse], key=12, versions="0-4", flexible="4+"):
        group_id: str = field("0+")
        generation_id: int32 = field("0+")
        member_id: str = field("0+")
        group_instance_id: str | None = field("3+", nullable="3+", default=None)

A declaration is data: an annotation is the type on the wire and in Python at once, `field` has the versions. The slots
of the class, its constructor, and one plan per version, which `_message` runs, are made from it. This module knows no
particular message, does no I/O, and is not on the path of a record.

A struct that contains another names it by way of the message, in quotes: `list["FetchResponse.PartitionData"]`.

Types: `bool`, `int8` to `int64`, `uint16`, `uint32`, `float`, `str`, `bytes`, `UUID`, `record_bytes`, a `Struct` of the
message, and `list[...]` of those. `| None` if a version allows null.

The version from which an API behaves differently is a constant of its request, in capitals: `since` reads it off the
field that came with it, a number with a reason stands where no field did. Clients, brokers and compiled code compare
versions with these constants only.
"""

import sys
import types
import typing
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
)
from uuid import UUID

from kafwire.errors import ProtocolError
from kafwire.protocol._layout import Layout, Structure
from kafwire.protocol._message import Plan
from kafwire.secret import HIDDEN, names_a_secret

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = [
    "MAX_MEMORY",
    "UUID",
    "Data",
    "Field",
    "Message",
    "Request",
    "Response",
    "Run",
    "Struct",
    "Versions",
    "field",
    "int8",
    "int16",
    "int32",
    "int64",
    "record_bytes",
    "since",
    "uint16",
    "uint32",
]

int8 = Annotated[int, "int8"]
int16 = Annotated[int, "int16"]
int32 = Annotated[int, "int32"]
int64 = Annotated[int, "int64"]
uint16 = Annotated[int, "uint16"]
uint32 = Annotated[int, "uint32"]
record_bytes = Annotated[bytes | memoryview, "records"]

_PLAIN = {bool: "bool", float: "float64", str: "string", bytes: "bytes", UUID: "uuid"}
_ZERO = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": UUID(int=0), "records": None}
# Bytes on the wire, of the kinds that compiled code may find by their offset.
_SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uuid": 16}
_ANY_VERSION = 0x7FFF

# A field takes a few bytes on the wire and some hundred as an object. This is enough for the metadata of half a million
# partitions, and limits the memory for a stranger's frame.
MAX_MEMORY = 256 << 20


class Versions(NamedTuple):
    """A range of versions, both ends included; empty when `low` is above `high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> "Versions":
        """Parse "3", "0-7", "2+"; None is the empty range."""
        if text is None:
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), _ANY_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


class _Default:
    """Marks the zero of the field's type as its default."""


_DEFAULT = _Default()


class _Declared(NamedTuple):
    versions: str
    nullable: str | None
    default: object
    tag: int | None
    tagged: str | None
    ignorable: bool
    flexible: bool
    hidden: bool | str


def field(
    versions: str,
    *,
    nullable: str | None = None,
    default: object = _DEFAULT,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    flexible: bool = True,
    hidden: bool | str = False,
) -> Any:
    """Declare a field of `versions`.

    `nullable`: the versions that allow null. `default`: otherwise the zero of the type. `tag`: it is a tagged field, in
    the `tagged` versions (by default all of its versions). `ignorable`: a value may be dropped silently in a version
    that lacks the field; otherwise encoding raises. `flexible=False`: never in compact form (the client id of the
    header). `hidden`: it is a secret, which `repr` does not show; True: always, a field name: if that field names an
    option with a secret value.
    """
    if tag is not None and tagged is None:
        tagged = versions
    return _Declared(versions, nullable, default, tag, tagged, ignorable, flexible, hidden)


def since(declared: object) -> int:
    """Return the first version with a field, in the body of its message (`rack_id`) or as `FetchTopic.topic_id`."""
    if isinstance(declared, types.MemberDescriptorType):
        declared = declared.__objclass__.__dict__["__declared__"][declared.__name__]
    assert isinstance(declared, _Declared), declared
    return Versions.parse(declared.versions).low


class Run(NamedTuple):
    """Fields of fixed size that stand side by side on the wire."""

    offsets: dict[str, int]  # in bytes, by the field's name
    blank: bytes  # the run with each field at its default


class Field(NamedTuple):
    """One declared field: `_layout` makes tables from it, and tests compare it with Kafka's own definitions."""

    name: str
    kind: str
    struct: "type[Struct] | None"
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Any
    fresh: bool
    ignorable: bool
    flexible: bool
    hidden: bool | str = False


def _evaluate(annotation: Any, scope: dict[str, Any]) -> Any:
    return eval(annotation, scope) if isinstance(annotation, str) else annotation  # noqa: S307 - our own source


def _resolve(owner: str, name: str, annotation: Any, declared: _Declared, scope: dict[str, Any]) -> Field:
    annotation = _evaluate(annotation, scope)
    optional = array = False
    if typing.get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        optional = len(members) < len(typing.get_args(annotation))
        if len(members) != 1:
            raise TypeError(f"{owner}.{name}: a field has one type, or one type | None")
        annotation = members[0]
    if typing.get_origin(annotation) is list:
        array = True
        annotation = _evaluate(typing.get_args(annotation)[0], scope)
    struct: Any = None
    if typing.get_origin(annotation) is Annotated:
        kind = typing.get_args(annotation)[1]
    elif annotation in _PLAIN:
        kind = _PLAIN[annotation]
    elif isinstance(annotation, MessageType):
        kind, struct = "struct", annotation
        _complete(annotation, scope)
    else:
        raise TypeError(f"{owner}.{name}: {annotation!r} is not a type of the protocol")
    nullable = Versions.parse(declared.nullable)
    default = declared.default
    if default is _DEFAULT:
        default = None if array or struct else _ZERO.get(kind, 0)
        fresh = array or struct is not None
    else:
        fresh = False
    if optional != (nullable.low <= nullable.high or (default is None and not fresh)):
        raise TypeError(f"{owner}.{name}: `| None` and nullable= must go together")
    return Field(
        name=name,
        kind=kind,
        struct=struct,
        array=array,
        versions=Versions.parse(declared.versions),
        nullable=nullable,
        tagged=Versions.parse(declared.tagged),
        tag=declared.tag,
        default=default,
        fresh=fresh,
        ignorable=declared.ignorable,
        flexible=declared.flexible,
        hidden=declared.hidden,
    )


@dataclass_transform(kw_only_default=True, eq_default=True)
class MessageType(type):
    """Turns a declared class body into a class with slots.

    For type checkers the result is a dataclass with keyword-only, optional arguments.
    """

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **options: Any,
    ) -> "MessageType":
        """Replace the declared fields by slots and store their declarations as `__fields__`."""
        declared = {key: value for key, value in namespace.items() if isinstance(value, _Declared)}
        namespace = {key: value for key, value in namespace.items() if key not in declared}
        if "__slots__" not in namespace:
            namespace["__slots__"] = (*declared, "unknown_tagged_fields")
            namespace["__declared__"] = declared
        return super().__new__(mcs, name, bases, namespace, **options)

    __declared__: dict[str, _Declared]
    __fields__: tuple[Field, ...]
    __hidden__: dict[str, bool | str]
    __layout__: Layout


def _complete(cls: MessageType, scope: dict[str, Any]) -> None:
    """Resolve the fields of a class: only when its message exists, as a struct names others by that."""
    if "__fields__" not in cls.__dict__:
        annotations = cls.__annotations__
        cls.__fields__ = tuple(
            _resolve(cls.__qualname__, name, annotations[name], declared, scope)
            for name, declared in cls.__declared__.items()
        )
        cls.__hidden__ = {item.name: item.hidden for item in cls.__fields__ if item.hidden}
        cls.__layout__ = Layout(cls, cls.__fields__)


class Struct(Structure, metaclass=MessageType):
    """A group of fields nested in a message. Compared by value; mutable, so not hashable."""

    __slots__ = ()

    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    def hides(self, name: str) -> bool:
        """True if a field has a secret, which must not be shown."""
        rule = type(self).__hidden__.get(name, False)
        if not rule or not getattr(self, name, None):
            return False
        return (
            rule is True or getattr(self, "is_sensitive", False) or names_a_secret(str(getattr(self, str(rule), None)))
        )

    @classmethod
    def may_hide(cls) -> bool:
        """True if a field of it, or of a struct in it, may have a secret."""
        return bool(cls.__hidden__) or any(item.struct.may_hide() for item in cls.__fields__ if item.struct)

    @classmethod
    def fixed_runs(cls, version: int, *dividers: str) -> list[Run]:
        """Return the runs of fixed-size fields in `version`: compiled code reads and writes fields at their offsets.

        `dividers` are the fields of variable size, which separate the runs; any other one raises `TypeError`, because
        compiled code has to read it by itself. Tagged fields are in no run.
        """
        found = [Run({}, b"")]
        left = list(dividers)
        for item in cls.__fields__:
            if version not in item.versions or version in item.tagged:
                continue
            size = 0 if item.array else _SIZES.get(item.kind, 0)
            if size:
                value = item.default.int if item.kind == "uuid" else int(item.default)
                last = found[-1]
                last.offsets[item.name] = len(last.blank)
                blank = last.blank + value.to_bytes(size, "big", signed=item.kind.startswith("int"))
                found[-1] = last._replace(blank=blank)
            elif left and item.name == left.pop(0):
                found.append(Run({}, b""))
            else:
                raise TypeError(f"{cls.__qualname__}.{item.name} has no fixed size: compiled code has to read it")
        return found

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - nothing here contains itself
        """Print only fields that differ from their default, for IPython and Hypothesis."""
        cls = type(self)
        blank = cls()
        names = (*cls.__layout__.names, "unknown_tagged_fields")
        values = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(blank, name)}
        with printer.group(4, f"{cls.__qualname__}(", ")"):
            for i, (name, value) in enumerate(values.items()):
                if i:
                    printer.text(",")
                printer.breakable(" " if i else "")
                printer.text(f"{name}=")
                if self.hides(name):
                    printer.text(HIDDEN)
                else:
                    printer.pretty(value)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name: structs as dicts, records as bytes, unknown tagged fields if there are any."""
        result = {name: _plain(getattr(self, name)) for name in type(self).__layout__.names}
        if self.unknown_tagged_fields:
            result["unknown_tagged_fields"] = dict(self.unknown_tagged_fields)
        return result

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make an instance from the result of `to_dict`; a missing field gets its default.

        Raises `ProtocolError` for a name that is not a field, a struct that is not a mapping, a tag that is not a
        number.
        """
        return cls._from_dict(values, cls.__qualname__)

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any], place: str) -> Self:
        if not isinstance(values, Mapping):
            raise ProtocolError(f"{place}: expected a mapping, not {type(values).__name__}")
        arguments = dict(values)
        unknown = arguments.pop("unknown_tagged_fields", {})
        if not isinstance(unknown, Mapping) or not all(isinstance(tag, int) for tag in unknown):
            raise ProtocolError(f"{place}.unknown_tagged_fields: expected a mapping from tags to bytes")
        for name in arguments:
            if name not in cls.__layout__.index:
                raise ProtocolError(f"{place} has no field {name!r}; it has {', '.join(cls.__layout__.names)}")
        for item in cls.__fields__:
            value = arguments.get(item.name)
            if item.struct is None or value is None:
                continue
            inner = f"{place}.{item.name}"
            if not item.array:
                arguments[item.name] = item.struct._from_dict(value, inner)
            elif isinstance(value, list | tuple):
                arguments[item.name] = [
                    item.struct._from_dict(element, f"{inner}[{i}]") for i, element in enumerate(value)
                ]
            else:
                raise ProtocolError(f"{inner}: expected a list, not {type(value).__name__}")
        return cls(**arguments, unknown_tagged_fields=tuple(sorted(unknown.items())))


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, memoryview):
        return bytes(value)
    return value


class Message(Struct):
    """A message with versions of its own: `encode` and `decode` one of them.

    Class options: `versions`, the valid ones, None if all are removed; `removed`, earlier ones that Kafka 4 dropped
    (KIP-896): they encode and decode, but are never negotiated; `flexible`, the first with compact and tagged fields.
    """

    __slots__ = ()

    oldest_version: ClassVar[int]  # the first that decodes
    min_version: ClassVar[int]  # the first valid one: above `max_version` if all are removed
    max_version: ClassVar[int]
    flexible_from: ClassVar[int]
    _plans: ClassVar[dict[int, Plan]]

    def __init_subclass__(
        cls, *, versions: str | None = "0", removed: str | None = None, flexible: str | None = None, **options: Any
    ) -> None:
        """Store the class options of a declaration."""
        super().__init_subclass__(**options)
        low, high = Versions.parse(removed)
        cls.min_version, cls.max_version = Versions.parse(versions) if versions else (high + 1, high)
        cls.oldest_version = low if removed else cls.min_version
        cls.flexible_from = Versions.parse(flexible).low if flexible else _ANY_VERSION
        cls._plans = {}
        if "__declared__" in cls.__dict__:
            _complete(cls, {**vars(sys.modules[cls.__module__]), cls.__name__: cls})

    @classmethod
    def plan(cls, version: int) -> Plan:
        """Return the plan of `version`, compiled on first use. Raises `ProtocolError` for an invalid version."""
        try:
            return cls._plans[version]
        except KeyError:
            if not isinstance(version, int) or not cls.oldest_version <= version <= cls.max_version:
                has = f"kafwire has {cls.oldest_version} to {cls.max_version}"
                raise ProtocolError(f"version {version} does not exist; {has}", api=cls.__name__) from None
        plan = cls._plans[version] = Plan(cls, cls.__name__, version, version >= cls.flexible_from)
        return plan

    def encode(self, version: int) -> bytes:
        """Return the body in `version`.

        Raises `ProtocolError`, naming the field, for a value that cannot be encoded: wrong type, out of range, null
        where null is not allowed, or a field that the version lacks and that is neither at its default nor ignorable.
        """
        return self.plan(version).encode(self)

    @classmethod
    def decode(cls, data: "BytesLike", version: int, *, max_memory: int = MAX_MEMORY) -> Self:
        """Decode the message in the body `data` (anything with the buffer protocol) in `version`.

        Records are views of `data`, not copies, if `data` is read-only. Raises only `ProtocolError`: for bytes that are
        not exactly one such message, or whose objects would take more than `max_memory` bytes (default: 256 MiB).
        """
        message: Self = cls.plan(version).decode(data, max_memory)
        return message


class Data(Message):
    """A message that is neither request nor response: a header, or bytes inside another message."""

    __slots__ = ()


class _Api(Message):
    """A request or a response."""

    __slots__ = ()

    api_key: ClassVar[int]
    name: ClassVar[str]
    latest_unstable: ClassVar[bool]
    max_stable_version: ClassVar[int]

    def __init_subclass__(cls, *, key: int = -1, latest_unstable: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.api_key = key
        cls.name = cls.__name__
        cls.latest_unstable = latest_unstable
        cls.max_stable_version = cls.max_version - latest_unstable


class Response(_Api):
    """The response to a `Request`."""

    __slots__ = ()


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(_Api, Generic[R_co]):
    """A request; `Request[X]` declares X as its response, for type checkers and as `response`."""

    __slots__ = ()

    response: ClassVar[type[Response]]
    LEAST: ClassVar[int]  # the lowest version that clients send: `min_version`, unless the class says more

    def __init_subclass__(cls, **options: Any) -> None:
        """Take the response's class from `Request[X]`."""
        super().__init_subclass__(**options)
        cls.LEAST = cls.__dict__.get("LEAST", cls.min_version)
        for base in getattr(cls, "__orig_bases__", ()):
            if typing.get_origin(base) is Request:
                (cls.response,) = typing.get_args(base)
