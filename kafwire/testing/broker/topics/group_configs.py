"""Options of single groups, by Kafka's names. What is not set for a group is the brokers' option of that name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.testing.broker.topics.config_def import INT, ConfigDef, by_name

_HEARTBEAT, _SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
GROUP_CONFIGS = by_name(
    ConfigDef("consumer.assignment.interval.ms", INT, "1000", "time between two assignments", least=0),
    ConfigDef(_HEARTBEAT, INT, "5000", "time between a member's heartbeats", least=1),
    ConfigDef(_SESSION, INT, "45000", "how long a member is waited for", least=1),
)


def group_problem(configs: Mapping[str, str], broker: Callable[[str], int]) -> str | None:
    """What is wrong with a group's options, in Kafka's words; None: nothing. `broker`: a broker's option."""
    for name, value in configs.items():
        known = GROUP_CONFIGS.get(name)
        if known is None:
            return f"Unknown group config name: {name}"
        if problem := known.problem(value):
            return problem
    for name, value in configs.items():
        scope, _, rest = name.partition(".")
        least, most = f"group.{scope}.min.{rest}", f"group.{scope}.max.{rest}"
        if int(value) < broker(least):
            return f"{name} must be greater than or equal to {least}"
        if int(value) > broker(most):
            return f"{name} must be less than or equal to {most}"
    heartbeat, session = (int(configs.get(name, broker(f"group.{name}"))) for name in (_HEARTBEAT, _SESSION))
    return f"{_SESSION} must be greater than {_HEARTBEAT}" if session <= heartbeat else None
