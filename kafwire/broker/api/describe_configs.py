"""DescribeConfigs (32): options of topics and brokers, and their sources. See KIP-133, KIP-226, KIP-569."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.ports import host_and_port
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.client_metrics_configs import CLIENT_METRICS_CONFIGS
from kafwire.broker.topics.config_def import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    UNKNOWN,
    ConfigDef,
)
from kafwire.broker.topics.config_store import ConfigStore, Refusal, ResourceType, Source, Synonym
from kafwire.broker.topics.configs import DESCRIBED_CONFIGS, OF_AUTHORIZER, TOPIC_CONFIGS
from kafwire.broker.topics.group_configs import GROUP_CONFIGS
from kafwire.broker.topics.topics import name_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

_TYPES = {UNKNOWN: 0, BOOLEAN: 1, STRING: 2, INT: 3, SHORT: 4, LONG: 5, DOUBLE: 6, LIST: 7, CLASS: 8, PASSWORD: 9}


def handle(state: ClusterState, request: Request) -> Response:
    """Return the options of each resource."""
    response = protocol.DescribeConfigsResponse
    results = []
    for asked in request.message.resources:
        result = response.DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=""
        )
        try:
            result.configs = _describe(state, request, asked)
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.code, refusal.message
        results.append(result)
    return response(results=results)


def _describe(state: ClusterState, request: Request, asked: Any) -> list[Any]:
    store: ConfigStore = state.part(ConfigStore)
    name = asked.resource_name
    if asked.resource_type == ResourceType.TOPIC:
        if problem := name_problem(name):
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        topic = state.topics.find(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return [
            _entry(request, known, *store.of_topic(topic.configs, each))
            for each, known in TOPIC_CONFIGS.items()
            if _is_wanted(asked, each)
        ]
    if asked.resource_type == ResourceType.BROKER:
        if name:
            store.check_broker(name, request.node)
            listed = [each for each, known in DESCRIBED_CONFIGS.items() if not known.is_internal]
            names = dict.fromkeys([*listed, *store.static, *store.of_all, *store.of_one.get(request.node, ())])
            found = {each: store.of_broker(each, request.node) for each in names} | _own(state, request.node)
        else:
            found = {
                each: [Synonym(each, value, Source.DYNAMIC_DEFAULT_BROKER)] for each, value in store.of_all.items()
            }
        return [
            _entry(request, known, _value(each, places), places, is_fixed=not known.is_dynamic)
            for each, places in found.items()
            for known in [_described(each)]
            if _is_wanted(asked, each)
        ]
    if asked.resource_type == ResourceType.GROUP:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return [
            _entry(request, known, places[0].value, places)
            for each, known in GROUP_CONFIGS.items()
            for places in [store.of_group(name, each)]
            if _is_wanted(asked, each) and (not known.is_internal or places[0].source == Source.GROUP)
        ]
    if asked.resource_type == ResourceType.CLIENT_METRICS:
        return _metrics(store, request, asked)
    if asked.resource_type == ResourceType.BROKER_LOGGER:
        return _loggers(store, request, asked)
    raise Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {asked.resource_type}")


def _metrics(store: ConfigStore, request: Request, asked: Any) -> list[Any]:
    """Return the options of a subscription of clients' metrics, which need not exist."""
    if not asked.resource_name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    own = store.of_metrics.get(asked.resource_name, {})
    found = []
    for name, known in CLIENT_METRICS_CONFIGS.items():
        value = known.normalized(own.get(name, known.default))
        places = [Synonym(name, value, Source.CLIENT_METRICS)] if name in own else []
        if _is_wanted(asked, name):
            found.append(_entry(request, known, value, places))
    return found


def _loggers(store: ConfigStore, request: Request, asked: Any) -> list[Any]:
    """Return the levels of a broker's loggers, which Kafka gives neither a type nor a text."""
    if not asked.resource_name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    store.check_broker(asked.resource_name, request.node, or_all="")
    entry = protocol.DescribeConfigsResponse.DescribeConfigsResourceResult
    return [
        entry(name=name, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER)
        for name, level in store.loggers(request.node).levels().items()
        if _is_wanted(asked, name)
    ]


def _own(state: ClusterState, number: int) -> dict[str, list[Synonym]]:
    """Return the options with the broker's id and addresses."""
    node = state.nodes[number]
    addresses = ",".join(f"{name}://{host_and_port(*place)}" for name, place in node.addresses.items())
    given = {"node.id": f"{number}", "broker.id": f"{number}", "process.roles": "broker,controller"}
    if addresses:
        given |= {"advertised.listeners": addresses, "listeners": addresses}
    found = {}
    for name, value in given.items():
        known = DESCRIBED_CONFIGS[name]
        found[name] = [Synonym(name, value, Source.STATIC_BROKER)]
        if known.has_default:
            found[name].append(Synonym(name, known.default, Source.DEFAULT))
    return found


def _value(name: str, places: list[Synonym]) -> str | None:
    """Return the value; None if only another option, which holds in its place, has one."""
    return places[0].value if places and places[0].name == name else None


def _described(name: str) -> ConfigDef:
    """Return a broker's option; an unknown one, or one of the authorizer, has no type and a hidden value."""
    known = DESCRIBED_CONFIGS.get(name)
    return ConfigDef(name, UNKNOWN, "", "") if known is None or name in OF_AUTHORIZER else known


def _is_wanted(asked: Any, name: str) -> bool:
    return not asked.configuration_keys or name in asked.configuration_keys


def _entry(
    request: Request, known: ConfigDef, value: str | None, places: list[Synonym], *, is_fixed: bool = False
) -> Any:
    response = protocol.DescribeConfigsResponse
    entry = response.DescribeConfigsResourceResult(
        name=known.name,
        value=None if known.is_sensitive else value,
        is_sensitive=known.is_sensitive,
        read_only=is_fixed,
        config_source=places[0].source if places else Source.DEFAULT,
        config_type=_TYPES[known.kind],
        documentation=known.doc if request.message.include_documentation else None,
    )
    if request.message.include_synonyms:
        entry.synonyms = [
            response.DescribeConfigsSynonym(
                name=each.name, value=None if known.is_sensitive else each.value, source=each.source
            )
            for each in places
        ]
    return entry
