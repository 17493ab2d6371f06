"""A transactional outbox: rows written by database transactions become records, each once.

See docs/outbox.md. No database driver is imported here: the user opens the connections.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.outbox.outbox import Outbox
    from kafwire.outbox.relay import Step
    from kafwire.outbox.statements import dead_letter_schema, postgresql_schema, sqlite_schema

__all__ = ["Outbox", "Step", "dead_letter_schema", "postgresql_schema", "sqlite_schema"]

_HOMES = {
    "Outbox": "kafwire.outbox.outbox",
    "Step": "kafwire.outbox.relay",
    "dead_letter_schema": "kafwire.outbox.statements",
    "postgresql_schema": "kafwire.outbox.statements",
    "sqlite_schema": "kafwire.outbox.statements",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
