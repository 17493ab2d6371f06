"""The run of clients under sanitizers finds a planted mistake. It compiles an extension: part of `make fuzz`."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.chaos import build
from fuzz.chaos.run import run_client

SEED = 20130101
NO_SERVERS = json.dumps(["", "", {"ssl.ca.location": ""}])  # for an actor that needs none
KEPT = "@cython.final\n@cython.no_gc_clear\ncdef class FetchBuffer:"


def test_a_buffer_that_the_collector_clears_is_found(tmp_path: Path) -> None:
    copy = build.copy_tree(tmp_path)
    source = copy / "kafwire/consumer/_fetch_buffer.pyx"
    text = source.read_text()
    assert text.count(KEPT) == 1
    source.write_text(text.replace(KEPT, "@cython.final\ncdef class FetchBuffer:"))
    folder = build.build("memory", copy)
    outcome = run_client("memory", folder, [str(SEED), "60", NO_SERVERS, "collect"], 60)
    (find,) = outcome.finds
    assert "heap-use-after-free" in find
    assert "_decode_next" in outcome.report
