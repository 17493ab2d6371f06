"""Options of single groups, with Kafka's names. If a group's option is not set, the brokers' option holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafwire.broker.topics.config_def import INT, STRING, ConfigDef, by_name, elements, from_table
from kafwire.broker.topics.configs import BROKER_CONFIGS

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration:"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
RESET = "share.auto.offset.reset"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SCOPES = ("consumer", "share", "streams")
TAGS = "streams.rack.aware.assignment.tags"
ASSIGNOR = "streams.assignor.name"
ASSIGNORS = ("sticky",)
_TABLE = """
consumer.assignment.interval.ms int dynamic,0.. 1000 time between two assignments
consumer.assignor.offload.enable boolean dynamic,internal true whether assignors run on threads of their own
consumer.heartbeat.interval.ms int dynamic,1.. 5000 time between a member's heartbeats
consumer.session.timeout.ms int dynamic,1.. 45000 how long a member may send no heartbeat
errors.deadletterqueue.copy.record.enable boolean dynamic false whether dead letters have the record
errors.deadletterqueue.topic.name string dynamic "" the topic of dead letters
share.assignment.interval.ms int dynamic,0.. 1000 time between two assignments
share.assignor.offload.enable boolean dynamic,internal true whether assignors run on threads of their own
share.auto.offset.reset string dynamic latest where a share group begins: earliest, latest, by_duration:P1DT2H
share.delivery.count.limit int dynamic,2..10 5 how often a record is delivered
share.heartbeat.interval.ms int dynamic,1.. 5000 time between a member's heartbeats
share.partition.max.record.locks int dynamic,100..10000 2000 records in flight
share.record.lock.duration.ms int dynamic,1000..3600000 30000 how long a record stays acquired by a member
share.renew.acknowledge.enable boolean dynamic true whether members may extend the acquisition of records
share.session.timeout.ms int dynamic,1.. 45000 how long a member may send no heartbeat
streams.acceptable.recovery.lag long dynamic,internal,0.. 10000 how far a warm task's state may be behind
streams.assignment.interval.ms int dynamic,0.. 1000 time between two assignments
streams.assignor.offload.enable boolean dynamic,internal true whether assignors run on threads of their own
streams.heartbeat.interval.ms int dynamic,1.. 5000 time between a member's heartbeats
streams.initial.rebalance.delay.ms int dynamic,0.. 3000 how long a new group waits for members
streams.num.standby.replicas int dynamic,0.. 0 standby replicas of each task with a state
streams.num.warmup.replicas int dynamic,internal,0.. 2 warm-up replicas of tasks
streams.rack.aware.assignment.tags list dynamic "" tags that standby replicas are spread by
streams.session.timeout.ms int dynamic,1.. 45000 the longest time between heartbeats
streams.task.offset.interval.ms int dynamic,internal,1.. 60000 time between reports of tasks' offsets
"""
GROUP_CONFIGS = by_name(
    *from_table(_TABLE),
    ConfigDef(
        "share.isolation.level",
        STRING,
        READ_UNCOMMITTED,
        "whether a share group gets records of open and aborted transactions",
        choices=(READ_COMMITTED, READ_UNCOMMITTED),
    ),
    ConfigDef(ASSIGNOR, STRING, "sticky", "the assignor of a streams group", broker_name="group.streams.assignors"),
)


def broker_option(name: str) -> str | None:
    """Return the brokers' option that holds if a group's is not set; None if brokers have none."""
    found = GROUP_CONFIGS[name].broker_name or f"group.{name}"
    return found if found in BROKER_CONFIGS else None


def group_problem(configs: Mapping[str, str], broker: Callable[[str], int]) -> str | None:
    """Return the fault of a group's options, in Kafka's words; None: no fault. `broker`: returns a broker's option."""
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
    """Return the reason if a number is outside the brokers' bounds, of which one may be missing; otherwise None."""
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
    """True if the text is a value of `share.auto.offset.reset`."""
    if text.startswith(BY_DURATION):
        try:
            duration_ms(text.removeprefix(BY_DURATION))
        except ValueError:
            return False
        return True
    return text in (EARLIEST, LATEST)


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as `P1DT2H30M`, as ISO 8601 writes it.

    Raises:
        ValueError: the text is no duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"not a duration: {text}")
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
