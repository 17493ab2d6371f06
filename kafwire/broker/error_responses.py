"""Responses with an error, for any API: built from a request without its handler, or from a handler's response.

The error is where clients of that API look for it (`response_levels.py`). An error for some of a request's topics or
partitions leaves the others to the handler.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafwire.broker import response_levels
from kafwire.broker.api.fetch import FetchSessions
from kafwire.broker.request import HANG_UP, NO_RESPONSE, Request, Response
from kafwire.broker.request_places import NameOf, index_of, places_of, topic_of
from kafwire.broker.response_levels import ELEMENT, PARTITION, TOPIC, Level, field_of
from kafwire.protocol.spec import Struct

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

FETCH_ERRORS = "fetch errors"  # the note in which Fetch's handler finds the failing places: `ErrorPlace`
_IDENTITIES = ("name", "topic", "topic_name", "topic_id", "group_id", "transactional_id")


@dataclass(frozen=True, slots=True)
class ErrorPlace:
    """An error, and the topic or partition that it is for. None: every topic, every partition."""

    code: int
    message: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def kind(self) -> str:
        """TOPIC or PARTITION, for an error of one of them."""
        if self.partition is not None:
            return PARTITION
        return "" if self.topic is None else TOPIC

    def concerns(self, topic: str | None, partition: int | None) -> bool:
        """True if the error is for this place; None stands for a topic or partition that is not known yet."""
        return (self.topic is None or topic is None or self.topic == topic) and (
            self.partition is None or partition is None or self.partition == partition
        )


def named(state: ClusterState) -> NameOf:
    """Return a function from topic ids to names."""

    def name_of(topic_id: uuid.UUID) -> str | None:
        topic = state.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    return name_of


def fetched_places(state: ClusterState, request: Request) -> list[tuple[str, int | None]]:
    """Return the partitions of a Fetch request: those that it names, and those of its session."""
    message, name_of = request.message, named(state)
    found = dict.fromkeys(places_of("Fetch", request.version, message, name_of))
    sessions: FetchSessions = state.part(FetchSessions)
    session = sessions.of(request.node).sessions.get(message.session_id) if message.session_epoch > 0 else None
    if session is not None:
        gone = {(topic.topic, topic.topic_id, i) for topic in message.forgotten_topics_data for i in topic.partitions}
        for name, topic_id, index in session.partitions.keys() - gone:
            known = name or name_of(topic_id)
            if known is not None:
                found[known, index] = None
    return list(found)


def can_respond_with(state: ClusterState, request: Request, error: ErrorPlace) -> bool:
    """True if a request is about the error's place, and its response has a field for the error."""
    api, version = request.name, request.version
    depth = response_levels.depth(api, version, error.code, kind=error.kind)
    if depth is None:
        return False
    if depth == 0:
        return True
    levels = response_levels.path(api, version)[:depth]
    if _is_known_later(levels, request.message):
        places: Iterable[tuple[str, int | None]] = places_of(api, version, request.message, named(state))
        places = places or [(topic.name, None) for topic in state.topics]
        return not any(level.kind for level in levels) or any(error.concerns(*place) for place in places)
    if api == "Fetch":
        return any(error.concerns(*place) for place in fetched_places(state, request))
    kind = response_levels.response_of(api)
    built, _ = _split(levels, request.message, kind, version, error, named(state))
    return bool(built)


def inject(state: ClusterState, request: Request, error: ErrorPlace) -> Response | None:
    """Return the response with the error; None: the handler gets the rest of the request, whose response is edited."""
    api, version = request.name, request.version
    depth = response_levels.depth(api, version, error.code, kind=error.kind)
    if depth is None:
        return None
    kind = response_levels.response_of(api)
    levels = response_levels.path(api, version)[:depth]
    if api == "Fetch" and depth:
        request.notes[FETCH_ERRORS] = error
        return None
    if depth == 0 and api != "Metadata":
        return _mark(kind(), version, error, "error_code", response_levels.BLANK.get(api, {}))
    if depth == 0 or _is_known_later(levels, request.message):
        request.edits.append(lambda response: _overwrite(response, levels, version, error, named(state)))
        return None
    built, rest = _split(levels, request.message, kind, version, error, named(state))
    return _take_out(request, levels, built, rest)


def overwrite(state: ClusterState, request: Request, error: ErrorPlace) -> None:
    """Put the error into the handler's response, after the request was executed."""
    api, version = request.name, request.version
    depth = response_levels.depth(api, version, error.code, kind=error.kind)
    levels = response_levels.path(api, version)[:depth]

    def edit(response: Response) -> Response:
        if response is NO_RESPONSE:
            return HANG_UP  # acks=0: the only way to report the error
        return _overwrite(response, levels, version, error, named(state))

    request.edits.append(edit)


