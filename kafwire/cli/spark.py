"""`kafwire spark`: runs Spark streams over Kafka, shows their lag, checks their environment."""

from __future__ import annotations

import click

from kafwire.cli.spark_doctor import doctor
from kafwire.cli.spark_lag import lag
from kafwire.cli.spark_recover import recover
from kafwire.cli.spark_run import run

__all__ = ["command"]

_HELP = """Run and watch Spark queries over Kafka.

\b
  kafwire spark run job.toml
  kafwire spark lag /data/archive/checkpoint -b localhost:9092
  kafwire spark recover flights -b localhost:9092
  kafwire spark doctor --master spark://host:7077 -b localhost:9092
"""


@click.group("spark", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


command.add_command(run)
command.add_command(lag)
command.add_command(doctor)
command.add_command(recover)
