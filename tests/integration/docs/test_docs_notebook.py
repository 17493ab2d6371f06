"""docs/guide/notebooks.md runs in a real kernel: its cells, an interrupt, and the end of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S
from tests.support.doc_blocks import ADDRESS, blocks, environment
from tests.support.doc_servers import values

FLIGHTS = 50


@contextmanager
def kernel(folder: Path, monkeypatch: pytest.MonkeyPatch, *cells: str) -> Iterator[NotebookClient]:
    """A kernel of this interpreter, which has run nothing yet."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    made: Any = nbformat.v4  # its functions have no types
    notebook = made.new_notebook(cells=[made.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=int(PATIENCE_S), kernel_name="python3", resources={})
    with client.setup_kernel(cwd=str(folder)):
        yield client


def outputs(client: NotebookClient, number: int) -> list[Any]:
    """The results and displays of a cell, after it has run; not its standard error, where a busy machine is named."""
    cell = client.nb.cells[number]
    client.execute_cell(cell, number)
    return [output["data"] for output in cell.outputs if output["output_type"] != "stream"]


@pytest.fixture
def cells(kafka: EmbeddedKafka) -> list[str]:
    kafka.create_topic("flights", partitions=2)
    for partition in range(2):
        flights = [{"key": b"UA", "value": b"<b>flight %d" % number} for number in range(FLIGHTS)]
        kafka.append("flights", flights, partition=partition)
    return [block.text.replace(ADDRESS, kafka.bootstrap) for block in blocks("python") if block.document == "notebooks"]


def test_the_cells_of_the_page_and_the_end_of_their_kernel(
    kafka: EmbeddedKafka, cells: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells[4] = cells[4].replace("Producer(", "Producer(linger_ms=60_000, bootstrap_servers=")
    with kernel(tmp_path, monkeypatch, *cells) as client:
        (table,) = outputs(client, 0)
        assert table["text/html"].count("<tr>") == 1 + 20 + 1
        assert "<td>&lt;b&gt;flight 0</td>" in table["text/html"]
        assert '<td colspan="5">30 more</td>' in table["text/html"]
        (bar,) = outputs(client, 1)
        assert f"max='{2 * FLIGHTS}' value='{2 * FLIGHTS}'" in bar["text/html"]
        (counts,) = outputs(client, 2)
        assert counts["text/plain"] == f"{{'key': [b'UA'], 'value_count': [{2 * FLIGHTS}]}}"
        (offset,) = outputs(client, 3)
        assert offset["text/plain"] == str(FLIGHTS)
        outputs(client, 4)
        assert b"LGA-ORD" not in values(kafka, "flights"), "it lingers for a minute"
    assert {b"EWR-IAH", b"LGA-ORD"} <= set(values(kafka, "flights"))


@pytest.mark.long
def test_an_interrupt_ends_a_cell_that_waits(
    kafka: EmbeddedKafka, cells: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = f"""
import kafwire, signal, threading
consumer = kafwire.Consumer({kafka.bootstrap!r}, topics="flights", start="earliest")
read, all_read = [], threading.Event()
def interrupt():
    all_read.wait()
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
for record in consumer:
    read.append(record)
    if len(read) == {2 * FLIGHTS}:
        all_read.set()
"""
    with kernel(tmp_path, monkeypatch, waits, "len(read), consumer.close()") as client:
        with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
            outputs(client, 0)
        (read,) = outputs(client, 1)
    assert read["text/plain"] == f"({2 * FLIGHTS}, None)"