def error_response(state: ClusterState, request: Request, error: ErrorPlace) -> Response:
    """Return the response to a request that is not executed; HANG_UP: the response has no field for an error.

    As in Kafka's `getErrorResponse`, the error is at the top, or at all requested elements.
    """
    api, version = request.name, request.version
    kind = response_levels.response_of(api)
    if api == "Produce" and request.message.acks == 0:
        return HANG_UP
    if field_of(kind, "error_code", version) is not None:
        return _mark(kind(), version, error, "error_code", response_levels.BLANK.get(api, {}))
    levels = response_levels.path(api, version)
    depth = response_levels.depth(api, version, error.code)
    if not levels or not depth:
        return HANG_UP
    response = kind()
    built, _ = _split(levels[:depth], request.message, kind, version, error, named(state))
    setattr(response, levels[0].array, built)
    return response


def refuse_elements(
    request: Request, code_of: Callable[[Any], int], *, depth: int = 0, message: str | None = None
) -> Response | None:
    """Fail elements of the array `depth` levels inwards with the codes of `code_of`; code 0: no error.

    Return the response if no element is left. Else return None: the handler gets the rest, and its response is edited.
    """
    api, version = request.name, request.version
    kind, levels = response_levels.response_of(api), response_levels.path(api, version)
    built, rest = _cut(levels, depth, request.message, kind, version, code_of, message)
    if not built:
        return None
    return _take_out(request, levels, built, rest)


def _take_out(
    request: Request, levels: tuple[Level, ...], built: list[Any], rest: Mapping[str, list[Any]]
) -> Response | None:
    """Leave `rest` of a request to its handler; `built` are the response's elements for the others.

    Return the response if nothing is left. Else return None: the handler's response gets the elements.
    """
    if request.name != "Metadata" and not any(rest.values()):
        if request.name == "Produce" and request.message.acks == 0:
            return HANG_UP  # the only way to report the error
        response = response_levels.response_of(request.name)()
        setattr(response, levels[0].array, built)
        return response
    request.message = _copy(request.message, rest)
    request.edits.append(lambda response: _merge(response, levels, built))
    return None


def _cut(
    levels: tuple[Level, ...],
    depth: int,
    struct: Any,
    kind: Any,
    version: int,
    code_of: Callable[[Any], int],
    message: str | None,
) -> tuple[list[Any], dict[str, list[Any]]]:
    level = levels[0]
    element_kind = next(each.struct for each in kind.__fields__ if each.name == level.array)
    built: list[Any] = []
    rest: dict[str, list[Any]] = {}
    for array in level.asked:
        if field_of(type(struct), array, version) is None or getattr(struct, array) is None:
            continue
        left = rest.setdefault(array, [])
        for element in getattr(struct, array):
            response = _response_element(level, element_kind, element, version)
            code = 0 if depth else code_of(element)
            if depth:
                inner, remaining = _cut(levels[1:], depth - 1, element, element_kind, version, code_of, message)
                if inner:
                    setattr(response, levels[1].array, inner)
                    built.append(response)
                if any(remaining.values()) or not inner:
                    left.append(_copy(element, remaining))
            elif not code:
                left.append(element)
            elif field_of(element_kind, level.code, version) is not None:
                built.append(_mark(response, version, ErrorPlace(code, message), level.code, level.blank))
            else:
                error = ErrorPlace(code, message)
                inner, _ = _split(levels[1:], element, element_kind, version, error, _no_name)
                setattr(response, levels[1].array, inner)
                built.append(response)
    return built, rest


def _no_name(topic_id: uuid.UUID) -> None:
    del topic_id


def _is_known_later(levels: tuple[Level, ...], message: Any) -> bool:
    """True if only the response has the elements: the request names none, and means all."""
    if any(not level.asked for level in levels):
        return True
    first = [getattr(message, name) for name in levels[0].asked]
    if all(each is None for each in first):
        return True
    if type(message).__name__ == "DescribeTopicPartitionsRequest":
        return not message.topics
    for group in getattr(message, "groups", None) or () if len(levels) > 1 else ():  # of OffsetFetch
        if any(getattr(group, name) is None for name in levels[1].asked):
            return True
    return False


# --- from a request


