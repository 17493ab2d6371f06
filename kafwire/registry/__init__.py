"""A client of a Confluent schema registry."""

from kafwire.registry.client import Registered, SchemaRegistry

__all__ = ["Registered", "SchemaRegistry"]
