"""The `Admin` of a command, by the options of its connection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafwire.cli.connection import client_options, only

if TYPE_CHECKING:
    from kafwire import Admin

__all__ = ["admin_of"]


def admin_of(brokers: str | None, settings: tuple[str, ...], config_file: Path | None) -> Admin:
    """Return a client with these options, which may include consumer options, as in a file for all commands."""
    from kafwire import Admin
    from kafwire.config import ClientConfig, ConsumerConfig

    return Admin(**only(client_options(ConsumerConfig, brokers, settings, config_file), ClientConfig))
