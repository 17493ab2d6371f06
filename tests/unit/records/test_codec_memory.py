"""How much memory hostile record bytes take: never more than the cap and 64 MiB, whatever they are and however read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hostile_batches import ATTACKS, MIB

ROOT = Path(__file__).resolve().parents[3]
CAP = 256 * MIB
# The other roads share the decoder with the first; what differs is what they keep, and what columns they add.
OTHERWISE = [
    "zstd 32,000x",
    "a header key of 60 MiB that is not UTF-8",
    "30 million empty headers",
    "four bombs of 200 MiB in one blob",
    "thirty batches of 400,000 empty records in one blob",
]
BOMBS = ["gzip 1000x", "a value of 250 MiB in lz4"]
# Each has a brother in every run: the same place in another codec, or the same codec in another place.
IN_LONG_RUNS = [
    "gzip 1000x",
    "a header key of 250 MiB in zstd",
    "many tiny messages in one of magic 0",
    "400,000 messages of magic 0",
    "four bombs of 200 MiB in one blob",
    "gzip just under the cap, no record in it",
    "a key of 250 MiB in zstd",
    "a value of 250 MiB in zstd",
    "a header value of 250 MiB in zstd",
    "a header key of 250 MiB that is not UTF-8",
    "120 million empty headers",
    "12 million records without content",
]
ALL = [attack.name for attack in ATTACKS]


@pytest.mark.parametrize(
    ("road", "names"),
    [
        pytest.param("list", [name for name in ALL if name not in IN_LONG_RUNS], id="list"),
        pytest.param("one by one", OTHERWISE, id="one by one"),
        pytest.param("reader", OTHERWISE, id="reader"),
        pytest.param("list", IN_LONG_RUNS, id="list, the rest", marks=pytest.mark.long),
        pytest.param("one by one", BOMBS, id="one by one, bombs", marks=pytest.mark.long),
        pytest.param("reader", BOMBS, id="reader, bombs", marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(300)
def test_peak_memory_stays_under_the_cap_and_64_mib(road: str, names: list[str]) -> None:
    assert set(names) <= set(ALL)
    attacks = {attack.name: attack for attack in ATTACKS if attack.name in names}
    command = [sys.executable, "-m", "tests.support.attack_memory", road, *attacks]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    weighed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in weighed] == list(attacks)
    heavy = [f"{name}: {grown / MIB:.0f} MiB" for name, grown, _ in weighed if grown > CAP + 64 * MIB]
    assert not heavy
    wrong = []
    for name, _, outcome in weighed:
        expected = attacks[name].match
        if isinstance(outcome, int) != (expected is None) or (expected is not None and expected not in outcome):
            wrong.append((name, outcome))
    assert not wrong
