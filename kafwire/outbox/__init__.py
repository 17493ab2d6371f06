"""A transactional outbox: rows written by database transactions become records, each once.

See docs/guide/outbox.md. No database driver is imported here: the user opens the connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

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
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
