"""Every Python block of README and docs runs as it stands, on a broker that creates topics, at localhost:9092."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.doc_blocks import ADDRESS, DOCS, ROOT, Block, blocks, run_python, write_files
from tests.support.schema_registry import RegistryServer

REGISTRY = "http://localhost:8081"  # where the documents have their schema registry
IMPORTS = "import kafwire\nimport pyarrow as pa\n"
ORDERS = """
import kafwire
with kafwire.Producer("localhost:9092") as producer:
    producer.send("orders", b"book").result(30)
"""
# Programs without end get a signal when they have printed something.
TERMINATED = (
    ORDERS
    + """
def print(*values):
    import builtins, os, signal
    builtins.print(*values)
    os.kill(os.getpid(), signal.SIGTERM)
"""
)
STOPPED = (
    ORDERS
    + """
def print(*values):
    import builtins
    builtins.print(*values)
    consumer.stop()
"""
)
# Code that the text around a block presupposes.
SETUP = {
    **dict.fromkeys([f"consuming-python-{number}" for number in (1, 2, 6, 7, 8)], ORDERS),
    **dict.fromkeys(["consuming-python-3", "consuming-python-4"], TERMINATED),
    "consuming-python-5": STOPPED,
    "outbox-python-1": """
import kafwire
with kafwire.Client("localhost:9092") as client:
    if "orders" not in {topic.name for topic in client.metadata().topics}:
        client.create_topic("orders", partitions=1)
""",
    "producing-python-3": IMPORTS + 'producer = kafwire.Producer("localhost:9092")\n',
    "producing-python-5": IMPORTS + 'import random\nREGIONS = {b"east": 0}\n',
    "producing-python-6": IMPORTS + 'table = pa.table({"value": ["EWR-IAH"]})\n',
    "producing-python-7": IMPORTS + 'order, entry = b"2 books", b"ordered"\n',
    "producing-python-8": IMPORTS + 'servers = "localhost:9092"\ndef bill(order): return order + b": 20 USD"\n',
    "reliability-python-1": IMPORTS
    + """
servers, topic, topics, partition, partitions = "localhost:9092", "flights", ["flights"], 0, [("flights", 0)]
keys, offset, next_offset, where = [1], 0, 1, ("flights", 0)
""",
    "scan-python-1": IMPORTS,
    "scan-python-2": IMPORTS + 'producer = kafwire.Producer("localhost:9092", transactional_id="docs")\n',
    "scan-python-3": IMPORTS,
    "scan-python-4": IMPORTS + "from datetime import UTC, datetime\n",
}
ORDERS = """
import kafwire
with kafwire.Producer("localhost:9092") as producer:
    producer.send("orders", b'{"books": 2}', key=b"order 7")
"""
SHARED = (
    ORDERS
    + """
alter = kafwire.protocol.IncrementalAlterConfigsRequest
config = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
group = alter.AlterConfigsResource(resource_type=32, resource_name="packers", configs=[config])
with kafwire.Client("localhost:9092") as client:
    client.call(alter(resources=[group]))
"""
)
SETUP |= dict.fromkeys([f"share-groups-python-{number}" for number in (1, 2, 3)], SHARED)
FLIGHTS = """
import kafwire
with kafwire.Producer("localhost:9092") as producer:
    for _ in range(3):
        producer.send("flights", b"EWR-IAH", key=b"UA").result(30)
"""
EXPORTED = (
    FLIGHTS
    + """
import pathlib, pyarrow, pyarrow.parquet
pathlib.Path("flights/0").mkdir(parents=True)
pyarrow.parquet.write_table(pyarrow.table({"key": [b"UA"]}), "flights/0/0-1.parquet")
"""
)
SETUP |= {f"parquet-duckdb-python-{number}": FLIGHTS for number in (1, 2, 3)}
SETUP |= {f"reading-python-{number}": FLIGHTS for number in (1, 2)}
SETUP |= {f"frames-python-{number}": FLIGHTS for number in (1, 2, 3)}
SETUP["parquet-duckdb-python-4"] = EXPORTED
PRICES = """
import kafwire
with kafwire.Client("localhost:9092") as client:
    if "prices" not in {topic.name for topic in client.metadata().topics}:
        client.create_topic("prices", partitions=1, config={"cleanup.policy": "compact"})
