"""Options: one frozen dataclass per client; names are Kafka's with underscores, units come last in the name.

`client`, `producer` and `consumer` declare the options, each once, with its check, default and
documentation. `from_dotted` translates Kafka's own spelling (`{"bootstrap.servers": ...}`), and `from_config` the
option names of other clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kafwire.config.client import NO_SERVERS, ClientConfig
from kafwire.errors import ConfigError
from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.config.consumer import (
        DEFAULT_ASSIGNORS,
        OF_CLASSIC_MEMBERS,
        ConsumerConfig,
        FetchConfig,
        ScanConfig,
        ShareConsumerConfig,
        duration_ms,
        no_effect,
    )
    from kafwire.config.producer import CODECS, PARTITIONERS, ProducerConfig

__all__ = [
    "CODECS", "DEFAULT_ASSIGNORS", "OF_CLASSIC_MEMBERS", "PARTITIONERS", "ClientConfig", "ConsumerConfig",
    "FetchConfig", "ProducerConfig", "ScanConfig", "ShareConsumerConfig", "duration_ms", "from_config", "from_dotted",
    "no_effect",
]  # fmt: skip

# A producer does not load the options of consumers, nor a consumer those of producers.
_OF_PRODUCERS = ("CODECS", "PARTITIONERS", "ProducerConfig")
if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            name: "kafwire.config.producer" if name in _OF_PRODUCERS else "kafwire.config.consumer"
            for name in __all__
            if name not in ("ClientConfig", "from_config", "from_dotted")
        },
    )


def from_dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Kafka's spelling (`linger.ms`) to kafwire's (`linger_ms`); `ConfigError` without bootstrap servers."""
    translated = {str(name).replace(".", "_"): value for name, value in options.items()}
    if "bootstrap_servers" not in translated:
        raise ConfigError(NO_SERVERS)
    return translated


def from_config(
    config: type[ClientConfig], options: Mapping[str, Any], *, arguments: Iterable[str] = ()
) -> dict[str, Any]:
    """Return keyword arguments for a client of `config`, from option names of the Java client, librdkafka or kafwire.

    `arguments` are names beside the options. Raises `ConfigError` in the user's own spelling; one warning names the
    options without effect.
    """
    from kafwire.config.consumer import ConsumerConfig
    from kafwire.config.names import respell, translate
    from kafwire.config.producer import ProducerConfig

    own = {item.name for item in fields(config)}.union(arguments)
    others = {item.name for kind in (ProducerConfig, ConsumerConfig) for item in fields(kind)} - own
    found, names = translate(options, own, others)
    try:
        config.build({name: value for name, value in found.items() if name not in arguments})
    except ConfigError as error:
        raise ConfigError(respell(str(error), names, own)) from None
    return found
