"""Creates the Spark session of commands: its master and settings, its workers' environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NAME_AND_VALUE", "default_master", "named_values", "needed", "session"]

NAME_AND_VALUE = "NAME=VALUE"
_HIDE = "SPARK_HIDE_TRACEBACK"


def needed() -> None:
    """Raise click's error unless pyspark is installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise click.ClickException("this command needs PySpark: pip install 'kafwire[spark]'") from None


def named_values(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the values of an option that is given as NAME=VALUE, any number of times."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option}: it must be {NAME_AND_VALUE}")
        found[name.strip()] = value.strip()
    return found


def default_master(local: str) -> str | None:
    """Return `local`, or None if spark-submit or its settings may set a master."""
    return None if {"MASTER", "SPARK_HOME", "SPARK_CONF_DIR"} & set(os.environ) else local


def session(name: str, master: str | None, conf: Mapping[str, str], *, hide_traceback: bool) -> SparkSession:
    """Start a session. With `hide_traceback`, errors of workers omit pyspark's own traceback."""
    from pyspark.sql import SparkSession

    # Workers of a local master use this interpreter and this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.showConsoleProgress": "false", **conf}
    if hide_traceback:
        os.environ.setdefault(_HIDE, "1")
        settings.setdefault(f"spark.executorEnv.{_HIDE}", "1")
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
