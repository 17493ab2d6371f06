"""Configurations of topics, brokers, their loggers, client metrics and groups: describe, alter and list them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from kafwire import protocol
from kafwire.admin.arguments import chosen_of, flag_of, names_of, text_of, timeout_ms_of, value_of
from kafwire.admin.asking import error_of
from kafwire.admin.config_resources import TYPES, ConfigResource, resource_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import AdminRequests
from kafwire.admin.routes import ANY
from kafwire.cluster.requirements import is_lacking, needs, newer_needed
from kafwire.errors import ConfigError, KafkaError, ProtocolError
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["Append", "ConfigCalls", "ConfigEntry", "ConfigSynonym", "Subtract"]

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

# Kafka's names, by its codes.
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
VALUE_TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that may set an option's value; the first one that does so counts.

    Args:
        name: the option in that place, for example `log.retention.ms` for a topic's `retention.ms`.
        value: its value; None if it is hidden.
        source: the place, as in `ConfigEntry`.

    Example:
        >>> from kafwire.admin import ConfigSynonym
        >>> ConfigSynonym("log.retention.ms", "604800000", "DEFAULT_CONFIG").value
        '604800000'
    """

    __module__ = "kafwire.admin"
    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """An option of a resource, and its value.

    Args:
        name: the option.
        value: its value; None if it has none, or is hidden.
        source: the place that sets it, in Kafka's words: "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG",
            "DYNAMIC_DEFAULT_BROKER_CONFIG" (all brokers), "STATIC_BROKER_CONFIG" (a broker's file),
            "DYNAMIC_BROKER_LOGGER_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG", "DYNAMIC_GROUP_CONFIG", "DEFAULT_CONFIG",
            or "UNKNOWN".
        is_sensitive: True for passwords, and for options unknown to the broker, whose values it hides.
        is_read_only: True if only a restart of the broker changes it.
        type: "boolean", "string", "int", "short", "long", "double", "list", "class", "password" or "unknown".
        synonyms: all places that may set it, in their order; empty unless the call asked for them.
        documentation: the broker's text about it; None unless the call asked for it.

    Example:
        >>> from kafwire.admin import ConfigEntry
        >>> ConfigEntry("retention.ms", "60000", "DYNAMIC_TOPIC_CONFIG", False, False, "long", (), None).is_default
        False
    """

    __module__ = "kafwire.admin"
    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    type: str
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """True if the value is Kafka's own default."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class Append:
    """Values to add to a list among the options of a topic or broker, for `Admin.alter_configs`.

    Args:
        values: the values. The broker ignores those that the list has already.

    Example:
        >>> from kafwire.admin import Append
        >>> Append(["compact"]).values
        ['compact']
    """

    __module__ = "kafwire.admin"
    values: Iterable[str]


@dataclass(frozen=True, slots=True)
class Subtract:
    """Values to remove from a list among the options of a topic or broker, for `Admin.alter_configs`.

    Args:
        values: the values. The broker ignores those that the list does not have.

    Example:
        >>> from kafwire.admin import Subtract
        >>> Subtract(["delete"]).values
        ['delete']
    """

    __module__ = "kafwire.admin"
    values: Iterable[str]


# A new value; None: the default again.
Change: TypeAlias = str | int | float | bool | Append | Subtract | None


class ConfigCalls(AdminRequests):
    """The calls about configurations."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None,
        synonyms: bool,
        documentation: bool,
        timeout: float | None,
    ) -> Work[Outcomes[ConfigResource, dict[str, ConfigEntry]]]:
        """Describe the configuration of each resource."""
        keys = _resources(resources)
        wanted = None if names is None else names_of("names", names, 'names=["retention.ms"]')
        if wanted == []:
            raise ConfigError("names=[]: name at least one option, or leave it out for all options")
        request: Any = protocol.DescribeConfigsRequest
        flags = {
            "include_synonyms": flag_of("synonyms", synonyms),
            "include_documentation": flag_of("documentation", documentation),
        }

        async def send(
            broker: int, asked: list[ConfigResource]
        ) -> Mapping[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
            parts = [
                request.DescribeConfigsResource(
                    resource_type=TYPES[each.type], resource_name=each.name, configuration_keys=wanted
                )
                for each in asked
            ]
            response = await route.call(broker, request(resources=parts, **flags))
            return {
                key: _error(result, key, "describing", "DescribeConfigs")
                or {entry.name: _entry(entry) for entry in result.configs}
                for key, result in _known(response.results)
            }

        route = self._given(_broker)
        return self._work(keys, route, send, "describing configurations", timeout_ms_of(timeout))

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Change]],
        *,
        validate_only: bool,
        timeout: float | None,
    ) -> Work[Outcomes[ConfigResource, None]]:
        """Change options of each resource, and leave its others."""
        if not isinstance(changes, Mapping):
            raise ConfigError(f"changes={changes!r}: write a dict: {{ConfigResource.topic(name): {{option: value}}}}")
        asked = {key: _altered(key, changes[key]) for key in _resources(changes)}
        request: Any = protocol.IncrementalAlterConfigsRequest
        only = flag_of("validate_only", validate_only)

        async def send(broker: int, keys: list[ConfigResource]) -> Mapping[ConfigResource, KafkaError | None]:
            message = request(resources=[asked[key] for key in keys], validate_only=only)
            response = await route.call(broker, message)
            return {
                key: _error(result, key, "altering", "IncrementalAlterConfigs")
                for key, result in _known(response.responses)
            }

        route = self._given(_broker)
        return self._work(asked, route, send, "altering configurations", timeout_ms_of(timeout))

    def list_config_resources(
        self, types: Iterable[str] | None, *, timeout: float | None
    ) -> Work[list[ConfigResource]]:
        """List the resources of some types."""
        wanted = chosen_of("types", TYPES if types is None else types, list(TYPES))
        request: Any = protocol.ListConfigResourcesRequest

        what = f"listing resources of the types {', '.join(wanted)}"
        message = request(resource_types=[TYPES[each] for each in wanted])

        async def send(broker: int) -> list[ConfigResource] | KafkaError:
            try:
                response = await route.call(broker, message)
            except ProtocolError as error:
                if not is_lacking(error, request):
                    raise
                if wanted != ["client-metrics"]:
                    raise newer_needed(error, what, "4.1") from None
                with needs(request, "listing client metrics", "3.7"):
                    response = await route.call(broker, request())  # version 0 lists only client metrics
            refusal = error_of(response, what, "ListConfigResources")
            if refusal is not None:
                return refusal
            found = map(resource_of, response.config_resources)
            return [each for each in found if each is not None and each.type in wanted]

        route = self._any()
        return self._single(route, send, "listing resources", timeout_ms_of(timeout))


