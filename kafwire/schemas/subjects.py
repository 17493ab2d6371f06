"""Subjects: the name in the registry of the schemas of a record's key or value.

The strategies are Confluent's, by public sources: `TopicNameStrategy`, `RecordNameStrategy` and
`TopicRecordNameStrategy` of its serializers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from kafwire.errors import ConfigError
from kafwire.serialization import SerializationContext

__all__ = ["Subject", "check_subject", "subject_of"]

# "topic": `flights-value`. "record": the record's full name. "topic-record": `flights-us.Flight`. A function gets the
# context and the record's full name ("" for a schema without a name).
Subject: TypeAlias = Literal["topic", "record", "topic-record"] | Callable[[SerializationContext, str], str]


def check_subject(subject: Subject) -> None:
    """Raise `ConfigError` unless `subject` is a strategy or a function."""
    if subject not in ("topic", "record", "topic-record") and not callable(subject):
        raise ConfigError(f'subject is "topic", "record", "topic-record" or a function (ctx, name), not {subject!r}')


def subject_of(strategy: Subject, ctx: SerializationContext, record_name: str) -> str:
    """Return the subject of a key or value.

    Args:
        strategy: the strategy.
        ctx: the record.
        record_name: the full name of the schema's record or message; "" without one.

    Returns:
        The subject.

    Raises:
        ConfigError: the strategy needs a name that there is not, or a function returned no text.

    Example:
        >>> from kafwire.schemas.subjects import subject_of
        >>> from kafwire.serialization import SerializationContext
        >>> ctx = SerializationContext("flights", "value", [])
        >>> [subject_of(each, ctx, "us.Flight") for each in ("topic", "record", "topic-record")]
        ['flights-value', 'us.Flight', 'flights-us.Flight']
    """
    if callable(strategy):
        made = strategy(ctx, record_name)
        if not isinstance(made, str) or not made:
            raise ConfigError(f"the function subject returned {made!r}: the subject is a text")
        return made
    if strategy != "record" and not ctx.topic:
        raise ConfigError(f'subject="{strategy}" needs one topic: write to topics one by one, or use subject="record"')
    if strategy == "topic":
        return f"{ctx.topic}-{ctx.field}"
    if not record_name:
        raise ConfigError(f'subject="{strategy}" needs a schema with a name: a record, an enum, a fixed or a title')
    return record_name if strategy == "record" else f"{ctx.topic}-{record_name}"
