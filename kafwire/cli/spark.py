"""`kafwire spark`: Spark queries over Kafka, from outside of Spark."""

from __future__ import annotations

import click

from kafwire.cli.spark_recover import recover

__all__ = ["command"]

_HELP = """Look after Spark queries over Kafka.

\b
  kafwire spark recover flights -b localhost:9092
  kafwire spark recover flights --accept-loss
"""


@click.group("spark", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


command.add_command(recover)