def _known(results: Iterable[Any]) -> Iterator[tuple[ConfigResource, Any]]:
    """Pair the parts of a response with their resources, without those of unknown types."""
    for result in results:
        key = resource_of(result)
        if key is not None:
            yield key, result


def _broker(resource: ConfigResource) -> int:
    """Return the broker that serves requests about a resource."""
    return int(resource.name) if resource.type in ("broker", "broker-logger") and resource.name else ANY


def _resources(resources: Iterable[ConfigResource]) -> list[ConfigResource]:
    """Return a list of resources without repetitions."""
    example = "[ConfigResource.topic(name)]"
    if isinstance(resources, str | ConfigResource) or not isinstance(resources, Iterable):
        raise ConfigError(f"resources={resources!r}: write a list: {example}")
    found = list(resources)
    for each in found:
        if not isinstance(each, ConfigResource):
            raise ConfigError(f"{each!r} is not a resource: write ConfigResource.topic(name), or another type")
    return list(dict.fromkeys(found))


def _error(result: Any, key: ConfigResource, what: str, api: str) -> KafkaError | None:
    names = {key.type: key.name} if key.type in ("topic", "group") else {}
    return error_of(result, f"{what} the configuration of {key}", api, **names)


def _entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        SOURCES.get(entry.config_source, "UNKNOWN"),
        entry.is_sensitive,
        entry.read_only,
        VALUE_TYPES.get(entry.config_type, "unknown"),
        tuple(ConfigSynonym(each.name, each.value, SOURCES.get(each.source, "UNKNOWN")) for each in entry.synonyms),
        entry.documentation or None,
    )


def _altered(key: ConfigResource, changes: Mapping[str, Change]) -> Any:
    """Return the part of an IncrementalAlterConfigs request about a resource."""
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{key}: {changes!r}: write a dict with the options: {{option: value}}")
    request: Any = protocol.IncrementalAlterConfigsRequest
    configs = []
    for name, change in changes.items():
        operation, value = _operation(f"{key}: {text_of('option', name)}", change)
        configs.append(request.AlterableConfig(name=name, config_operation=operation, value=value))
    return request.AlterConfigsResource(resource_type=TYPES[key.type], resource_name=key.name, configs=configs)


def _operation(what: str, change: Change) -> tuple[int, str | None]:
    """Return the operation and the value of a change. The value may be a password, so errors do not have it."""
    if change is None:
        return DELETE, None
    if isinstance(change, Append | Subtract):
        kind = type(change).__name__
        values = names_of(f"{what}: {kind}", change.values, f'{kind}(["compact"])')
        return APPEND if isinstance(change, Append) else SUBTRACT, ",".join(values)
    return SET, value_of(what, change, "a text, a number, None, Append or Subtract")
