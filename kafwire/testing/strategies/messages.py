"""Strategies of Kafka's messages: of one class, or of any; in one version, or in any."""

import functools
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar, overload
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kafwire.protocol import MESSAGES
from kafwire.protocol.spec import Field, Message, Request, Response, Struct
from kafwire.similar_names import similar
from kafwire.testing.strategies.wire import Wire, encoded

__all__ = ["Versioned", "api_messages", "message_class", "messages", "requests", "responses"]

M = TypeVar("M", bound=Message)
_MOST_TAG = 2**31 - 2

# A length of 127 takes one byte as a varint and 128 two. A compact length is one more than the length, and 16,383 is
# the first that needs three bytes; it is rare, as it makes slow tests slower. Longer values find little more.
_LONG = st.sampled_from([126, 127, 128, 300] * 4 + [16_383])
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | _LONG.map(lambda size: "x" * size)
_BYTES = st.binary(max_size=8) | _LONG.map(bytes)


def _integers(bits: int, *, signed: bool = True) -> SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


_PLAIN: dict[str, SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": _integers(16, signed=False),
    "int32": _integers(32),
    "uint32": _integers(32, signed=False),
    "int64": st.integers(-1000, 1000) | _integers(64) | st.sampled_from([(1 << 63) - 1, -(1 << 63)]),
    "float64": st.floats(allow_nan=False),
    "string": _TEXT,
    "bytes": _BYTES,
    "records": _BYTES,
    "uuid": st.binary(min_size=16, max_size=16).map(lambda data: UUID(bytes=data)),
}
_SIMPLEST: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": UUID(int=0)}


class Versioned(NamedTuple, Generic[M]):
    r"""A message and a version that can carry it. It unpacks as a pair.

    Args:
        message: the message.
        version: the version.

    Example:
        >>> from kafwire.testing.strategies import Versioned
        >>> bytes(Versioned(kafwire.protocol.MetadataRequest(topics=None), 1).data)
        b'\xff\xff\xff\xff'
    """

    message: M
    version: int

    @property
    def data(self) -> Wire:
        """The body, with the places of its lengths."""
        return encoded(self.message, self.version)


class _Options(NamedTuple):
    unknown_tags: bool
    max_elements: int
    records: SearchStrategy[Any]


