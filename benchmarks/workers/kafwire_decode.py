"""kafwire's decoder on batches in memory: the pass that `scan()` runs, in chunks of its default size, no broker."""

from collections.abc import Callable
from pathlib import Path

import kafwire
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks

COLUMNS = ["offset", "timestamp", "key", "value"]
TIMES = 20


def decode(options: Options) -> Callable[[], Pass]:
    """Decode the batches of a file, again and again, and drop the columns."""
    data = Path(options.text("file")).read_bytes()
    layout = Layout(columns=COLUMNS)
    value_bytes = sum(
        len(value) for chunk in decode_chunks(data, layout) for value in chunk.to_arrow().column("value").to_pylist()
    )

    def once() -> Pass:
        clock = Stopwatch()
        records = sum(len(chunk) for _ in range(TIMES) for chunk in decode_chunks(data, layout))
        return Pass(clock.seconds(), records, TIMES * value_bytes)

    return once


if __name__ == "__main__":
    work({"decode": decode}, kafwire.__version__)
