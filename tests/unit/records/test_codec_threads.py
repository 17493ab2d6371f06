"""Many threads decode and encode at once: the passes run without the GIL and share only guarded state."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.reference_codec import CODECS


def test_threads_do_not_disturb_each_other() -> None:
    rows = 3000
    tables = [
        pa.table(
            {"value": [b"%d:%d" % (n, i) * (i % 30) for i in range(rows)], "key": [b"k%d" % i for i in range(rows)]}
        )
        for n in range(len(CODECS))
    ]
    layout = Layout("shared", 1)  # one layout for all: its cached columns grow under the threads' feet

    def work(seed: int) -> int:
        dice = random.Random(seed)
        done = 0
        for _ in range(25):
            n = dice.randrange(len(CODECS))
            table = tables[n].slice(0, dice.randrange(1, rows))
            (batch,) = decode_chunks(encode_batch(table, compression=CODECS[n]), layout)
            arrow = batch.to_arrow()
            assert arrow.column("value").equals(table.column("value").combine_chunks())
            assert arrow.column("key").equals(table.column("key").combine_chunks())
            assert arrow.column("topic")[-1].as_py() == "shared"
            done += arrow.num_rows
        return done

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(12))) > 0
