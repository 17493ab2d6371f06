"""The call of a serializer or a deserializer: chosen once, by its signature, for both directions.

The number of required parameters decides the call of a function, the names of parameters that of a method `serialize`
or `deserialize`. Both support the idioms of confluent-kafka, aiokafka and kafka-python; docs/guide/producing.md has the
table. May not hold: the serialization itself, or the handling of errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

__all__ = [
    "Arguments",
    "ColumnContext",
    "LoopContext",
    "RequestNeeded",
    "SerializationContext",
    "arguments_of_function",
    "arguments_of_method",
    "takes_ctx",
]

DATA, TOPIC, HEADERS, CTX = "data", "topic", "headers", "ctx"
_NAMED = (TOPIC, HEADERS, CTX)
_OURS = (DATA, TOPIC, HEADERS)
_THEIRS = (TOPIC, HEADERS, DATA)  # kafka-python's
_NAMES_OF_DATA = ("data", "value", "key", "obj", "object", "payload", "message", "msg")
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class SerializationContext:
    """The record of a key or value, for serializers with a parameter `ctx`, such as confluent-kafka's.

    Args:
        topic: the record's topic.
        field: "key" or "value".
        headers: a list of the record's headers. A serializer may append to it.
        partition: the record's partition; None for a send.
        offset: the record's offset; -1 for a send.
        row: its number in a column; None outside of columns.

    Example:
        >>> def serialize(value, ctx):
        ...     ctx.headers.append(("part", ctx.field.encode()))
        ...     return f"{ctx.topic}: {value}".encode()
        >>> kafwire.Producer("localhost:9092", value_serializer=serialize).close()
    """

    __slots__ = ("field", "headers", "offset", "partition", "row", "topic")
    may_block = True  # False: a format raises `RequestNeeded` instead of sending a request

    def __init__(
        self,
        topic: str,
        field: str,
        headers: list[tuple[str, bytes | None]],
        partition: int | None = None,
        offset: int = -1,
        row: int | None = None,
    ) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers
        self.partition = partition
        self.offset = offset
        self.row = row

    def of_row(self, row: int) -> SerializationContext:
        """Return the context of one row; the context of a single record returns itself.

        Args:
            row: the number of the row in the column.

        Returns:
            The context.
        """
        del row
        return self

    def __repr__(self) -> str:
        return f"SerializationContext(topic={self.topic!r}, field={self.field!r}, headers={self.headers!r})"


class RequestNeeded(Exception):
    """The conversion needs a request, and its context must not block: repeat it in another thread."""


class LoopContext(SerializationContext):
    """The record of a key or value that is converted in an event loop."""

    __slots__ = ()
    may_block = False


class ColumnContext(SerializationContext):
    """The records of a column of keys or values, for methods `serialize_column` and `deserialize_column`.

    For a send, `headers` is empty, and each record gets the headers that a serializer appends. For a read, it is empty
    and without effect; `header_rows` has the headers of the rows.

    Args:
        topic: the topic; "" if a column names the topics.
        field: "key" or "value".
        partition: the partition; None for a send.
        header_rows: the Arrow column `headers` of the rows, lists of (key, value); None without this column.
        offsets: the Arrow column `offset` of the rows; None without this column.

    Example:
        >>> from kafwire.serialization import ColumnContext
        >>> headers = pa.array([[("id", b"7")], []], pa.map_(pa.string(), pa.binary()))
        >>> ColumnContext("flights", "value", 0, headers).header_column("id").to_pylist()
        [b'7', None]
    """

    __slots__ = ("header_rows", "offsets")

    def __init__(
        self, topic: str, field: str, partition: int | None = None, header_rows: Any = None, offsets: Any = None
    ) -> None:
        super().__init__(topic, field, [], partition)
        self.header_rows = header_rows
        self.offsets = offsets

    def of_row(self, row: int) -> SerializationContext:
        """Return the context of one row.

        Args:
            row: the number of the row in the column.

        Returns:
            The context, with the row's headers, offset and number.
        """
        offset = -1 if self.offsets is None else self.offsets[row].as_py()
        return SerializationContext(self.topic, self.field, self._headers_of(row), self.partition, offset, row)

    def _headers_of(self, row: int) -> list[tuple[str, bytes | None]]:
        if self.header_rows is None:
            return self.headers
        found = self.header_rows[row].as_py() or []
        return [(each["key"], each["value"]) if isinstance(each, dict) else each for each in found]

    def header_column(self, name: str) -> Any:
        """Return the last header of a name in each row.

        Args:
            name: the header's key.

        Returns:
            A binary pyarrow.Array; null in rows without the header.

        Raises:
            ValueError: the rows have no column `headers`.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.header_rows
        if rows is None:
            raise ValueError("the schema ids are in headers, and the column headers is not read: choose it too")
        if pa.types.is_map(rows.type):
            rows = rows.cast(pa.list_(pa.struct([("key", rows.type.key_type), ("value", rows.type.item_type)])))
        pairs = rows.flatten()
        matching = pc.indices_nonzero(pc.fill_null(pc.equal(pairs.field("key"), name), False))
        parents = pc.list_parent_indices(rows).take(matching).to_pylist()
        last: list[int | None] = [None] * len(rows)
        for parent, at in zip(parents, matching.to_pylist(), strict=True):
            last[parent] = at
        return pairs.field("value").take(pa.array(last, pa.int64()))


