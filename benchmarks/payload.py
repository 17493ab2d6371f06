"""The records that every contender reads and writes: values of one size, without keys and headers, the same for all.

100 B: one line of a log of measurements (time, sensor, place, three readings, state, a trace id). 1 kB: a JSON object
of an order with its lines. Field names, places and states repeat, numbers are random, as in real data: lz4 makes them
2 to 3 times smaller in a batch of 1 MB. A pool of values is made from a seed and used again and again in order; it is
far larger than lz4's window of 64 KiB, so repeating it compresses nothing.
"""

import random
from pathlib import Path

SEED = 20130101
POOL_BYTES = 10_000_000

_PLACES = ("Amsterdam", "Bilbao", "Charlotte", "Dakar", "Edinburgh", "Fukuoka", "Guadalajara", "Helsinki", "Izmir")
_STATES = ("ok", "ok", "ok", "late", "calibrating", "fault")
_GOODS = ("bolt M6x20 zinc", "bearing 6204-2RS", "gasket DN50", "hose 12 mm", "relay 24 V", "sensor PT100", "valve 3/4")


def make_pool(value_bytes: int, seed: int = SEED) -> bytes:
    """About `POOL_BYTES` of concatenated values of `value_bytes` each."""
    chance = random.Random(seed * 1_000_003 + value_bytes)
    make = _line if value_bytes < 500 else _order
    values = []
    for number in range(POOL_BYTES // value_bytes):
        value = make(chance, number, value_bytes)
        values.append(value[:value_bytes].ljust(value_bytes))
    return b"".join(values)


def write_pool(folder: Path, value_bytes: int) -> Path:
    """The pool in a file of `folder`; made if it is not there."""
    path = folder / f"values-{value_bytes}.bin"
    if not path.exists():
        path.write_bytes(make_pool(value_bytes))
    return path


def split_pool(pool: bytes, value_bytes: int) -> list[bytes]:
    """The values one by one."""
    return [pool[at : at + value_bytes] for at in range(0, len(pool), value_bytes)]


def _line(chance: random.Random, number: int, _size: int) -> bytes:
    second = number // 50
    return (
        f"2013-01-{1 + second // 86400 % 28:02d}T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z,"
        f"sensor-{chance.randrange(2000):04d},{chance.choice(_PLACES)},{chance.gauss(20, 5):.2f},"
        f"{chance.gauss(1013, 8):.1f},{chance.random():.3f},{chance.choice(_STATES)},"
        f"trace={chance.randbytes(8).hex()},battery={chance.randrange(100)},sequence={number}"
    ).encode()


def _order(chance: random.Random, number: int, size: int) -> bytes:
    text = (
        f'{{"order": {1_000_000 + number}, "customer": "{chance.randrange(10**9):09d}", '
        f'"city": "{chance.choice(_PLACES)}", "token": "{chance.randbytes(24).hex()}", "lines": ['
    )
    while len(text) < size:
        text += (
            f'{{"item": "{chance.choice(_GOODS)}", "lot": "{chance.randbytes(8).hex()}", '
            f'"quantity": {chance.randrange(1, 500)}, "price": {chance.random() * 1000:.2f}, '
            f'"weight": {chance.gauss(3, 1):.4f}, "state": "{chance.choice(_STATES)}"}}, '
        )
    return text.encode()
