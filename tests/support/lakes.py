"""An Iceberg catalog in SQLite, with a table of a topic. This needs the package pyiceberg."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

import kafwire
from kafwire.lake.iceberg_copy import Committed, IcebergCopy
from kafwire.testing.cluster import KafkaCluster
from tests.support import killed_steps

IMPORTS = """
from pyarrow.parquet import ParquetWriter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import snapshot
from sqlalchemy.orm import Session
"""
STEPS = (
    *("SqlCatalog.create_table", "ParquetWriter.write", "ParquetWriter.close", "snapshot.write_manifest_list"),
    *("SqlCatalog.commit_table", "Session.commit"),
)
READING = {"isolation_level": "read_committed"}


class Lake:
    """A catalog in SQLite, with a table of the topic `topic`."""

    def __init__(self, cluster: KafkaCluster, topic: str, folder: Path) -> None:
        self.cluster = cluster
        self.topic = topic
        self._folder = folder
        self.load().create_namespace("sales")

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self._folder}/catalog.db", "warehouse": f"file://{self._folder}"}

    @property
    def configured(self) -> dict[str, str]:
        """The variables of the environment that have the properties."""
        return {f"PYICEBERG_CATALOG__MAIN__{name.upper()}": value for name, value in self.properties.items()}

    def load(self) -> Any:
        return load_catalog("main", **self.properties)

    @property
    def table(self) -> Any:
        return self.load().load_table("sales.orders")

    def create(self) -> Any:
        schema = pa.table(kafwire.scan(self.cluster.bootstrap, self.topic, end="earliest")).schema
        return self.load().create_table("sales.orders", schema)

    def send(self, count: int, partitions: int = 1) -> None:
        with kafwire.Producer(self.cluster.bootstrap) as producer:
            for number in range(count):
                producer.send(
                    self.topic, b"%d" % number, key=b"k", headers=[("h", None)], partition=number % partitions
                )

    def sent(self) -> list[tuple[int, int]]:
        return sorted((each.partition or 0, each.offset) for each in kafwire.scan(self.cluster.bootstrap, self.topic))

    def copied(self) -> list[tuple[int, int]]:
        rows = self.table.scan(selected_fields=("partition", "offset")).to_arrow().to_pylist()
        return sorted((row["partition"], row["offset"]) for row in rows)

    def run(self, *more: str, step: int = 0) -> subprocess.CompletedProcess[str]:
        words = [self.topic, "--to", "iceberg:main/sales.orders", "-b", self.cluster.bootstrap, *more]
        return killed_steps.copy(IMPORTS, STEPS, words, step=step, environment=self.configured)

    def copy(
        self, client: kafwire.Client, name: str = "orders", rows: int = 100, offsets: Mapping[int, int] | None = None
    ) -> Iterator[Committed]:
        return IcebergCopy(client, self.topic, self.table, name, rows, False, offsets or {}, READING).run()