def _split(
    levels: tuple[Level, ...],
    struct: Any,
    kind: Any,
    version: int,
    error: ErrorPlace,
    name_of: NameOf,
    topic: str | None = None,
) -> tuple[list[Any], dict[str, list[Any]]]:
    """Return the response's elements with the error, and the request's arrays without their counterparts.

    `struct` is part of the request; `kind` is the class of its counterpart in the response.
    """
    level = levels[0]
    element_kind = next(each.struct for each in kind.__fields__ if each.name == level.array)
    built: list[Any] = []
    rest: dict[str, list[Any]] = {}
    for array in level.asked:
        if field_of(type(struct), array, version) is None:
            continue
        left = rest.setdefault(array, [])
        for element in getattr(struct, array) or ():
            its = topic_of(element, name_of) if level.kind == TOPIC else topic
            is_other = level.kind == TOPIC and its is None and error.topic is not None
            if is_other or not error.concerns(its, index_of(element) if level.kind == PARTITION else None):
                left.append(element)
                continue
            response = _response_element(level, element_kind, element, version)
            if len(levels) == 1:
                built.append(_mark(response, version, error, level.code, level.blank))
                continue
            inner, remaining = _split(levels[1:], element, element_kind, version, error, name_of, its)
            if inner:
                setattr(response, levels[1].array, inner)
                built.append(response)
            if any(remaining.values()) or not inner:
                left.append(_copy(element, remaining))
    return built, rest


def _response_element(level: Level, kind: Any, element: Any, version: int) -> Any:
    """Return the response's element for one of a request, without its results."""
    response = kind()
    for each in kind.__fields__:
        if version not in each.versions or each.name in (level.code, "error_message"):
            continue
        name = level.names.get(each.name, each.name)
        if name == ELEMENT:
            setattr(response, each.name, element)
        elif isinstance(element, Struct) and hasattr(element, name):
            value = getattr(element, name)
            if not each.array and each.struct is None:
                setattr(response, each.name, value)
            elif each.array and _is_same(each.struct, element, name):
                setattr(response, each.name, [each.struct.from_dict(inner.to_dict()) for inner in value])
    return response


def _is_same(kind: Any, element: Any, name: str) -> bool:
    """True if an array of a request has the same fields as that of the response, which then repeats it."""
    asked: Any = next(each.struct for each in type(element).__fields__ if each.name == name)
    return kind is not None and asked is not None and kind.__slots__ == asked.__slots__


def _copy(struct: Any, changes: Mapping[str, Any]) -> Any:
    values = {each.name: getattr(struct, each.name) for each in type(struct).__fields__}
    return type(struct)(**{**values, **changes})


# --- into a response


def _mark(struct: Any, version: int, error: ErrorPlace, code: str, blank: Mapping[str, Any]) -> Any:
    for name, value in blank.items():
        if field_of(type(struct), name, version) is not None:
            setattr(struct, name, value)
    setattr(struct, code, error.code)
    if error.message is not None and field_of(type(struct), "error_message", version) is not None:
        struct.error_message = error.message
    return struct


def _overwrite(
    response: Response, levels: tuple[Level, ...], version: int, error: ErrorPlace, name_of: NameOf
) -> Response:
    """Put the error into a response of the handler."""

    def walk(struct: Any, levels: tuple[Level, ...], topic: str | None) -> None:
        level = levels[0]
        for element in getattr(struct, level.array) or ():
            its = topic_of(element, name_of) if level.kind == TOPIC else topic
            if not error.concerns(its, index_of(element) if level.kind == PARTITION else None):
                continue
            if len(levels) > 1:
                walk(element, levels[1:], its)
                continue
            _mark(element, version, error, level.code, level.blank)
            if level.inner is not None:
                setattr(element, level.inner.array, [])

    if isinstance(response, Struct):
        if levels:
            walk(response, levels, None)
        else:
            _mark(response, version, error, "error_code", {})
    return response


def _merge(response: Response, levels: tuple[Level, ...], built: list[Any]) -> Response:
    """Put elements with errors beside those of the handler."""

    def walk(struct: Any, levels: tuple[Level, ...], built: list[Any]) -> None:
        elements = list(getattr(struct, levels[0].array) or ())
        for each in built:
            same = next((its for its in elements if _identity(its) == _identity(each)), None)
            if same is None or len(levels) == 1:
                elements.append(each)
            else:
                walk(same, levels[1:], getattr(each, levels[1].array))
        setattr(struct, levels[0].array, elements)

    if response is NO_RESPONSE:
        return HANG_UP  # acks=0: the only way to report the error
    if isinstance(response, Struct):
        walk(response, levels, built)
    return response


def _identity(element: Any) -> tuple[Any, ...]:
    return tuple(getattr(element, name, None) for name in _IDENTITIES)