class Arguments(NamedTuple):
    """The arguments of a function: by position, and by name. Each is DATA, TOPIC, HEADERS or CTX."""

    positions: tuple[str, ...]
    names: tuple[tuple[str, str], ...] = ()

    def is_data_alone(self) -> bool:
        """Return True if the function is called with only the key or value."""
        return self.positions == (DATA,) and not self.names

    def adapted(self, function: Callable[..., Any], part: str) -> Callable[[Any, str, Any], Any]:
        """Return a function (data, topic, headers) that calls `function`, for records' keys or values (`part`)."""
        if self.positions == _OURS and not self.names:
            return function
        if self.is_data_alone():
            return lambda data, topic, headers: function(data)  # noqa: ARG005
        if self.positions == (DATA, CTX) and not self.names:
            return lambda data, topic, headers: function(data, SerializationContext(topic, part, headers))
        if self.positions == _THEIRS and not self.names:
            return lambda data, topic, headers: function(topic, headers, data)
        positions, names = self

        def call(data: Any, topic: str, headers: Any) -> Any:
            given = {DATA: data, TOPIC: topic, HEADERS: headers}
            if CTX in positions or any(role == CTX for _, role in names):
                given[CTX] = SerializationContext(topic, part, headers)
            return function(*[given[role] for role in positions], **{name: given[role] for name, role in names})

        return call


def arguments_of_function(function: Callable[..., Any]) -> Arguments:
    """Return the arguments of a function's call; `ValueError` if it cannot be called.

    With a parameter `ctx`: (data, ctx). With three required ones, or `*args`: (data, topic, headers). With one
    required, or without a signature, as for some functions written in C: (data).
    """
    parameters = _parameters(function)
    if parameters is None:
        return Arguments((DATA,))
    required = [each for each in parameters if _is_required(each)]
    if any(each.name == CTX and not _is_variadic(each) for each in parameters):
        roles = {each.name: CTX if each.name == CTX else DATA for each in parameters if each in required}
        roles[CTX] = CTX
        found = _arranged(parameters, roles) if sum(role == DATA for role in roles.values()) == 1 else None
    elif any(each.kind not in _POSITIONAL for each in required):
        found = None
    elif any(each.kind is Parameter.VAR_POSITIONAL for each in parameters):
        found = Arguments(_OURS) if len(required) <= len(_OURS) else None
    else:
        found = {1: Arguments((DATA,)), len(_OURS): Arguments(_OURS)}.get(len(required))
    if found is None:
        raise ValueError(_refusal(parameters, "(value), (value, topic, headers) and (value, ctx)"))
    return found


