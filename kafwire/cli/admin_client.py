"""The `Admin` of a command, and its plans of removals."""

from pathlib import Path
from typing import Any

from kafwire.cli.connection import client_options, only
from kafwire.cli.output import say

__all__ = ["admin_of", "planned"]


def admin_of(brokers: str | None, settings: tuple[str, ...], config_file: Path | None) -> Any:
    """Return an `Admin` with these options, which may include consumer options, as in a file for all commands."""
    from kafwire import Admin
    from kafwire.config import ClientConfig, ConsumerConfig

    return Admin(**only(client_options(ConsumerConfig, brokers, settings, config_file), ClientConfig))


def planned(command: str) -> None:
    """Say that a plan was shown, and that nothing changed."""
    say(f"kafwire {command}: this is only the plan: add --execute to apply it", err=True)
