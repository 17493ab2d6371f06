"""Changes to the bytes of an encoded request, and their random choice.

A change aims at a field, not at an offset, wherever that makes sense. So it still hits when the request around it
becomes smaller.
"""

import random
import struct
from dataclasses import dataclass
from typing import Any

from kafwire.testing.fuzzer.anatomy import Span

SET, CUT, APPEND, FLIP, DELETE, INSERT, SIZE = "set", "cut", "append", "flip", "delete", "insert", "size"


class NotApplicableError(LookupError):
    """The request lacks the place of the damage."""


@dataclass(frozen=True)
class Damage:
    """One change of the bytes of a request.

    set: the bytes at (place, role) become `data`; cut: the last `amount` bytes are missing; append: `data` follows;
    flip: bit `amount`, counted from the frame's first; delete, insert: one byte, or `data`, at byte `amount`;
    size: the length prefix says `amount` bytes more than the frame has, or, with place "absolute", `amount`.
    """

    op: str
    place: str = ""
    role: str = ""
    data: bytes = b""
    amount: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON, without fields that mean nothing for it."""
        found: dict[str, Any] = {"op": self.op}
        if self.place:
            found["place"] = self.place
        if self.role:
            found["role"] = self.role
        if self.op in (SET, APPEND, INSERT):
            found["data"] = self.data.hex()
        if self.op in (CUT, FLIP, DELETE, INSERT, SIZE):
            found["amount"] = self.amount
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Damage":
        """Return the change that `to_json` wrote."""
        return cls(
            found["op"],
            found.get("place", ""),
            found.get("role", ""),
            bytes.fromhex(found.get("data", "")),
            found.get("amount", 0),
        )

    @property
    def shape(self) -> str:
        """The kind of the change, without its values; it keeps different finds apart."""
        return f"{self.op} {self.role or self.place}".strip()


def apply(frame: bytes, spans: list[Span], changes: tuple[Damage, ...]) -> bytes:
    """Return the bytes to send: the changed `frame`, after its size.

    Raises `NotApplicableError` when the request lacks a place.
    """
    pieces: list[tuple[int, int, bytes]] = []
    for change in changes:
        if change.op == SET:
            for span in spans:
                if (span.place, span.role) == (change.place, change.role):
                    pieces.append((span.start, span.end, change.data))
                    break
            else:
                raise NotApplicableError(change.place)
    data = bytearray(frame)
    for start, end, new in sorted(pieces, reverse=True):
        data[start:end] = new
    claimed: int | None = None
    for change in changes:
        if change.op == CUT:
            del data[max(0, len(data) - change.amount) :]
        elif change.op == APPEND:
            data += change.data
        elif change.op == FLIP and data:
            position = change.amount % (8 * len(data))
            data[position >> 3] ^= 1 << (position & 7)
        elif change.op == DELETE and data:
            del data[change.amount % len(data)]
        elif change.op == INSERT:
            position = change.amount % (len(data) + 1)
            data[position:position] = change.data
    for change in changes:
        if change.op == SIZE:
            claimed = change.amount if change.place == "absolute" else len(data) + change.amount
    if claimed is None:
        claimed = len(data)
    return struct.pack(">i", max(-0x80000000, min(0x7FFFFFFF, claimed))) + bytes(data)


def choose(rng: random.Random, frame: bytes, spans: list[Span]) -> tuple[Damage, ...]:
    """Return one to three changes of a request with these spans."""
    return tuple(_one(rng, frame, spans) for _ in range(rng.choice((1, 1, 1, 1, 2, 3))))


def _one(rng: random.Random, frame: bytes, spans: list[Span]) -> Damage:
    kind = rng.random()
    if kind < 0.5:
        lengths = [span for span in spans if span.role not in ("number", "text", "blob")]
        if lengths:
            span = rng.choice(lengths)
            return Damage(SET, span.place, span.role, _length(rng, span, frame[span.start : span.end], len(frame)))
    if kind < 0.62:
        numbers = [span for span in spans if span.role == "number" and span.place.startswith("body")]
        if numbers:
            span = rng.choice(numbers)
            return Damage(SET, span.place, span.role, rng.randbytes(span.end - span.start))
    if kind < 0.68:
        texts = [span for span in spans if span.role == "text" and span.end > span.start]
        if texts:
            span = rng.choice(texts)
            return Damage(SET, span.place, span.role, _bad_text(rng, span.end - span.start))
    if kind < 0.74:
        return Damage(CUT, amount=rng.choice((1, 1, 2, 3, rng.randint(1, max(1, len(frame))))))
    if kind < 0.79:
        return Damage(APPEND, data=rng.randbytes(rng.choice((1, 1, 2, 4, 64))))
    if kind < 0.86:
        return Damage(FLIP, amount=rng.randrange(8 * len(frame)))
    if kind < 0.9:
        if rng.random() < 0.5:
            return Damage(DELETE, amount=rng.randrange(len(frame)))
        return Damage(INSERT, amount=rng.randrange(len(frame)), data=rng.randbytes(rng.choice((1, 2, 4))))
    if kind < 0.96:
        return _header(rng)
    if rng.random() < 0.5:
        return Damage(SIZE, amount=rng.choice((-4, -2, -1, 1, 2, 4, 1000)))
    return Damage(SIZE, "absolute", amount=rng.choice((0, 1, 4, 7, -1, -0x80000000, 0x7FFFFFFF, 100 << 20, 101 << 20)))


def _header(rng: random.Random) -> Damage:
    part = rng.random()
    if part < 0.35:
        version = rng.choice((-1, 99, 0x7FFF, -0x8000, rng.randrange(20)))
        return Damage(SET, "header.request_api_version", "number", struct.pack(">h", version))
    if part < 0.6:
        key = rng.choice((-1, 93, 200, 1000, 0x7FFF, -0x8000))
        return Damage(SET, "header.request_api_key", "number", struct.pack(">h", key))
    if part < 0.75:
        return Damage(SET, "header.client_id", "length", rng.choice((b"\xff\xff", b"\xff\xfe", b"\x7f\xff", b"\0\0")))
    if part < 0.9:
        # A header version other than the request's: without its tags, or with unexpected tags.
        return rng.choice(
            (
                Damage(SET, "header.client_id", "text", b"kafwire-fuzz\0"),
                Damage(SET, "header.client_id", "text", b""),
            )
        )
    return Damage(SET, "header.client_id", "text", b"\xc3\x28" * 6)


def _bad_text(rng: random.Random, size: int) -> bytes:
    pattern: bytes = rng.choice((b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8", b"\0", b"\xc3"))
    return (pattern * size)[:size]


def varint(value: int) -> bytes:
    """Return an unsigned varint in its shortest form."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _length(rng: random.Random, span: Span, was: bytes, size: int) -> bytes:
    if span.role in ("length", "count"):
        form = ">h" if len(was) == 2 else ">i"
        limit = 1 << (8 * len(was) - 1)
        (value,) = struct.unpack(form, was)
        new = rng.choice((-1, -2, -limit, limit - 1, 0, value + 1, value - 1, value + 100, size, size * 2, 1_000_000))
        return struct.pack(form, max(-limit, min(limit - 1, new)))
    if span.role == "presence":
        return rng.choice((b"\x00", b"\x02", b"\x7f", b"\x80", b"\xff", b"\x01"))
    value = 0
    for shift, byte in enumerate(was):
        value |= (byte & 0x7F) << (7 * shift)
    choices = (
        b"\0",
        varint(value + 1),
        varint(max(value - 1, 0)),
        varint(value + 100),
        varint(size),
        varint(1_000_000),
        varint(0x7FFFFFFF),
        varint(0x80000000),
        varint(0xFFFFFFFF),
        b"\xff\xff\xff\xff\x1f",
        b"\x80\x80\x80\x80\x80\x01",
        b"\xff" * 10,
        bytes([value & 0x7F | 0x80, 0x80, 0]) if value < 0x80 else varint(value),
    )
    return rng.choice(choices)
