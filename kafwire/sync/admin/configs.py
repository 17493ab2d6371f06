"""The calls of `Admin` about configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.config_resources import ConfigResource
from kafwire.admin.configs import Change, ConfigEntry
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace

OnError = Callable[[ConfigResource, KafkaError], object]


class ConfigAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Describe the configurations of resources.

        The configuration of one broker, or of its loggers, comes from that broker; all others from any broker.

        Args:
            resources: the resources, for example `[ConfigResource.topic("flights"), ConfigResource.broker(1)]`.
            names: the options to describe; None: all of them.
            synonyms: describe all places that may set each option.
            documentation: include the broker's text about each option.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each resource that cannot be described, and its error; the result lacks them. Without
                it, errors are raised.

        Returns:
            The options of each resource by name.

        Raises:
            ConfigError: an argument has a bad value, or the cluster has no such broker.
            BrokerError: the only resource does not exist, for example.
            AuthorizationError: the client may not describe the only resource.
            AdminError: some of several resources cannot be described; it has the results and the errors.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import ConfigResource
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     found = admin.describe_configs([ConfigResource.topic(topic)])
            >>> found[ConfigResource.topic(topic)]["cleanup.policy"].value
            'delete'
        """
        work = self._calls.describe_configs(
            resources, names=names, synonyms=synonyms, documentation=documentation, timeout=timeout
        )
        return self._by_key(work, on_error)

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Change]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Change options of resources, and leave their others.

        The request about one broker, or its loggers, goes to that broker; all others go to any broker. Each resource is
        changed as a whole or not at all.

        Args:
            changes: for each resource, the new value of each option: a text or a number, None for the default again,
                `Append([...])` or `Subtract([...])` for a list of a topic or broker.
            validate_only: check the changes, and make none.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with each resource that was not changed, and its error. Without it, errors are raised.

        Raises:
            ConfigError: an argument has a bad value, or the cluster has no such broker.
            BrokerError: the broker refuses the changes of the only resource, for example with INVALID_CONFIG.
            AuthorizationError: the client may not alter the only resource.
            AdminError: some of several resources were not changed.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import Append, ConfigResource
            >>> changes = {"retention.ms": 60_000, "cleanup.policy": Append(["compact"]), "segment.ms": None}
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.alter_configs({ConfigResource.topic(topic): changes})
        """
        work = self._calls.alter_configs(changes, validate_only=validate_only, timeout=timeout)
        self._by_key(work, on_error)

    def list_config_resources(
        self, types: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """List the resources that may have a configuration. Any broker serves the request.

        Args:
            types: "topic", "broker", "broker-logger", "client-metrics" or "group"; None: all of them. Types other than
                "client-metrics" need Kafka 4.1.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The resources. Groups and client metrics are those with a configuration of their own.

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: the client may not describe the configuration of the cluster.
            ProtocolError: the broker is too old.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.list_config_resources(["broker"])
            [ConfigResource(type='broker', name='1')]
        """
        return self._run(self._calls.list_config_resources(types, timeout=timeout))
