"""Clients of schema registries, and the framings of schema ids."""

from kafwire.registry.client import Registered, SchemaRegistry
from kafwire.registry.framing import (
    ApicurioHeader,
    ApicurioPrefix,
    ConfluentHeader,
    ConfluentPrefix,
    Framing,
    GluePrefix,
)

__all__ = [
    "ApicurioHeader",
    "ApicurioPrefix",
    "ConfluentHeader",
    "ConfluentPrefix",
    "Framing",
    "GluePrefix",
    "Registered",
    "SchemaRegistry",
]