def message_class(cls_or_name: type[M] | str) -> type[M]:
    """Return the class of a message, given the class or Kafka's name; ValueError for an unknown name."""
    if not isinstance(cls_or_name, str):
        return cls_or_name
    if cls_or_name not in MESSAGES:
        near = similar(cls_or_name, MESSAGES, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "kafwire.protocol.MESSAGES has all names"
        raise ValueError(f"{cls_or_name!r} is no message of Kafka; {hint}")
    found: Any = MESSAGES[cls_or_name]
    return found  # type: ignore[no-any-return]


@overload
def messages(
    cls_or_name: type[M],
    version: int,
    *,
    unknown_tags: bool = ...,
    max_elements: int = ...,
    records: SearchStrategy[Any] | None = ...,
) -> SearchStrategy[M]: ...


@overload
def messages(
    cls_or_name: str,
    version: int,
    *,
    unknown_tags: bool = ...,
    max_elements: int = ...,
    records: SearchStrategy[Any] | None = ...,
) -> SearchStrategy[Any]: ...


@overload
def messages(
    cls_or_name: type[M],
    version: None = ...,
    *,
    unknown_tags: bool = ...,
    max_elements: int = ...,
    records: SearchStrategy[Any] | None = ...,
    unstable: bool = ...,
    removed: bool = ...,
) -> SearchStrategy[Versioned[M]]: ...


@overload
def messages(
    cls_or_name: str,
    version: None = ...,
    *,
    unknown_tags: bool = ...,
    max_elements: int = ...,
    records: SearchStrategy[Any] | None = ...,
    unstable: bool = ...,
    removed: bool = ...,
) -> SearchStrategy[Versioned[Any]]: ...


def messages(
    cls_or_name: type[M] | str,
    version: int | None = None,
    *,
    unknown_tags: bool = True,
    max_elements: int = 3,
    records: SearchStrategy[Any] | None = None,
    unstable: bool = False,
    removed: bool = False,
) -> SearchStrategy[Any]:
    """Draw a message.

    A field that the version lacks has its default, so the message survives encoding and decoding unchanged. Values take
    their whole range, are null where null is allowed, and sometimes have lengths at which a varint grows. They are
    well-formed, not sensible: a topic's name may be empty, a port negative.

    Args:
        cls_or_name: a class of `kafwire.protocol`, or Kafka's name for it.
        version: a version of the message, unstable and removed ones included; None draws it.
        unknown_tags: also draw tagged fields that no version declares, in flexible versions, at most two per struct.
        max_elements: the most elements of an array of the message itself; nested arrays have at most two.
        records: a strategy for fields of record bytes (`bytes`, or None where null is allowed); None: any bytes.
            `records_blobs().map(lambda blob: blob.data)` draws valid ones.
        unstable: without `version`: also draw a version that Kafka marks unstable.
        removed: without `version`: also draw a version that Kafka 4 removed, which brokers before it serve. A message
            without another version is drawn in those.

    Returns:
        A strategy of messages; without `version`, of `Versioned`.

    Raises:
        ValueError: there is no such message or version.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import messages
        >>> @given(messages("MetadataRequest", 12))
        ... def test_decoding_undoes_encoding(message):
        ...     assert type(message).decode(message.encode(12), 12) == message
        >>> test_decoding_undoes_encoding()
    """
    cls = message_class(cls_or_name)
    options = _Options(unknown_tags, max_elements, _BYTES if records is None else records)
    if version is not None:
        if not cls.oldest_version <= version <= cls.max_version:
            raise ValueError(f"{cls.__name__} has versions {cls.oldest_version} to {cls.max_version}, not {version}")
        return _structs(cls, version, version >= cls.flexible_from, options)
    return _versions(cls, unstable=unstable, removed=removed).flatmap(lambda drawn: _versioned(cls, drawn, options))


def api_messages(
    names: Iterable[str] | None = None,
    *,
    unknown_tags: bool = True,
    max_elements: int = 3,
    records: SearchStrategy[Any] | None = None,
    unstable: bool = False,
    removed: bool = False,
) -> SearchStrategy[Versioned[Any]]:
    """Draw any message in any version: requests, responses, headers, and messages inside others.

    Args:
        names: Kafka's names, as in `kafwire.protocol.MESSAGES`; None: all.
        unknown_tags: as for `messages`.
        max_elements: as for `messages`.
        records: as for `messages`.
        unstable: as for `messages`.
        removed: as for `messages`; without `names` also draw the messages that Kafka 4 removed.

    Returns:
        A strategy of `Versioned`.

    Example:
        >>> from kafwire.testing.strategies import api_messages
        >>> strategy = api_messages(["ConsumerProtocolSubscription"])
    """
    chosen = _names(Message, removed) if names is None else sorted(names)
    return _any_of(chosen, unknown_tags, max_elements, records, unstable=unstable, removed=removed)


def requests(
    names: Iterable[str] | None = None,
    *,
    unknown_tags: bool = True,
    max_elements: int = 3,
    records: SearchStrategy[Any] | None = None,
    unstable: bool = False,
    removed: bool = False,
) -> SearchStrategy[Versioned[Request[Response]]]:
    """Draw any request in any version.

    Args:
        names: names of APIs ("Metadata"); None: all.
        unknown_tags: as for `messages`.
        max_elements: as for `messages`.
        records: as for `messages`.
        unstable: as for `messages`.
        removed: as for `messages`; without `names` also draw the messages that Kafka 4 removed.

    Returns:
        A strategy of `Versioned`.

    Example:
        >>> from kafwire.testing.strategies import requests
        >>> strategy = requests(["Metadata", "Fetch"])
    """
    return _any_of(
        _names(Request, removed, names), unknown_tags, max_elements, records, unstable=unstable, removed=removed
    )


def responses(
    names: Iterable[str] | None = None,
    *,
    unknown_tags: bool = True,
    max_elements: int = 3,
    records: SearchStrategy[Any] | None = None,
    unstable: bool = False,
    removed: bool = False,
) -> SearchStrategy[Versioned[Response]]:
    """Draw any response in any version.

    Args:
        names: names of APIs ("Metadata"); None: all.
        unknown_tags: as for `messages`.
        max_elements: as for `messages`.
        records: as for `messages`.
        unstable: as for `messages`.
        removed: as for `messages`; without `names` also draw the messages that Kafka 4 removed.

    Returns:
        A strategy of `Versioned`.

    Example:
        >>> from kafwire.testing.strategies import responses
        >>> strategy = responses(["Metadata", "Fetch"])
    """
    return _any_of(
        _names(Response, removed, names), unknown_tags, max_elements, records, unstable=unstable, removed=removed
    )


def _names(base: type[Message], removed: bool, names: Iterable[str] | None = None) -> list[str]:
    """Return the messages of APIs, or all of a kind; of these, those without a valid version only with `removed`."""
    if names is not None:
        return [name.removesuffix(base.__name__) + base.__name__ for name in names]
    return sorted(
        name
        for name, cls in MESSAGES.items()
        if issubclass(cls, base) and (removed or cls.min_version <= cls.max_version)
    )


def _any_of(
    names: list[str],
    unknown_tags: bool,
    max_elements: int,
    records: SearchStrategy[Any] | None,
    **versions: bool,
) -> SearchStrategy[Versioned[Any]]:
    if not names:
        raise ValueError("no message to choose from")
    for name in names:
        message_class(name)
    return st.sampled_from(names).flatmap(
        lambda name: messages(name, unknown_tags=unknown_tags, max_elements=max_elements, records=records, **versions)
    )


def _versions(cls: type[Message], *, unstable: bool, removed: bool) -> SearchStrategy[int]:
    lowest = cls.oldest_version if removed or cls.min_version > cls.max_version else cls.min_version
    highest = cls.max_version if unstable else getattr(cls, "max_stable_version", cls.max_version)
    return st.integers(lowest, max(lowest, highest))


@functools.lru_cache(maxsize=8192)
def _versioned(cls: type[M], version: int, options: _Options) -> SearchStrategy[Versioned[M]]:
    made: SearchStrategy[M] = _structs(cls, version, version >= cls.flexible_from, options)
    return st.builds(Versioned, message=made, version=st.just(version))


@functools.lru_cache(maxsize=8192)
def _structs(cls: type[Struct], version: int, flexible: bool, options: _Options) -> SearchStrategy[Any]:
    """Return a strategy of instances whose fields are those of `version`."""
    fields: dict[str, SearchStrategy[Any]] = {
        field.name: _values(field, version, flexible, options) for field in cls.__fields__ if version in field.versions
    }
    if flexible and options.unknown_tags:
        # Java refuses a tag that another version declares; kafwire keeps it like any unknown tag.
        taken = {field.tag for field in cls.__fields__}
        tags = st.integers(0, 127) | st.integers(0, _MOST_TAG)
        pairs = st.dictionaries(tags.filter(lambda tag: tag not in taken), st.binary(max_size=130), max_size=2)
        fields["unknown_tagged_fields"] = pairs.map(lambda chosen: tuple(sorted(chosen.items())))

    return st.fixed_dictionaries(fields).map(lambda values: cls(**values))


def _values(field: Field, version: int, flexible: bool, options: _Options) -> SearchStrategy[Any]:
    """Return a strategy of a field's values, simplest first: the default."""
    one: SearchStrategy[Any]
    if field.struct is not None:
        inner = options._replace(max_elements=min(options.max_elements, 2))
        one = _structs(field.struct, version, flexible, inner)
    else:
        one = options.records if field.kind == "records" else _PLAIN[field.kind]
    if field.array:
        one = st.lists(one, max_size=options.max_elements)
    # Hypothesis shrinks to the fewest choices, so a default that is one of several values stands by itself.
    nullable = version in field.nullable
    if nullable and field.default is None and not field.fresh:
        return st.none() | one
    if nullable and field.fresh:
        fresh: Any = list if field.array else field.struct
        return st.builds(fresh) | one | st.none()
    if nullable:
        return st.just(field.default) | one | st.none()
    if field.fresh or field.default is None or field.default == _SIMPLEST.get(field.kind, 0):
        return one
    return st.just(field.default) | one
