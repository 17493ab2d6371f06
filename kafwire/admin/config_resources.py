"""`ConfigResource`: the resources of Kafka that have a configuration."""

from __future__ import annotations

from typing import Any, Self

from kafwire.admin.arguments import node_of, one_of, text_of
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass

__all__ = ["TYPES", "ConfigResource", "resource_of"]

# Kafka's codes.
TYPES = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
_BY_CODE = {code: name for name, code in TYPES.items()}


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource with a configuration. Its class methods make one of each type.

    Args:
        type: "topic", "broker", "broker-logger", "client-metrics" or "group".
        name: the topic, the broker's id, the subscription of client metrics, or the group; "" for the options that hold
            for all brokers.

    Raises:
        ConfigError: the type is unknown, or the name is not of its form.

    Example:
        >>> from kafwire.admin import ConfigResource
        >>> ConfigResource.topic("flights"), str(ConfigResource.all_brokers())
        (ConfigResource(type='topic', name='flights'), 'all brokers')
    """

    __module__ = "kafwire.admin"
    type: str
    name: str

    def __post_init__(self) -> None:
        """Check both."""
        one_of("type", self.type, TYPES)
        if not (self.type == "broker" and self.name == ""):
            text_of(f"the name of the {self.type}", self.name)
        is_broker = self.type in ("broker", "broker-logger")
        if is_broker and self.name and not (self.name.isascii() and self.name.isdigit()):
            raise ConfigError(f"{self.type} {self.name!r}: the name must be a broker's id, a number")

    def __str__(self) -> str:
        """Return the words for it in the text of an error."""
        if self.type == "broker":
            return f"broker {self.name}" if self.name else "all brokers"
        return f"{self.type.replace('-', ' ')} {self.name if self.type == 'broker-logger' else repr(self.name)}"

    @classmethod
    def topic(cls, name: str) -> Self:
        """Return the configuration of a topic.

        Args:
            name: the topic.

        Returns:
            The resource.
        """
        return cls("topic", name)

    @classmethod
    def broker(cls, broker: int) -> Self:
        """Return the configuration of one broker.

        Args:
            broker: its id.

        Returns:
            The resource.
        """
        return cls("broker", str(node_of("broker", broker)))

    @classmethod
    def all_brokers(cls) -> Self:
        """Return the configuration that holds for all brokers of the cluster without one of their own.

        Returns:
            The resource.
        """
        return cls("broker", "")

    @classmethod
    def broker_logger(cls, broker: int) -> Self:
        """Return the log levels of one broker's loggers, which hold until the broker restarts.

        Args:
            broker: its id.

        Returns:
            The resource.
        """
        return cls("broker-logger", str(node_of("broker", broker)))

    @classmethod
    def client_metrics(cls, name: str) -> Self:
        """Return a subscription of clients' metrics (KIP-714).

        Args:
            name: the subscription.

        Returns:
            The resource.
        """
        return cls("client-metrics", name)

    @classmethod
    def group(cls, group: str) -> Self:
        """Return the configuration of a group.

        Args:
            group: the group's id.

        Returns:
            The resource.
        """
        return cls("group", group)


def resource_of(part: Any) -> ConfigResource | None:
    """Return the resource of a part of a response; None if it is of no known type or form."""
    try:
        return ConfigResource(_BY_CODE.get(part.resource_type, ""), part.resource_name)
    except ConfigError:
        return None
