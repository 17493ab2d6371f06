"""Records of aborted transactions are left out, whatever the order of the broker's list."""

from __future__ import annotations

import random
import struct

from hypothesis import given
from hypothesis import strategies as st

from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks

PRODUCERS = (11, 12, 13)


def marker(offset: int, producer: int, commit: bool) -> bytes:
    record = (struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return encode_batch([record], base_offset=offset, producer_id=producer, transactional=True, control=True)


@given(st.randoms(use_true_random=False), st.integers(1, 60), st.sampled_from([1, 200, 0]))
def test_against_a_log_whose_outcomes_are_known(dice: random.Random, length: int, chunk_bytes: int) -> None:
    log, offset, committed = b"", 0, []
    open_since: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    aborted: list[tuple[int, int]] = []
    for step in range(length + len(PRODUCERS)):
        producer = dice.choice(PRODUCERS) if step < length else PRODUCERS[step - length]
        if producer in open_since and (step >= length or dice.random() < 0.3):
            commit = dice.random() < 0.5
            log += marker(offset, producer, commit)
            if commit:
                committed += pending[producer]
            else:
                aborted.append((producer, open_since[producer]))
            del open_since[producer], pending[producer]
            offset += 1
        elif step < length:
            transactional = dice.random() < 0.8 or producer in open_since
            count = dice.randrange(1, 4)
            log += encode_batch(
                [b"v"] * count, base_offset=offset, producer_id=producer, transactional=transactional, compression="lz4"
            )
            offsets = list(range(offset, offset + count))
            if transactional:
                open_since.setdefault(producer, offset)
                pending.setdefault(producer, []).extend(offsets)
            else:
                committed += offsets
            offset += count + dice.randrange(2)
    dice.shuffle(aborted)
    chunks = decode_chunks(log, Layout("t", 0, columns=["offset"]), chunk_bytes=chunk_bytes, aborted=aborted)
    assert [record.offset for chunk in chunks for record in chunk] == sorted(committed)
    everything = decode_chunks(log, Layout("t", 0, columns=["offset"]), chunk_bytes=chunk_bytes)
    assert sum(map(len, everything)) >= len(committed)
    if log:
        assert chunks[-1].next_offset == everything[-1].next_offset
