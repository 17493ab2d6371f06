"""Clients of schema registries, and the framings of schema ids."""

from kafwire.registry.client import SchemaRegistry
from kafwire.registry.framing import (
    ApicurioHeader,
    ApicurioPrefix,
    ConfluentHeader,
    ConfluentPrefix,
    Framing,
    GluePrefix,
)
from kafwire.registry.registered import Compatibility, Reference, Registered

__all__ = [
    "ApicurioHeader",
    "ApicurioPrefix",
    "Compatibility",
    "ConfluentHeader",
    "ConfluentPrefix",
    "Framing",
    "GluePrefix",
    "Reference",
    "Registered",
    "SchemaRegistry",
]
