"""Files of a checkpoint of Structured Streaming, as Spark 4.2 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_batch(folder: Path, batch: int, *sources: Any, committed: bool = True) -> None:
    """Write `offsets/N`, with a line for each source, and `commits/N` if the batch was committed."""
    (folder / "metadata").parent.mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text('{"id":"524d09d7-23ca-42c2-8a29-bcdcc44567d0"}')
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1795810320859 + 1000 * batch, "conf": {}}
    lines = ["v1", json.dumps(metadata), *(line if isinstance(line, str) else json.dumps(line) for line in sources)]
    _write(folder / "offsets" / str(batch), "\n".join(lines))
    if committed:
        _write(folder / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')


def write_start(folder: Path, source: int, text: str) -> None:
    """Write the start that a JVM source keeps, after the version and a zero byte as Spark's Kafka source does."""
    _write(folder / "sources" / str(source) / "0", f"\0v1\n{text}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (path.parent / f".{path.name}.crc").write_text("crc")
