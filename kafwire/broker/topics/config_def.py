"""The definition of an option of brokers or topics: type, default, allowed values. See Kafka's `ConfigDef`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

INT, LONG, BOOLEAN, STRING, LIST, DOUBLE = "int", "long", "boolean", "string", "list", "double"
SHORT, CLASS, PASSWORD, UNKNOWN = "short", "class", "password", "unknown"
_RANGES = {SHORT: 1 << 15, INT: 1 << 31, LONG: 1 << 63}


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One option.

    Args:
        broker_name: the broker's option that holds where a topic's is not set.
        least, most: bounds of a number.
        choices: all allowed values; for a list, all allowed elements.
        is_dynamic: a broker's option can be altered while the broker runs.
        is_listed: Kafka names the broker's option where it describes a topic's that is not set. It does not
            if another option, such as `log.retention.hours`, gives the default.
        special: a value below `least` that is allowed too.
        has_default: Kafka describes a default; without one the value is null until it is set.
        kafka_default: Kafka's own default, where this broker is started with another value.
        is_internal: Kafka describes the option only where it is set.
    """

    name: str
    kind: str
    default: str
    doc: str
    broker_name: str = ""
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    is_dynamic: bool = False
    is_listed: bool = True
    special: int | None = None
    has_default: bool = True
    kafka_default: str = ""
    is_internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        """True if the value is never shown."""
        return self.kind in (PASSWORD, UNKNOWN)

    def problem(self, value: str | None) -> str | None:
        """Return the fault of a value, in words; None if the value is valid."""
        if value is None:
            return f"Null value not supported for topic configs: {self.name}"
        value = value.strip()
        where = f"Invalid value {value} for configuration {self.name}"
        if self.kind in (SHORT, INT, LONG, DOUBLE):
            number = self._number(value)
            if number is None:
                return f"{where}: Not a number of type {self.kind.upper()}"
            where = f"Invalid value {number} for configuration {self.name}"
            if self.least is not None and number < self.least and number != self.special:
                return f"{where}: {self._bounds()}"
            if self.most is not None and number > self.most:
                return f"{where}: Value must be no more than {self.most}"
        if self.kind == BOOLEAN and value.lower() not in ("true", "false"):
            return f"{where}: Expected value to be either true or false"
        if self.choices:
            wrong = [each for each in (elements(value) if self.kind == LIST else [value]) if each not in self.choices]
            if wrong:
                return (
                    f"Invalid value {wrong[0]} for configuration {self.name}: "
                    f"String must be one of: {', '.join(self.choices)}"
                )
        return None

    def _bounds(self) -> str:
        if self.special is not None:
            return f"Value must be between {self.least} and {self.most} or equal to {self.special}"
        return f"Value must be at least {self.least}"

    def _number(self, value: str) -> float | None:
        try:
            if self.kind == DOUBLE:
                return float(value)
            number = int(value)
        except ValueError:
            return None
        limit = _RANGES[self.kind]
        return number if -limit <= number < limit else None

    def normalized(self, value: str) -> str:
        """Return the value as Kafka shows it."""
        value = value.strip()
        if self.kind == BOOLEAN:
            return value.lower()
        if self.kind == LIST:
            return ",".join(elements(value))
        if self.kind in (SHORT, INT, LONG):
            return str(int(value))
        return str(float(value)) if self.kind == DOUBLE else value


def elements(value: str) -> list[str]:
    """Return the elements of a list, split as Kafka does."""
    return [each.strip() for each in value.split(",")] if value.strip() else []


def by_name(*configs: ConfigDef) -> Mapping[str, ConfigDef]:
    """Return options by their names."""
    return {config.name: config for config in configs}


def from_table(table: str, doc: str = "") -> Iterator[ConfigDef]:
    """Yield the options of a table, a row each: name, type, flags, default, description.

    Commas separate the flags: `fixed` or `dynamic`; `internal`; the bounds `least..most`, where one of them
    may be missing. A default of `""` is empty; `-`, or a missing default, means that Kafka has none.

    Args:
        table: the rows.
        doc: the description of a row without one.

    Example:
        >>> (config,) = from_table("share.delivery.count.limit int dynamic,2..10 5 deliveries of a record")
        >>> config.least, config.most, config.default, config.is_dynamic
        (2, 10, '5', True)
    """
    for row in table.strip().splitlines():
        parts = row.split(maxsplit=4)
        name, kind, flags, default, text = [*parts, *("-", doc)[len(parts) - 3 :]]
        when, *more = flags.split(",")
        bounds = next((each for each in more if ".." in each), "..")
        least, most = (int(end) if end else None for end in bounds.split(".."))
        yield ConfigDef(
            name,
            kind,
            "" if default in ("-", '""') else default,
            text,
            least=least,
            most=most,
            is_dynamic=when == "dynamic",
            has_default=default != "-",
            is_internal="internal" in more,
        )
