"""The options that are set while a cluster runs: their values and sources, and the checks of changes.

A broker's option is set for all brokers or for one (KIP-226). An option of one broker holds in the whole cluster,
because all brokers share one state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kafwire.broker.topics.client_metrics_configs import metrics_problem
from kafwire.broker.topics.config_def import LIST, ConfigDef, elements
from kafwire.broker.topics.configs import COARSER, DESCRIBED_CONFIGS, TOPIC_CONFIGS
from kafwire.broker.topics.group_configs import GROUP_CONFIGS, broker_option, group_problem
from kafwire.broker.topics.loggers import LEVELS, ROOT, Loggers
from kafwire.broker.topics.topic_configs import topic_problem
from kafwire.broker.topics.topics import name_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState
    from kafwire.broker.topics.topics import Topic


class ResourceType(IntEnum):
    """The kind of resource that options belong to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """The source of a value."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Operation(IntEnum):
    """A change of an option."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Synonym(NamedTuple):
    """A place that may set a value; the first one in a list counts."""

    name: str
    value: str
    source: Source


class Refusal(Exception):
    """A change of options that was refused, with the error code and the reason."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


_SHARING = ("log.retention.ms",)  # described together with the coarser options that may hold instead

# An option's name, an operation, and its value.
Change = tuple[str, Operation, str | None]


class ConfigStore:
    """All options that are set: `state.part(ConfigStore)`. `state.configs` has the brokers' values."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.static: dict[str, str] = dict(state.configs)  # the options with which the brokers were started
        self.of_all: dict[str, str] = {}
        self.of_one: dict[int, dict[str, str]] = {}
        self.of_metrics: dict[str, dict[str, str]] = {}  # of subscriptions of clients' metrics
        self._loggers: dict[tuple[int, int], Loggers] = {}  # by broker and its epoch: a restart resets them

    # --- values

    def of_topic(self, configs: Mapping[str, str], name: str) -> tuple[str, list[Synonym]]:
        """Return a topic's value of an option, and its sources; `configs` are the topic's own options."""
        known = TOPIC_CONFIGS[name]
        found = self.of_broker(known.broker_name) if known.broker_name else []
        value = self._state.config(known.broker_name) if known.broker_name else known.default
        if name in configs:
            value = configs[name]
            found.insert(0, Synonym(name, known.normalized(value), Source.TOPIC))
        return known.normalized(value), found

    def effective(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Return all options of a topic whose own options are `configs`."""
        return {
            name: configs[name]
            if name in configs
            else self._state.config(known.broker_name)
            if known.broker_name
            else known.default
            for name, known in TOPIC_CONFIGS.items()
        }

    def of_broker(self, name: str, node: int | None = None) -> list[Synonym]:
        """Return the sources of a broker's option; the first one counts. None: any broker."""
        nodes = self.of_one if node is None else [node]
        places = [(self.of_one.get(each, {}), Source.DYNAMIC_BROKER) for each in nodes]
        places += [(self.of_all, Source.DYNAMIC_DEFAULT_BROKER), (self.static, Source.STATIC_BROKER)]
        names = [name, *COARSER.get(name, ())] if name in _SHARING else [name]
        found = []
        for place, source in places:
            found += [Synonym(each, _normalized(each, place[each]), source) for each in names if each in place]
        known = DESCRIBED_CONFIGS.get(name)
        if known is not None and known.kafka_default and not found:
            found = [Synonym(name, known.default, Source.STATIC_BROKER)]
        defaults = [DESCRIBED_CONFIGS[each] for each in names if each in DESCRIBED_CONFIGS]
        found += [Synonym(k.name, k.kafka_default or k.default, Source.DEFAULT) for k in defaults if k.has_default]
        return found

    # --- changes

    def alter_topic(self, name: str, changes: list[Change], *, validate_only: bool, replace: bool = False) -> None:
        """Change options of a topic. `replace`: remove all other options.

        Raises:
            Refusal: the change is not allowed; nothing was changed.
        """
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        topic = self._state.topics.find(name)
        old = topic.configs if topic is not None else {}
        new = changed({} if replace else old, changes, TOPIC_CONFIGS, self.effective(old))
        if problem := name_problem(name):
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        if problem := topic_problem(new, self.effective(new)):
            raise Refusal(ErrorCode.INVALID_CONFIG, problem)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if not validate_only:
            self._set_topic(topic, new)

    def _set_topic(self, topic: Topic, configs: dict[str, str]) -> None:
        topic.configs = configs
        self._state.topics.on_change(topic.name)
        for partition in topic.partitions:
            partition.notify(-1)  # waiting requests may have another condition now

    def alter_broker(
        self, name: str, changes: list[Change], *, asked: int, validate_only: bool, replace: bool = False
    ) -> None:
        """Change options of broker `asked`, which got the request; of all brokers if `name` is empty.

        Raises:
            Refusal: the change is not allowed; nothing was changed.
        """
        if name and self._node(name, "Node id") != asked:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {asked}, but received {name}")
        old = self.of_one.get(asked, {}) if name else self.of_all
        values = {each: found[0].value for each in DESCRIBED_CONFIGS if (found := self.of_broker(each, asked))}
        new = changed({} if replace else old, changes, DESCRIBED_CONFIGS, values)
        fixed = [each for each in new if (known := DESCRIBED_CONFIGS.get(each)) is not None and not known.is_dynamic]
        if fixed:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        for each, value in new.items():
            known = DESCRIBED_CONFIGS.get(each)
            if known is not None and (problem := known.problem(value)):
                raise Refusal(ErrorCode.INVALID_REQUEST, problem)
        if validate_only:
            return
        name = str(asked) if name else ""
        self._state.journal.write("config", name, new or None)
        self.restore(name, new)

    def restore(self, name: str, configs: dict[str, str]) -> None:
        """Replace the options that were set for one broker, or for all brokers if `name` is empty."""
        if name:
            self.of_one[int(name)] = configs
        else:
            self.of_all = configs
        self._state.configs = {**self.static, **self.of_all}
        for its in self.of_one.values():
            self._state.configs.update(its)

    @staticmethod
    def _node(name: str, what: str) -> int:
        try:
            return int(name)
        except ValueError:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{what} must be an integer, but it is: {name}") from None

    def check_broker(self, name: str, asked: int, *, or_all: str = " or empty string,") -> None:
        """Raise a `Refusal` if `name` is not the broker `asked`, which got the request."""
        if self._node(name, "Broker id") != asked:
            text = f"Unexpected broker id, expected {asked}{or_all} but received {name}"
            raise Refusal(ErrorCode.INVALID_REQUEST, text)

    def alter_group(self, name: str, changes: list[Change], *, validate_only: bool, replace: bool = False) -> None:
        """Change options of a group, which need not exist.

        Raises:
            Refusal: the change is not allowed; nothing was changed.
        """
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        old = self._state.group_configs.get(name, {})
        new = changed({} if replace else old, changes, {}, {})  # Kafka's controller knows no lists among them
        if problem := group_problem(new, self._state.config_int):
            raise Refusal(ErrorCode.INVALID_CONFIG, problem)
        if not validate_only:
            self._state.journal.write("group config", name, new or None)
            self._state.group_configs[name] = new

    def of_group(self, group: str, name: str) -> list[Synonym]:
        """Return the sources of a group's option; the first one counts."""
        own = self._state.group_configs.get(group, {})
        places = [Synonym(name, own[name], Source.GROUP)] if name in own else []
        known = GROUP_CONFIGS[name]
        option = broker_option(name)
        if option is None:
            return [*places, Synonym(name, known.default, Source.DEFAULT)]
        return [*places, *self.of_broker(option)]

    def alter_metrics(self, name: str, changes: list[Change], *, validate_only: bool, replace: bool = False) -> None:
        """Change options of a subscription of clients' metrics, which need not exist.

        Raises:
            Refusal: the change is not allowed; nothing was changed.
        """
        old = self.of_metrics.get(name, {})
        new = changed({} if replace else old, changes, {}, {})  # Kafka's controller knows no lists among them
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        if problem := metrics_problem(new):
            raise Refusal(*problem)
        if validate_only:
            return
        self._state.journal.write("client metrics", name, new or None)
        if new:
            self.of_metrics[name] = new
        else:
            self.of_metrics.pop(name, None)

    def loggers(self, asked: int) -> Loggers:
        """Return the loggers of broker `asked`, which got the request."""
        return self._loggers.setdefault((asked, self._state.nodes[asked].epoch), Loggers())

    def alter_loggers(self, name: str, changes: list[Change], *, asked: int, validate_only: bool) -> None:
        """Change levels of the loggers of broker `asked`, which got the request.

        Raises:
            Refusal: the change is not allowed; nothing was changed.
        """
        if self._node(name, "Node id") != asked:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {asked}, but received {name}")
        loggers = self.loggers(asked)
        for logger, operation, level in changes:
            if operation not in (Operation.SET, Operation.DELETE):
                text = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
                raise Refusal(ErrorCode.INVALID_REQUEST, text)
            if logger not in loggers.levels():
                raise Refusal(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
            if operation == Operation.SET and level not in LEVELS:
                raise Refusal(
                    ErrorCode.INVALID_CONFIG,
                    f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(LEVELS)}",
                )
            if operation == Operation.DELETE and logger == ROOT:
                text = f"Removing the log level of the {ROOT} logger is not allowed"
                raise Refusal(ErrorCode.INVALID_REQUEST, text)
        if not validate_only:
            for logger, operation, level in changes:
                loggers.set(logger, level if operation == Operation.SET else None)


def _normalized(name: str, value: str) -> str:
    known = DESCRIBED_CONFIGS.get(name)
    return value if known is None else known.normalized(value)


def changed(
    old: Mapping[str, str], changes: list[Change], known: Mapping[str, ConfigDef], values: Mapping[str, str]
) -> dict[str, str]:
    """Return options after changes. `values`: the values that hold, to which APPEND and SUBTRACT apply."""
    new = dict(old)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            new.pop(name, None)
            continue
        assert value is not None
        if operation == Operation.SET:
            new[name] = value
            continue
        if name not in known or known[name].kind != LIST:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation.name} to key {name} because its type is not LIST.",
            )
        now = elements(new.get(name, values.get(name, "")))
        if operation == Operation.APPEND:
            now += [each for each in dict.fromkeys(elements(value)) if each not in now]
        else:
            now = [each for each in now if each not in elements(value)]
        new[name] = ",".join(now)
    return new
