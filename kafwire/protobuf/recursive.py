"""Messages that contain themselves, which Arrow has no type for: they stand in a column as one JSON text.

`Splice` replaces such fields in the bytes of a message by their texts, and the texts by fields. The text is Protobuf's
JSON form, with the names of the `.proto` file. Wire types are those of protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafwire.errors import SchemaError
from kafwire.protobuf.program import GROUP_TYPE, MESSAGE_TYPE, Descriptor, varint

__all__ = ["Malformed", "Splice", "as_text", "from_text", "recursive_types"]

VARINT, I64, LEN, START_GROUP, END_GROUP, I32 = range(6)


class Malformed(ValueError):
    """The bytes or the text are no value of the message type."""


def _inner(of: Any) -> list[Any]:
    return [each.message_type for each in of.fields if each.type in (MESSAGE_TYPE, GROUP_TYPE)]


def _within(of: Any) -> dict[str, Any]:
    """Return the message types within a type, by their names; the type itself if it contains itself."""
    found: dict[str, Any] = {}
    waiting = [of]
    while waiting:
        for each in _inner(waiting.pop()):
            if each.full_name not in found:
                found[each.full_name] = each
                waiting.append(each)
    return found


def recursive_types(descriptor: Descriptor) -> frozenset[str]:
    """Return the full names of the message types that contain themselves."""
    types = _within(descriptor) | {descriptor.full_name: descriptor}
    return frozenset(name for name, each in types.items() if name in _within(each))


class Splice:
    """Copies messages, and replaces the fields whose type contains itself.

    Args:
        descriptor: the message type.
        put: returns the bytes that stand for the bytes of such a field.

    Raises:
        SchemaError: a field is a group that contains itself.
    """

    def __init__(self, descriptor: Descriptor, put: Callable[[Any, bytes], bytes]) -> None:
        self._descriptor = descriptor
        self._put = put
        self._types = recursive_types(descriptor)
        types = _within(descriptor) | {descriptor.full_name: descriptor}
        self._work = {name for name, each in types.items() if self._types & _within(each).keys()}
        for each in types.values():
            for field in each.fields:
                if field.type == GROUP_TYPE and field.message_type.full_name in self._work | self._types:
                    raise SchemaError(f"Protobuf message, {field.full_name}: a recursive group has no JSON text")

    def spliced(self, data: bytes) -> bytes:
        """Return the bytes of a message, which a Protobuf library has checked.

        Raises:
            Malformed: a field has no such bytes or text.
        """
        return self._copied(self._descriptor, data)

    def _copied(self, of: Any, data: bytes) -> bytes:
        out = bytearray()
        at = 0
        while at < len(data):
            begin = at
            tag, at = _varint_at(data, at)
            field = of.fields_by_number.get(tag >> 3)
            if tag & 7 != LEN:
                at = _skipped(data, at, tag)
            else:
                size, at = _varint_at(data, at)
                inner = data[at : at + size]
                at += size
                name = None if field is None or field.type != MESSAGE_TYPE else field.message_type.full_name
                if field is not None and (name in self._types or name in self._work):
                    copy = self._put if name in self._types else self._copied
                    made = copy(field.message_type, inner)
                    out += varint(tag) + varint(len(made)) + made
                    continue
            out += data[begin:at]
        return bytes(out)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    made = shift = 0
    while at < len(data):
        made |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return made, at
    raise Malformed("the message ends too early")


def _skipped(data: bytes, at: int, tag: int) -> int:
    """Return the position behind a field that is not of the wire type LEN."""
    open_groups = 0
    while True:
        kind = tag & 7
        if kind == VARINT:
            at = _varint_at(data, at)[1]
        elif kind == LEN:
            size, at = _varint_at(data, at)
            at += size
        else:
            at += {I64: 8, I32: 4}.get(kind, 0)
            open_groups += {START_GROUP: 1, END_GROUP: -1}.get(kind, 0)
        if open_groups <= 0:
            return at
        tag, at = _varint_at(data, at)


def _class_of(of: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(of)


def as_text(of: Any, data: bytes) -> bytes:
    """Return the JSON text of a message: the `put` of a `Splice` that decodes."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    kind = _class_of(of)
    try:
        message = kind.FromString(data)
        text = json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        again = json_format.Parse(text, kind())
    except (json_format.Error, DecodeError, TypeError, ValueError, RecursionError) as problem:
        raise Malformed(f"a {of.full_name} has no JSON text: {problem}") from None
    if again.SerializeToString(deterministic=True) != message.SerializeToString(deterministic=True):
        raise Malformed(f"a {of.full_name} has fields without a form in JSON, such as unknown ones: {text[:60]!r}")
    made: bytes = text.encode()
    return made


def from_text(of: Any, data: bytes) -> bytes:
    """Return the bytes of a message that a JSON text stands for: the `put` of a `Splice` that encodes."""
    from google.protobuf import json_format

    try:
        made: bytes = json_format.Parse(data, _class_of(of)()).SerializeToString()
    except (json_format.Error, TypeError, ValueError, RecursionError) as problem:
        raise Malformed(f"{data[:60]!r} is no {of.full_name} in Protobuf's JSON form: {problem}") from None
    return made
