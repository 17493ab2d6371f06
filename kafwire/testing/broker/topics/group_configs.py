"""Options of single groups, by Kafka's names. What is not set for a group is the brokers' option of that name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafwire.testing.broker.topics.config_def import BOOLEAN, INT, LIST, LONG, STRING, ConfigDef, by_name, elements
from kafwire.testing.broker.topics.configs import BROKER_CONFIGS

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration:"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
RESET = "share.auto.offset.reset"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SCOPES = ("consumer", "share", "streams")
TAGS = "streams.rack.aware.assignment.tags"
ASSIGNOR = "streams.assignor.name"
ASSIGNORS = ("sticky",)
GROUP_CONFIGS = by_name(
    ConfigDef("consumer.assignment.interval.ms", INT, "1000", "time between two assignments", least=0),
    ConfigDef(
        "consumer.assignor.offload.enable",
        BOOLEAN,
        "true",
        "whether assignors run on threads of their own",
        is_internal=True,
    ),
    ConfigDef("consumer.heartbeat.interval.ms", INT, "5000", "time between a member's heartbeats", least=1),
    ConfigDef("consumer.session.timeout.ms", INT, "45000", "how long a member is waited for", least=1),
    ConfigDef("errors.deadletterqueue.copy.record.enable", BOOLEAN, "false", "whether dead letters have the record"),
    ConfigDef("errors.deadletterqueue.topic.name", STRING, "", "the topic of dead letters"),
    ConfigDef("share.assignment.interval.ms", INT, "1000", "time between two assignments", least=0),
    ConfigDef(
        "share.assignor.offload.enable",
        BOOLEAN,
        "true",
        "whether assignors run on threads of their own",
        is_internal=True,
    ),
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
    ConfigDef(
        "streams.acceptable.recovery.lag",
        LONG,
        "10000",
        "how far a warm task's state may be behind",
        least=0,
        is_internal=True,
    ),
    ConfigDef("streams.assignment.interval.ms", INT, "1000", "time between two assignments", least=0),
    ConfigDef(ASSIGNOR, STRING, "sticky", "the assignor of a streams group", broker_name="group.streams.assignors"),
    ConfigDef(
        "streams.assignor.offload.enable",
        BOOLEAN,
        "true",
        "whether assignors run on threads of their own",
        is_internal=True,
    ),
    ConfigDef("streams.heartbeat.interval.ms", INT, "5000", "time between a member's heartbeats", least=1),
    ConfigDef("streams.initial.rebalance.delay.ms", INT, "3000", "how long a new group waits for members", least=0),
    ConfigDef("streams.num.standby.replicas", INT, "0", "standby replicas of each task with a state", least=0),
    ConfigDef("streams.num.warmup.replicas", INT, "2", "warm-up replicas of tasks", least=0, is_internal=True),
    ConfigDef(TAGS, LIST, "", "tags that standby replicas are spread by"),
    ConfigDef("streams.session.timeout.ms", INT, "45000", "the longest time between heartbeats", least=1),
    ConfigDef(
        "streams.task.offset.interval.ms",
        INT,
        "60000",
        "time between reports of tasks' offsets",
        least=1,
        is_internal=True,
    ),
)


def broker_option(name: str) -> str | None:
    """The brokers' option that holds where a group's is not set; None: brokers have none."""
    found = GROUP_CONFIGS[name].broker_name or f"group.{name}"
    return found if found in BROKER_CONFIGS else None


def group_problem(configs: Mapping[str, str], broker: Callable[[str], int]) -> str | None:
    """What is wrong with a group's options, in Kafka's words; None: nothing. `broker`: a broker's option."""
    tags = elements(configs.get(TAGS, ""))
    for name, value in configs.items():
        known = GROUP_CONFIGS.get(name)
        if known is None:
            return f"Unknown group config name: {name}"
        if name == TAGS and len({*tags}) < len(tags):
            return f"{TAGS} must not contain duplicate tag keys."
        if problem := known.problem(value):
            return problem
        if name == RESET and not is_strategy(value):
            return _not_a_strategy(value)
    for name, value in configs.items():
        if GROUP_CONFIGS[name].kind == INT and (problem := _range_problem(name, int(value), broker)):
            return problem
    assignor = configs.get(ASSIGNOR, ASSIGNORS[0])
    if assignor not in ASSIGNORS:
        listed = ", ".join(ASSIGNORS)
        return f"{ASSIGNOR} '{assignor}' is not a registered task assignor. Registered assignors are: [{listed}]."
    for scope in _SCOPES:
        names = f"{scope}.heartbeat.interval.ms", f"{scope}.session.timeout.ms"
        heartbeat, session = (int(configs.get(name, broker(f"group.{name}"))) for name in names)
        if session <= heartbeat:
            return f"{names[1]} must be greater than {names[0]}"
    return None


def _range_problem(name: str, value: int, broker: Callable[[str], int]) -> str | None:
    """Why a number is outside of the brokers' bounds, which need not have both ends."""
    scope, _, rest = name.partition(".")
    ends = (f"group.{scope}.{end}.{rest.removeprefix('num.')}" for end in ("min", "max"))
    least, most = (broker(end) if end in BROKER_CONFIGS else None for end in ends)
    if (least is None or value >= least) and (most is None or value <= most):
        return None
    if most is None:
        return f"{name} must be greater than or equal to {least}"
    if least is None:
        return f"{name} must be less than or equal to {most}"
    return f"{name} must be in the range {least} to {most} inclusive."


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