with kafwire.Producer("localhost:9092") as producer:
    for key, value in [(b"lamp", b"25"), (b"chair", b"90"), (b"chair", None)]:
        producer.send("prices", value, key=key)
"""
NO_PRICES = """
import kafwire
with kafwire.Client("localhost:9092") as client:
    if "prices" in {topic.name for topic in client.metadata().topics}:
        client.delete_topic("prices")
"""
SETUP |= {f"latest-value-python-{number}": PRICES for number in (2, 4)}
SETUP["latest-value-python-1"] = NO_PRICES
SETUP["client-python-4"] = IMPORTS
SETUP["avro-python-3"] = (
    IMPORTS
    + """
flight = '''{"type": "record", "name": "Flight", "fields": [
    {"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "long"], "default": null}]}'''
avro = kafwire.Avro(kafwire.SchemaRegistry("http://localhost:8081"), flight, register=True)
"""
)
SPARK = """
import kafwire
with kafwire.Producer("localhost:9092") as producer:
    producer.send("flights", b"EWR-IAH")
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}
"""
SETUP["spark-python-1"] = SETUP["spark-from-kafka-python-1"] = SPARK
OF_SPARK = ("spark", "spark-from-kafka")


def programs() -> Iterator[Block]:
    """The Python blocks; those about Spark as one program, for it takes long to start."""
    alone = (block for block in blocks("python") if block.file is None)
    by_document = {document: list(found) for document, found in groupby(alone, lambda block: block.document)}
    del by_document["security"]  # tests/integration/docs/test_docs_security.py
    del by_document["delegation-tokens"]  # tests/integration/security/test_delegation_tokens.py
    del by_document["notebooks"]  # tests/integration/docs/test_docs_notebook.py
    for page in (ROOT / "docs" / "guide" / "porting").glob("*.md"):
        if page.stem not in OF_SPARK:
            by_document.pop(page.stem, None)  # tests/integration/docs/test_docs_porting.py
    for document in OF_SPARK:
        first, *others = by_document.pop(document)
        yield replace(first, text="\n".join(block.text for block in (first, *others)))
    for found in by_document.values():
        yield from found


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=[pytest.mark.long, pytest.mark.timeout(300)] if block.document in OF_SPARK else [])
        for block in programs()
    ],
    ids=str,
)
def test_block_runs(block: Block, address: str, tmp_path: Path) -> None:
    setup = SETUP.get(str(block), "")
    if address != ADDRESS:
        block = replace(block, text=block.text.replace(ADDRESS, address))
        setup = setup.replace(ADDRESS, address)
    write_files(block.document, tmp_path, address)
    with RegistryServer() as registry:
        block = replace(block, text=block.text.replace(REGISTRY, registry.url))
        done = run_python(block, setup.replace(REGISTRY, registry.url), tmp_path)
    assert done.returncode == 0, f"{block.document}.md, line {block.line}: {done.stderr[-3000:]}"


def test_a_setup_belongs_to_a_block() -> None:
    assert set(SETUP) <= {str(block) for block in blocks("python")}


def test_a_block_has_a_name_of_its_own() -> None:
    """SETUP names blocks by their pages: two pages with Python blocks have different names."""
    names = [str(block) for block in blocks("python")]
    assert len(names) == len(set(names))


def test_every_block_is_found() -> None:
    """No block is indented, or fenced in another way, which would hide it from these tests."""
    fences = sum(line.lstrip().startswith(("```", "~~~")) for file in DOCS for line in file.read_text().splitlines())
    assert fences == 2 * sum(
        len(list(blocks(language))) for language in ("python", "", "console", "sh", "properties", "json", "sql", "toml")
    )
    assert ROOT / "README.md" in DOCS
