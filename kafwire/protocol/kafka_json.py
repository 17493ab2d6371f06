"""Kafka's JSON form of its messages, as the `*DataJsonConverter` classes of the Java client write and read it.

Names are Kafka's own in camelCase, integers are plain JSON integers of any size, bytes are base64, a UUID is its 16
bytes in url-safe base64 without padding, and only the fields of one version appear, without tagged fields at their
default.

Two things go beyond Java, whose converters drop them: records, see `to_json`, and undeclared tagged fields. Those are
under `_unknownTaggedFields`, a name that no field can have: [{"tag": 7, "data": "AAE="}]. Pure: no I/O, no text.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from uuid import UUID

from kafwire.errors import ProtocolError
from kafwire.protocol.spec import Field, Message, Struct
from kafwire.secret import HIDDEN
from kafwire.similar_names import similar

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["UNKNOWN_TAGGED_FIELDS", "camel_case", "from_json", "snake_case", "to_json"]

UNKNOWN_TAGGED_FIELDS = "_unknownTaggedFields"

M = TypeVar("M", bound=Message)
RecordsForm = Literal["base64", "size"] | Callable[["BytesLike"], Any]

_SIZE = "SizeInBytes"
_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def camel_case(name: str) -> str:
    """Return Kafka's JSON name of the declared field `name`: "isr_nodes" is "isrNodes"."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def snake_case(name: str) -> str:
    """Return the declared name of the field `name` in Kafka's JSON or definitions.

    "KRaftVersion" is "k_raft_version".
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class _Item(NamedTuple):
    """A field in one version."""

    field: Field
    json_name: str
    nullable: bool
    tagged: bool
    default: Any


class _Shape(NamedTuple):
    """A struct in one version."""

    present: tuple[_Item, ...]
    absent: tuple[_Item, ...]
    by_name: dict[str, _Item]


@cache
def _shape(cls: type[Struct], version: int) -> _Shape:
    blank = cls()
    present: list[_Item] = []
    absent: list[_Item] = []
    for field in cls.__fields__:
        item = _Item(
            field=field,
            json_name=camel_case(field.name),
            nullable=version in field.nullable,
            tagged=version in field.tagged,
            default=getattr(blank, field.name),
        )
        (present if version in field.versions else absent).append(item)
    return _Shape(tuple(present), tuple(absent), {item.json_name: item for item in present})


class _Place:
    """The place in a message, for errors: converted to text only for an error."""

    __slots__ = ("_parent", "_step", "message", "version")

    def __init__(self, message: str, version: int, parent: "_Place | None" = None, step: str | int = "") -> None:
        self.message = message
        self.version = version
        self._parent = parent
        self._step = step

    def inside(self, step: str | int) -> "_Place":
        return _Place(self.message, self.version, self, step)

    def __str__(self) -> str:
        steps: list[str | int] = []
        place = self
        while place._parent is not None:
            steps.append(place._step)
            place = place._parent
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(steps))
        return text.removeprefix(".") or "the message"

    def error(self, what: str) -> ProtocolError:
        return ProtocolError(f"{self}: {what}", api=self.message, version=self.version)


# --- writing ---


class _Form(NamedTuple):
    records: RecordsForm
    show_secrets: bool


def to_json(
    message: Message, version: int, *, records: RecordsForm = "base64", show_secrets: bool = True
) -> dict[str, Any]:
    """Return `message` in Kafka's JSON form of `version`: dicts, lists, str, int, float, bool and None.

    `records` chooses the form of the bytes of record batches: "base64", which `from_json` reads; "size", only their
    number of bytes under a name that ends in SizeInBytes, as in Java's request log; or a function from the bytes to any
    value. `show_secrets=False`: passwords, tokens and keys are "***", which `from_json` does not read.

    Raises `ProtocolError`, naming the field, where Java's converters refuse: an unknown version, null where it is not
    allowed, a field that the version lacks and that is neither at its default nor ignorable.
    """
    cls = type(message)
    cls.plan(version)
    return _write(message, version, _Form(records, show_secrets), _Place(cls.__name__, version))


def _write(instance: Struct, version: int, form: _Form, place: _Place) -> dict[str, Any]:
    shape = _shape(type(instance), version)
    for item in shape.absent:
        if not item.field.ignorable and getattr(instance, item.field.name) != item.default:
            raise place.inside(item.json_name).error("the version lacks this field, which is not at its default")
    result: dict[str, Any] = {}
    for item in shape.present:
        value = getattr(instance, item.field.name)
        if item.tagged and value == item.default:
            continue
        name = item.json_name
        if value is None:
            if not item.nullable:
                raise place.inside(name).error("null is not allowed")
            result[name] = None
        elif not form.show_secrets and instance.hides(item.field.name):
            result[name] = HIDDEN
        elif item.field.array:
            at = place.inside(name)
            if not isinstance(value, list | tuple):
                raise at.error(f"a {type(value).__name__} is not a list")
            result[name] = [
                _write_value(item.field, element, version, form, at.inside(i)) for i, element in enumerate(value)
            ]
        elif item.field.kind == "records" and form.records == "size":
            result[name + _SIZE] = memoryview(value).nbytes
        else:
            result[name] = _write_value(item.field, value, version, form, place.inside(name))
    if instance.unknown_tagged_fields:
        result[UNKNOWN_TAGGED_FIELDS] = [
            {"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in instance.unknown_tagged_fields
        ]
    return result


def _write_value(field: Field, value: Any, version: int, form: _Form, place: _Place) -> Any:
    try:
        match field.kind:
            case "struct":
                return _write(value, version, form, place)
            case "records" if callable(form.records):
                return form.records(value)
            case "bytes" | "records":
                return base64.b64encode(value).decode()
            case "uuid":
                return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
            case "float64" if not math.isfinite(value):
                return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            case _:
                return value
    except (AttributeError, TypeError):
        raise place.error(f"a {type(value).__name__} is not a {field.kind}") from None


# --- reading ---


def from_json(cls: type[M], data: Any, version: int) -> M:
    """Return the message that `data`, parsed JSON, describes in `version`; the inverse of `to_json`.

    As in Java, every field of the version is required, except tagged ones, which get their default.

    Raises `ProtocolError`, naming the place, for a name that the version does not have, a missing field, a value of the
    wrong type or out of range.
    """
    cls.plan(version)
    return _read(cls, data, version, _Place(cls.__name__, version))


S = TypeVar("S", bound=Struct)


def _read(cls: type[S], data: Any, version: int, place: _Place) -> S:
    if not isinstance(data, Mapping):
        raise place.error(f"expected an object, not {_describe(data)}")
    shape = _shape(cls, version)
    for name in data:
        if name not in shape.by_name and name != UNKNOWN_TAGGED_FIELDS:
            raise place.error(_no_such_field(name, shape))
    values: dict[str, Any] = {}
    for item in shape.present:
        if item.json_name in data:
            values[item.field.name] = _read_field(item, data[item.json_name], version, place.inside(item.json_name))
        elif not item.tagged:
            raise place.error(f"the field {item.json_name} is missing")
    unknown: tuple[tuple[int, bytes], ...] = ()
    if UNKNOWN_TAGGED_FIELDS in data:
        known = {item.field.tag for item in shape.present if item.tagged}
        unknown = _read_unknown(data[UNKNOWN_TAGGED_FIELDS], known, place.inside(UNKNOWN_TAGGED_FIELDS))
    return cls(**values, unknown_tagged_fields=unknown)


def _no_such_field(name: object, shape: _Shape) -> str:
    if not isinstance(name, str):
        return f"the name of a field is a string, not {_describe(name)}"
    for item in shape.absent:
        if name == item.json_name:
            low, high = item.field.versions
            return f"the field {name} is not in this version, only in {low} to {high}"
    for item in shape.present:
        if item.field.kind == "records" and name == item.json_name + _SIZE:
            return f"{name} is the size of the records; the records are needed, as {item.json_name} in base64"
    near = similar(name, shape.by_name)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(shape.by_name) or 'none'}"
    return f"there is no field {name}{hint}"


def _read_field(item: _Item, value: Any, version: int, place: _Place) -> Any:
    if value is None:
        if not item.nullable:
            raise place.error("null is not allowed")
        return None
    if not item.field.array:
        return _read_value(item.field, value, version, place)
    if not isinstance(value, list | tuple):
        raise place.error(f"expected an array, not {_describe(value)}")
    return [_read_value(item.field, element, version, place.inside(i)) for i, element in enumerate(value)]


def _read_value(field: Field, value: Any, version: int, place: _Place) -> Any:
    kind = field.kind
    if kind == "struct":
        assert field.struct is not None
        return _read(field.struct, value, version, place)
    if kind in _RANGES:
        return _read_integer(kind, value, place)
    if kind == "float64":
        if isinstance(value, str) and value in _FLOATS:
            return _FLOATS[value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise place.error(f"expected a number, not {_describe(value)}")
        try:
            return float(value)
        except OverflowError:
            raise place.error("the number is beyond a float64") from None
    if kind == "bool":
        if not isinstance(value, bool):
            raise place.error(f"expected true or false, not {_describe(value)}")
        return value
    if not isinstance(value, str):
        raise place.error(f"expected a string, not {_describe(value)}")
    if kind == "string":
        return value
    return _read_uuid(value, place) if kind == "uuid" else _read_bytes(value, place)


def _read_integer(kind: str, value: Any, place: _Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise place.error(f"expected an integer, not {_describe(value)}")
    low, high = _RANGES[kind]
    if not low <= value <= high:
        raise place.error(f"{_describe(value)} is not between {low} and {high}, the limits of {kind}")
    return value


def _read_bytes(text: Any, place: _Place) -> bytes:
    if not isinstance(text, str):
        raise place.error(f"expected base64 in a string, not {_describe(text)}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise place.error(f"not base64: {error}") from None


def _read_uuid(text: str, place: _Place) -> UUID:
    try:
        return UUID(bytes=base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise place.error("expected a UUID as Kafka prints it, 22 characters of url-safe base64") from None


def _read_unknown(value: Any, known: set[int | None], place: _Place) -> tuple[tuple[int, bytes], ...]:
    if not isinstance(value, list | tuple):
        raise place.error(f"expected an array, not {_describe(value)}")
    found: dict[int, bytes] = {}
    for i, entry in enumerate(value):
        at = place.inside(i)
        if not isinstance(entry, Mapping) or entry.keys() != {"tag", "data"}:
            raise at.error('expected an object with "tag" and "data"')
        tag = _read_integer("uint32", entry["tag"], at.inside("tag"))
        if tag in found or tag in known:
            raise at.error(f"tag {tag} is there twice" if tag in found else f"tag {tag} is that of a declared field")
        found[tag] = _read_bytes(entry["data"], at.inside("data"))
    return tuple(sorted(found.items()))


def _describe(value: Any) -> str:
    """Name a JSON value briefly."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "an integer of more than 128 bits"
    names = {str: "a string", float: "a fraction", list: "an array", tuple: "an array", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")
