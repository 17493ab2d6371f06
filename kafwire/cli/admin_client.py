"""The `Admin` of a command, the errors by key, and plans of removals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafwire.cli.connection import client_options, only
from kafwire.cli.output import say

if TYPE_CHECKING:
    from kafwire import Admin
    from kafwire.errors import KafkaError

__all__ = ["Failures", "admin_of", "planned"]


def admin_of(brokers: str | None, settings: tuple[str, ...], config_file: Path | None) -> Admin:
    """Return an `Admin` with these options, which may include consumer options, as in a file for all commands."""
    from kafwire import Admin
    from kafwire.config import ClientConfig, ConsumerConfig

    return Admin(**only(client_options(ConsumerConfig, brokers, settings, config_file), ClientConfig))


def planned(command: str) -> None:
    """Say that a plan was shown, and that nothing changed."""
    say(f"kafwire {command}: this is only the plan: add --execute to apply it", err=True)


class Failures:
    """Prints the errors of a call: its `on_error`. `keys` have failed."""

    def __init__(self, command: str) -> None:
        self.keys: set[object] = set()
        self._command = command

    def __call__(self, key: object, error: KafkaError) -> None:
        """Print the error of a key."""
        self.keys.add(key)
        say(f"kafwire {self._command}: {error}", err=True)

    @property
    def code(self) -> int:
        """The exit code of the command."""
        return int(bool(self.keys))
