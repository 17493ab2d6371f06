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

AVRO, JSON, TEXT = "avro", "json", "text"
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
_BAD = "badRecords"
KEY_OPTIONS = ("keyFormat", "keySchema", "keySubject")
VALUE_OPTIONS = ("valueFormat", "valueSchema", _BAD, "valueSubject", *_REGISTRY)
_FORMATS = {"binary": None, AVRO: AVRO, JSON: JSON, TEXT: TEXT}
_BAD_RECORDS = {name.lower(): name for name in (ERROR, NULL, DEAD_LETTER)}


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The format of values or keys, "avro", "json" or "text".

    `schema` is the reader's schema as a text: Avro's JSON, or columns in Spark's DDL. Without it, Avro's is the latest
    of `subject`, and JSON's is the declared type of the column. `registry` are arguments of `SchemaRegistry`. `part` is
    "key" or "value".
    """

    kind: str
    schema: str | None
    subject: str | None
    bad: str
    registry: Mapping[str, Any] = field(repr=False)  # includes a password
    part: str = "value"

    @property
    def is_avro(self) -> bool:
        """True for Avro with schema ids."""
        return self.kind == AVRO

    @property
    def keeps_bad(self) -> bool:
        """True if bad records become dead letters."""
        return self.bad == DEAD_LETTER


def formats(own: Mapping[str, str], topics: Sequence[str]) -> tuple[ValueFormat | None, ValueFormat | None]:
    """Check the options of decoding; return the formats of keys and values, None for bytes. Raises `ConfigError`.

    Args:
        own: the source's options by their usual names.
        topics: the topics that the options name; none for a pattern.
    """
    for name in (*KEY_OPTIONS, *VALUE_OPTIONS):
        if name in own and not own[name].strip() and not name.endswith("Format"):
            raise ConfigError(f"option {name} is empty: give a value, or leave it out")
    kinds = {part: _choice(own, f"{part}Format", _FORMATS) for part in ("key", "value")}
    if _BAD in own and not any(kinds.values()):
        raise ConfigError(f"option {_BAD} needs valueFormat=avro, valueFormat=json or valueFormat=text")
    given = [name for name in _REGISTRY if name in own]
    if given and AVRO not in kinds.values():
        part = "value" if kinds["value"] or not kinds["key"] else "key"
        kind = kinds[part] or "binary"
        raise ConfigError(f"option {given[0]} needs {part}Format=avro; {part}Format={kind} has no registry")
    return _format(own, topics, "key", kinds["key"]), _format(own, topics, "value", kinds["value"])


def _format(own: Mapping[str, str], topics: Sequence[str], part: str, kind: str | None) -> ValueFormat | None:
    schema_option, subject_option = f"{part}Schema", f"{part}Subject"
    given = [name for name in (schema_option, subject_option) if name in own]
    if kind is None:
        if given:
            raise ConfigError(f"option {given[0]} needs {part}Format=avro or {part}Format=json")
        return None
    if kind == TEXT and given:
        raise ConfigError(f"option {given[0]} needs {part}Format=avro; {part}Format=text has no schema")
    if kind == JSON and subject_option in own:
        raise ConfigError(f"option {subject_option} needs {part}Format=avro; {part}Format=json has no registry")
    schema = own[schema_option].strip() if schema_option in own else None
    return ValueFormat(
        kind=kind,
        schema=schema,
        subject=_subject(own, topics, schema, part) if kind == AVRO else None,
        bad=_choice(own, _BAD, _BAD_RECORDS) or ERROR,
        registry=_registry(own, part) if kind == AVRO else {},
        part=part,
    )


def _subject(own: Mapping[str, str], topics: Sequence[str], schema: str | None, part: str) -> str | None:
    schema_option, subject_option = f"{part}Schema", f"{part}Subject"
    if schema is not None:
        if subject_option in own:
            raise ConfigError(
                f"options {schema_option} and {subject_option} both name the reader's schema: leave one of them out"
            )
        from kafwire.avro.schema import parse

        try:
            parse(schema)
        except SchemaError as error:
            raise ConfigError(f"option {schema_option}: {error}") from None
        return None
    if subject_option in own:
        return own[subject_option].strip()
    if len(topics) != 1:
        raise ConfigError(
            f"{part}Format=avro needs the option {subject_option} or {schema_option} for the reader's schema, unless "
            f"it reads one topic: then the subject is <topic>-{part}"
        )
    return f"{topics[0]}-{part}"


def _registry(own: Mapping[str, str], part: str) -> dict[str, Any]:
    found: dict[str, Any] = {argument: own[name].strip() for name, argument in _REGISTRY.items() if name in own}
    if "url" not in found:
        raise ConfigError(f"{part}Format=avro needs the option schemaRegistry.url, such as http://localhost:8081")
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
