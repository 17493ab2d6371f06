"""Records as text on a terminal, and rows by their keys, beside plain Python."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafwire.records import Record, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.records._records import Batch
from kafwire.records._text import Renderer, key_runs

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"ab", b"b", b"\xff"]))
TEXTS = st.lists(
    st.one_of(st.text(max_size=6).map(str.encode), st.binary(max_size=6), st.just(b"\r\n"), st.just(b"\r"))
)


def batch_of(records: list[Record]) -> Batch:
    [batch] = decode_chunks(encode_batch(records), Layout("t", 0), topic="t", partition=0)
    return batch


def on_a_terminal(data: bytes) -> bytes:
    text = data.decode(errors="surrogateescape")

    def escaped(match: re.Match[str]) -> str:
        return "".join(f"\\x{byte:02x}" for byte in match[0].encode(errors="surrogateescape"))

    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udcff]|\r(?!\n)", escaped, text).encode()


@given(TEXTS.map(b"".join))
def test_text_is_utf_8_without_commands_for_terminals(data: bytes) -> None:
    renderer = Renderer([("value", "text"), b"|", ("headers", "text")])
    batch = batch_of([Record(data, headers=[("n", data)])])
    shown = on_a_terminal(data)
    assert b"".join(renderer.render(batch)) == shown + b"|n=" + shown


@given(st.lists(KEYS, min_size=1, max_size=40), st.sets(st.sampled_from([b"", b"a", b"b", b"\xff", b"abc"])), st.data())
def test_runs_are_the_rows_whose_keys_are_wanted(
    keys: list[bytes | None], wanted: set[bytes], data: st.DataObject
) -> None:
    batch = batch_of([Record(b"v", key) for key in keys])
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(keys)), st.integers(0, len(keys)))))
    runs = key_runs(batch, wanted, start, stop)
    assert [row for begin, end in runs for row in range(begin, end)] == [
        row for row in range(start, stop) if keys[row] in wanted
    ]
    assert all(before[1] < after[0] for before, after in pairwise(runs))
