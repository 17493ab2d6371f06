"""The subject of a key's or value's schema in a registry, by Confluent's strategies. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from kafwire.errors import ConfigError
from kafwire.serialization import SerializationContext

__all__ = ["Subject", "check_subject", "subject_of"]

# "topic": <topic>-key or <topic>-value. "record": the schema's name. "topic-record": <topic>-<the schema's name>.
Subject: TypeAlias = Literal["topic", "record", "topic-record"] | Callable[[SerializationContext, str], str]


def check_subject(subject: Subject) -> None:
    """Raise `ConfigError` unless `subject` is a strategy."""
    if subject not in ("topic", "record", "topic-record") and not callable(subject):
        raise ConfigError(
            f'subject is "topic", "record", "topic-record" or a function (ctx, record_name), not {subject!r}'
        )


def subject_of(subject: Subject, ctx: SerializationContext, record_name: str | None) -> str:
    """Return the subject.

    Args:
        subject: the strategy.
        ctx: the record.
        record_name: the schema's name; None if it has none.

    Raises:
        ConfigError: the strategy needs the topic, and a column names the topics; or the name, and there is none.
    """
    if callable(subject):
        return subject(ctx, record_name or "")
    if subject != "record" and not ctx.topic:
        raise ConfigError(
            f'subject="{subject}" needs the topic, and a column names the topics: give subject="record", or send each '
            "topic's rows by themselves"
        )
    if subject == "topic":
        return f"{ctx.topic}-{ctx.field}"
    if not record_name:
        raise ConfigError(f'subject="{subject}" needs the schema\'s name, and the schema has none: give it a title')
    return record_name if subject == "record" else f"{ctx.topic}-{record_name}"
