"""The options of clients: classes with their defaults, checks, and names. They load when they are first used."""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.config.configs import (
        ASSIGNORS,
        CODECS,
        DEFAULT_ASSIGNORS,
        PARTITIONERS,
        ClientConfig,
        ConsumerConfig,
        FetchConfig,
        ProducerConfig,
        ScanConfig,
        ShareConsumerConfig,
        from_config,
        from_dotted,
    )

__all__ = [
    "ASSIGNORS",
    "CODECS",
    "DEFAULT_ASSIGNORS",
    "PARTITIONERS",
    "ClientConfig",
    "ConsumerConfig",
    "FetchConfig",
    "ProducerConfig",
    "ScanConfig",
    "ShareConsumerConfig",
    "from_config",
    "from_dotted",
]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "kafwire.config.configs"))


def __dir__() -> list[str]:
    return __all__
