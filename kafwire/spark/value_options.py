"""The options that decode values, checked on the driver and frozen.

Pure: no pyspark, no registry. `value_decoding` finds the schemas and decodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AVRO, JSON = "avro", "json"
ERROR, NULL, DEAD_LETTER = "error", "null", "deadLetter"
BAD_RECORD = "badRecord"  # the column of dead letters

# Arguments of `SchemaRegistry` by option.
_REGISTRY = {
    "schemaRegistry.url": "url",
    "schemaRegistry.username": "username",
    "schemaRegistry.password": "password",
    "schemaRegistry.ca.location": "ca_location",
    "schemaRegistry.ca.pem": "ca_pem",
    "schemaRegistry.timeout.ms": "timeout_s",
}
_SUBJECT, _SCHEMA, _BAD, _FORMAT = "valueSubject", "valueSchema", "badRecords", "valueFormat"
_OF_AVRO = (_SUBJECT, *_REGISTRY)
VALUE_OPTIONS = (_FORMAT, _SCHEMA, _BAD, *_OF_AVRO)
_FORMATS = {"binary": None, AVRO: AVRO, JSON: JSON}
_BAD_RECORDS = {name.lower(): name for name in (ERROR, NULL, DEAD_LETTER)}


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The format of values, "avro" or "json".

    `schema` is the reader's schema as a text: Avro's JSON, or columns in Spark's DDL. Without it, Avro's is the latest
    of `subject`, and JSON's is the declared type of the column. `registry` are arguments of `SchemaRegistry`.
    """

    kind: str
    schema: str | None
    subject: str | None
    bad: str
    registry: Mapping[str, Any] = field(repr=False)  # includes a password

    @property
    def is_avro(self) -> bool:
        """True for Avro with schema ids."""
        return self.kind == AVRO

    @property
    def keeps_bad(self) -> bool:
        """True if bad records become dead letters."""
        return self.bad == DEAD_LETTER


def value_format(own: Mapping[str, str], topics: Sequence[str]) -> ValueFormat | None:
    """Check the options of decoding; None for values that stay bytes. Raises `ConfigError`.

    Args:
        own: the source's options by their usual names.
        topics: the topics that the options name; none for a pattern.
    """
    kind = _choice(own, _FORMAT, _FORMATS)
    given = [name for name in VALUE_OPTIONS[1:] if name in own]
    if kind is None:
        if given:
            raise ConfigError(f"option {given[0]} needs valueFormat=avro or valueFormat=json")
        return None
    if kind == JSON:
        given = [name for name in _OF_AVRO if name in own]
        if given:
            raise ConfigError(f"option {given[0]} needs valueFormat=avro; valueFormat=json has no registry")
    for name in VALUE_OPTIONS:
        if name in own and not own[name].strip():
            raise ConfigError(f"option {name} is empty: give a value, or leave it out")
    schema = own[_SCHEMA].strip() if _SCHEMA in own else None
    return ValueFormat(
        kind=kind,
        schema=schema,
        subject=_subject(own, topics, schema) if kind == AVRO else None,
        bad=_choice(own, _BAD, _BAD_RECORDS) or ERROR,
        registry=_registry(own) if kind == AVRO else {},
    )


def _subject(own: Mapping[str, str], topics: Sequence[str], schema: str | None) -> str | None:
    if schema is not None:
        if _SUBJECT in own:
            raise ConfigError(f"options {_SCHEMA} and {_SUBJECT} both name the reader's schema: leave one of them out")
        from kafwire.avro.schema import parse

        try:
            parse(schema)
        except SchemaError as error:
            raise ConfigError(f"option {_SCHEMA}: {error}") from None
        return None
    if _SUBJECT in own:
        return own[_SUBJECT].strip()
    if len(topics) != 1:
        raise ConfigError(
            f"valueFormat=avro needs the option {_SUBJECT} or {_SCHEMA} for the reader's schema, unless it reads "
            "one topic: then the subject is <topic>-value"
        )
    return f"{topics[0]}-value"


def _registry(own: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {argument: own[name].strip() for name, argument in _REGISTRY.items() if name in own}
    if "url" not in found:
        raise ConfigError("valueFormat=avro needs the option schemaRegistry.url, such as http://localhost:8081")
    if ("username" in found) != ("password" in found):
        raise ConfigError("options schemaRegistry.username and schemaRegistry.password need each other")
    if "timeout_s" in found:
        text = found["timeout_s"]
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
            raise ConfigError(f"option schemaRegistry.timeout.ms={text!r}: milliseconds are needed, a number above 0")
        found["timeout_s"] = int(text) / 1000
    return found


def _choice(own: Mapping[str, str], option: str, allowed: Mapping[str, str | None]) -> str | None:
    """Return the meaning of a word; the first of `allowed` is the default."""
    word = own.get(option, next(iter(allowed))).strip().lower()
    if word not in allowed:
        raise ConfigError(f"option {option}={own[option]!r}: allowed: {', '.join(_spelled(allowed))}")
    return allowed[word]


def _spelled(allowed: Mapping[str, str | None]) -> list[str]:
    return [word if meaning is None else meaning for word, meaning in allowed.items()]
