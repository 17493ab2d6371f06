"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.config_resources import ConfigResource
    from kafwire.admin.configs import Append, ConfigEntry, ConfigSynonym, Subtract
    from kafwire.admin.records import ListedOffset
    from kafwire.admin.topic_descriptions import PartitionDescription, TopicDescription, TopicListing
    from kafwire.admin.topics import CreatedTopic, NewPartitions, NewTopic

__all__ = [
    "Append",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "ListedOffset",
    "NewPartitions",
    "NewTopic",
    "PartitionDescription",
    "Subtract",
    "TopicDescription",
    "TopicListing",
]

_CONFIGS = ("Append", "ConfigEntry", "ConfigSynonym", "Subtract")
_CONFIG_RESOURCES = ("ConfigResource",)
_RECORDS = ("ListedOffset",)
_TOPIC_DESCRIPTIONS = ("PartitionDescription", "TopicDescription", "TopicListing")
_TOPICS = ("CreatedTopic", "NewPartitions", "NewTopic")

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(_CONFIGS, "kafwire.admin.configs")
        | dict.fromkeys(_CONFIG_RESOURCES, "kafwire.admin.config_resources")
        | dict.fromkeys(_RECORDS, "kafwire.admin.records")
        | dict.fromkeys(_TOPIC_DESCRIPTIONS, "kafwire.admin.topic_descriptions")
        | dict.fromkeys(_TOPICS, "kafwire.admin.topics"),
    )
