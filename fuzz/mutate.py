"""Mutations that know a little of Kafka: flips, cuts, repeats, splices, and numbers that lie."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

LIES = (0, 1, -1, -2, 127, 128, 255, 1 << 15, (1 << 15) - 1, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 62, -(1 << 63))


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class Mutator:
    """An endless iterator of mutated members of a corpus, reproducible from its source of chance."""

    def __init__(self, corpus: Sequence[bytes], chance: random.Random) -> None:
        self._corpus = corpus
        self._chance = chance

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        data = bytearray(self._chance.choice(self._corpus))
        for _ in range(self._chance.randint(0, 4)):
            self._mutate(data)
        return bytes(data)

    def _mutate(self, data: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + chance.randint(1, 16)]
        elif kind == 4:
            data[at:at] = data[at : at + chance.randint(1, 64)]
        elif kind == 5:
            other = chance.choice(self._corpus)
            begin = chance.randrange(len(other) + 1)
            data[at : at + chance.randint(0, 32)] = other[begin : begin + chance.randint(0, 256)]
        else:
            lie = chance.choice(LIES)
            form = chance.choice((">b", ">h", ">i", ">q", "varint"))
            if form == "varint":
                encoded = varint(lie & ((1 << 64) - 1))
            else:
                bits = 8 * struct.calcsize(form)
                encoded = struct.pack(form.upper(), lie & ((1 << bits) - 1))
            data[at : at + len(encoded)] = encoded