def takes_ctx(function: Callable[..., Any]) -> bool:
    """Return True if a method for columns is called as (column, ctx), False for (column, topic)."""
    return any(each.name == CTX for each in _parameters(function) or ())


def arguments_of_method(owner: Any, name: str) -> Arguments:
    """Return the arguments of an object's method `serialize` or `deserialize`; `ValueError` if it cannot be called.

    Parameters named `topic`, `headers` and `ctx` get these, and the remaining one gets the data. If these names do not
    decide, the names of the overridden method decide.
    """
    parameters = _parameters(getattr(owner, name))
    if parameters is None:
        return Arguments((DATA,))
    found = _by_names(parameters) or _by_order(parameters, _overridden(owner, name))
    if found is None:
        raise ValueError(_refusal(parameters, f"{name}(data, topic, headers), each of the three by its name"))
    return found


def _parameters(function: Callable[..., Any]) -> list[Parameter] | None:
    """Return the parameters of a function; None for a function without a signature."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def _is_variadic(parameter: Parameter) -> bool:
    return parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _is_required(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and not _is_variadic(parameter)


def _role(name: str) -> str | None:
    """Return the role of a parameter's name; None for other names. Underscores around the name mark it as unused."""
    plain = name.strip("_").lower()
    return plain if plain in _NAMED else DATA if plain in _NAMES_OF_DATA else None


def _by_names(parameters: Sequence[Parameter]) -> Arguments | None:
    """Assign each parameter by its name, and the only other one as the data. None if there is not exactly one other."""
    plain = [each for each in parameters if not _is_variadic(each)]
    roles = {each.name: str(_role(each.name)) for each in plain if _role(each.name) in _NAMED}
    others = [each for each in plain if each.name not in roles]
    data = [each for each in others if _is_required(each)] or others
    if len(data) != 1 or len(set(roles.values())) < len(roles):
        return None
    return _arranged(parameters, {**roles, data[0].name: DATA})


def _by_order(parameters: Sequence[Parameter], overridden: Iterable[Sequence[Parameter]]) -> Arguments | None:
    """Assign three parameters with other names in the order of the overridden method, or in kafwire's order."""
    required = [each for each in parameters if _is_required(each)]
    is_open = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    if any(each.kind not in _POSITIONAL for each in required) or len(required) > len(_OURS):
        return None
    if len(required) < len(_OURS) and not is_open:
        return None
    roles = [_role(each.name) for each in required]
    for definition in overridden:
        known = _by_names(definition)
        if known is not None and _agrees(roles, known.positions):
            return known
    return next((Arguments(order) for order in (_OURS, _THEIRS) if _agrees(roles, order)), None)


def _agrees(roles: Sequence[str | None], order: Sequence[str]) -> bool:
    return len(roles) <= len(order) and all(role in (None, order[i]) for i, role in enumerate(roles))


def _overridden(owner: Any, name: str) -> Iterable[Sequence[Parameter]]:
    """Yield the parameters of a method's definitions in the base classes of its object."""
    for kind in type(owner).__mro__[1:]:
        function = vars(kind).get(name)
        if inspect.isfunction(function) and (parameters := _parameters(function)):
            yield parameters[1:]


def _arranged(parameters: Sequence[Parameter], roles: dict[str, str]) -> Arguments | None:
    """Return arguments for these parameters: by position up to the first one without a role, by name after it."""
    positions: list[str] = []
    names: list[tuple[str, str]] = []
    gap = False
    for each in parameters:
        if _is_variadic(each):
            continue
        role = roles.get(each.name)
        if role is None:
            if _is_required(each):
                return None
            gap = True
        elif each.kind in _POSITIONAL and not gap:
            positions.append(role)
        elif each.kind is Parameter.POSITIONAL_ONLY:
            return None
        else:
            names.append((each.name, role))
    return Arguments(tuple(positions), tuple(names))


def _refusal(parameters: Sequence[Parameter], forms: str) -> str:
    shown = ", ".join(str(each.replace(annotation=Parameter.empty)) for each in parameters)
    return f"it takes ({shown}), and is called as one of {forms}"
