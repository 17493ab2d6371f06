"""Options of single groups, by Kafka's names. What is not set for a group is the brokers' option of that name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafwire.testing.broker.topics.config_def import BOOLEAN, INT, STRING, ConfigDef, by_name

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration:"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
RESET = "share.auto.offset.reset"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SCOPES = ("consumer", "share")
GROUP_CONFIGS = by_name(
    ConfigDef("consumer.assignment.interval.ms", INT, "1000", "time between two assignments", least=0),
    ConfigDef("consumer.assignor.offload.enable", BOOLEAN, "true", "whether assignors run on threads of their own"),
    ConfigDef("consumer.heartbeat.interval.ms", INT, "5000", "time between a member's heartbeats", least=1),
    ConfigDef("consumer.session.timeout.ms", INT, "45000", "how long a member is waited for", least=1),
    ConfigDef("errors.deadletterqueue.copy.record.enable", BOOLEAN, "false", "whether dead letters have the record"),
    ConfigDef("errors.deadletterqueue.topic.name", STRING, "", "the topic of dead letters"),
    ConfigDef("share.assignment.interval.ms", INT, "1000", "time between two assignments", least=0),
    ConfigDef("share.assignor.offload.enable", BOOLEAN, "true", "whether assignors run on threads of their own"),
    ConfigDef(RESET, STRING, LATEST, "where a share group begins: earliest, latest, by_duration:P1DT2H"),
    ConfigDef("share.delivery.count.limit", INT, "5", "how often a record is delivered", least=2, most=10),
    ConfigDef("share.heartbeat.interval.ms", INT, "5000", "time between a member's heartbeats", least=1),
    ConfigDef(
        "share.isolation.level",
        STRING,
        READ_UNCOMMITTED,
        "whether a share group gets records of open and aborted transactions",
        choices=(READ_COMMITTED, READ_UNCOMMITTED),
    ),
    ConfigDef("share.partition.max.record.locks", INT, "2000", "records in flight", least=100, most=10000),
    ConfigDef(
        "share.record.lock.duration.ms", INT, "30000", "how long a member has a record", least=1000, most=3600000
    ),
    ConfigDef("share.renew.acknowledge.enable", BOOLEAN, "true", "whether members may ask for more time"),
    ConfigDef("share.session.timeout.ms", INT, "45000", "how long a member is waited for", least=1),
)


def group_problem(configs: Mapping[str, str], broker: Callable[[str], int]) -> str | None:
    """What is wrong with a group's options, in Kafka's words; None: nothing. `broker`: a broker's option."""
    for name, value in configs.items():
        known = GROUP_CONFIGS.get(name)
        if known is None:
            return f"Unknown group config name: {name}"
        if problem := known.problem(value):
            return problem
        if name == RESET and not is_strategy(value):
            return _not_a_strategy(value)
    for name, value in configs.items():
        if GROUP_CONFIGS[name].kind != INT:
            continue
        scope, _, rest = name.partition(".")
        least, most = f"group.{scope}.min.{rest}", f"group.{scope}.max.{rest}"
        if int(value) < broker(least):
            return f"{name} must be greater than or equal to {least}"
        if int(value) > broker(most):
            return f"{name} must be less than or equal to {most}"
    for scope in _SCOPES:
        names = f"{scope}.heartbeat.interval.ms", f"{scope}.session.timeout.ms"
        heartbeat, session = (int(configs.get(name, broker(f"group.{name}"))) for name in names)
        if session <= heartbeat:
            return f"{names[1]} must be greater than {names[0]}"
    return None


def _not_a_strategy(value: str) -> str:
    return (
        f"Invalid value {value} for configuration {RESET}: Invalid value `{value}` for configuration {RESET}."
        " The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def is_strategy(text: str) -> bool:
    """Whether it is a value of `share.auto.offset.reset`."""
    if text.startswith(BY_DURATION):
        try:
            duration_ms(text.removeprefix(BY_DURATION))
        except ValueError:
            return False
        return True
    return text in (EARLIEST, LATEST)


def duration_ms(text: str) -> int:
    """The milliseconds of a duration such as `P1DT2H30M`, as ISO 8601 writes it.

    Raises:
        ValueError: it is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"not a duration: {text}")
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
