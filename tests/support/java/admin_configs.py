"""Calls about configurations, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

from typing import Any

import kafwire
from kafwire.admin import Append, ConfigEntry, ConfigResource, Subtract
from kafwire.admin.config_resources import TYPES
from kafwire.admin.configs import Change
from tests.support.deadlines import until
from tests.support.java.admin_comparison import Comparison, OnError, Scene

Changes = dict[ConfigResource, dict[str, Change]]


def named(resource: ConfigResource) -> str:
    """A resource as JavaAdmin.java shows it."""
    return ":".join(pair(resource))


def pair(resource: ConfigResource) -> tuple[str, str]:
    return resource.type.upper().replace("-", "_"), resource.name


# --- descriptions


def resources(scene: Scene) -> list[ConfigResource]:
    return [
        ConfigResource.topic(scene.existing),
        ConfigResource.topic(f"{scene.name}-none"),
        ConfigResource.broker(1),
        ConfigResource.all_brokers(),
        *groups(scene),
        ConfigResource.client_metrics(scene.name),
    ]


def groups(scene: Scene) -> list[ConfigResource]:
    """The group of the scene; none in the oldest Kafka, whose Java has no options of groups."""
    return [] if scene.is_oldest else [ConfigResource.group(scene.name)]


def described(admin: kafwire.Admin, scene: Scene, on_error: OnError, *, synonyms: bool) -> dict[str, Any]:
    found = admin.describe_configs(
        resources(scene), synonyms=synonyms, on_error=lambda key, error: on_error(named(key), error)
    )
    return {named(resource): entries for resource, entries in found.items()}


def entries_of(found: dict[str, ConfigEntry]) -> dict[str, Any]:
    return {
        entry.name: {
            "value": entry.value,
            "source": entry.source,
            "flags": [entry.is_default, entry.is_sensitive, entry.is_read_only],
            "type": entry.type.upper(),
            "synonyms": [[each.name, each.value, each.source] for each in entry.synonyms],
        }
        for entry in found.values()
    }


def entries_of_java(found: dict[str, Any]) -> dict[str, Any]:
    return {
        entry["name"]: {
            "value": entry["value"],
            "source": entry["source"],
            "flags": [entry["isDefault"], entry["isSensitive"], entry["isReadOnly"]],
            "type": entry["type"],
            "synonyms": [[each["name"], each["value"], each["source"]] for each in entry["synonyms"]],
        }
        for entry in found["entries"]
    }


def levels(admin: kafwire.Admin, _: Scene, __: OnError) -> dict[str, Any]:
    logger = ConfigResource.broker_logger(1)
    return {named(logger): admin.describe_configs([logger])[logger]}


# --- changes


def changes(scene: Scene) -> Changes:
    return {
        ConfigResource.topic(scene.existing): {
            "retention.ms": "5000",
            "segment.ms": None,
            "cleanup.policy": Append(["compact"]),
        },
        ConfigResource.topic(f"{scene.name}-none"): {"retention.ms": "5000"},
        ConfigResource.broker(1): {"node.id": "7"},
        ConfigResource.broker_logger(1): {"no.such.logger": "INFO"},
        **{group: {"consumer.session.timeout.ms": "46000"} for group in groups(scene)},
        ConfigResource.client_metrics(scene.name): {"interval.ms": "99"},
        ConfigResource.client_metrics(f"{scene.name}-list"): {"metrics": Subtract(["a"])},
    }


def operation(change: Change) -> tuple[str, str | None]:
    if isinstance(change, Append | Subtract):
        return type(change).__name__.upper(), ",".join(change.values)
    return ("DELETE", None) if change is None else ("SET", str(change))


def changes_for_java(scene: Scene) -> list[list[Any]]:
    return [
        [*pair(resource), name, *operation(change)]
        for resource, options in changes(scene).items()
        for name, change in options.items()
    ]


def altered(admin: kafwire.Admin, scene: Scene, on_error: OnError, *, validate_only: bool) -> dict[str, None]:
    failed: dict[ConfigResource, Any] = {}
    admin.alter_configs(changes(scene), validate_only=validate_only, on_error=failed.__setitem__)
    for resource, error in failed.items():
        on_error(named(resource), error)
    return {named(resource): None for resource in changes(scene) if resource not in failed}


def own_options(admin: kafwire.Admin, scene: Scene) -> list[dict[str, str | None]]:
    kinds = [ConfigResource.topic(scene.existing), *groups(scene)]
    found = admin.describe_configs(kinds)
    return [
        {name: entry.value for name, entry in found[kind].items() if entry.source.startswith("DYNAMIC")}
        for kind in kinds
    ]


# --- lists


def listed(admin: kafwire.Admin, _: Scene, __: OnError, *types: str) -> dict[str, Any]:
    return {"all": sorted(pair(each) for each in admin.list_config_resources(types or None))}


def listed_by_java(found: list[dict[str, Any]]) -> list[list[str]]:
    return sorted([each["type"], each["name"]] for each in found)


def name_in_tests(resource: list[str]) -> str | None:
    """The name of a resource that a test creates; None of a broker's."""
    kind, name = resource
    return None if kind.startswith("BROKER") else name


def kinds_for_java(*types: str) -> list[str]:
    return [kind.upper().replace("-", "_") for kind in types]


def with_client_metrics(scene: Scene) -> None:
    resource = ConfigResource.client_metrics(scene.name)
    with kafwire.Admin(scene.bootstrap) as admin:
        admin.alter_configs({resource: {"interval.ms": "60000"}})
        until(lambda: resource in admin.list_config_resources(["client-metrics"]), "the broker lists the resource")


def described_options(*, synonyms: bool) -> Comparison:
    return Comparison(
        "describeConfigs",
        lambda scene: {"resources": [*map(pair, resources(scene))], "synonyms": synonyms},
        lambda admin, scene, on_error: described(admin, scene, on_error, synonyms=synonyms),
        ours=entries_of,
        theirs=entries_of_java,
        aspect="synonyms" if synonyms else "",
        prepare=Scene.topic,
    )


def altered_options(*, only: bool) -> Comparison:
    return Comparison(
        "incrementalAlterConfigs",
        lambda scene: {"changes": changes_for_java(scene), "validateOnly": only},
        lambda admin, scene, on_error: altered(admin, scene, on_error, validate_only=only),
        aspect="validate_only" if only else "",
        prepare=Scene.topic,
        twins=True,
        after=own_options,
    )


def listed_resources(types: tuple[str, ...]) -> Comparison:
    return Comparison(
        "listConfigResources",
        lambda _: {"types": kinds_for_java(*(types or TYPES))},
        lambda admin, scene, on_error: listed(admin, scene, on_error, *types),
        theirs=listed_by_java,
        aspect="_".join(types),
        prepare=Scene.topic,
        own_by=name_in_tests,
    )


COMPARISONS = [
    *(described_options(synonyms=synonyms) for synonyms in (False, True)),
    Comparison(
        "describeConfigs",
        lambda _: {"resources": [["BROKER_LOGGER", "1"]]},
        levels,
        ours=entries_of,
        theirs=entries_of_java,
        aspect="loggers",
    ),
    *(altered_options(only=only) for only in (False, True)),
    Comparison(
        "listClientMetricsResources",
        lambda _: {},
        lambda admin, scene, on_error: listed(admin, scene, on_error, "client-metrics"),
        theirs=lambda found: [["CLIENT_METRICS", each["name"]] for each in found],
        prepare=with_client_metrics,
        own_by=name_in_tests,
    ),
    *(listed_resources(types) for types in ((), ("topic", "broker"))),
]
