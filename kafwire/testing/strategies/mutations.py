"""Damage: valid bytes with a few structured changes."""

from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafwire.protocol.spec import Message
from kafwire.testing.strategies.wire import Place, Wire, encoded, uvarint, varint

__all__ = ["Mutated", "mutated"]

T = TypeVar("T")
_BITS = {"int8": 8, "int16": 16, "int32": 32}
_FORMS = ("uvarint", "int32", "int16", "varint", "int8")
_EXTREMES = [0, 1, -1, -2, 126, 127, 128, 255, 0x7FFF, 0x8000, 1 << 20, 0x7FFFFFFF, -(1 << 31), 1 << 62, -(1 << 63)]
# Varints that are longer than any number needs, or than a reader may accept.
_ODD_VARINTS = [b"\x80\x00", b"\x81\x80\x00", b"\xff" * 4 + b"\x1f", b"\xff" * 5, b"\xff" * 9 + b"\x01", b"\xff" * 11]


@runtime_checkable
class HasData(Protocol):
    """A value that `mutated` takes besides bytes: its bytes are its `data`."""

    @property
    def data(self) -> bytes:
        """The valid bytes."""


class Mutated(bytes):
    r"""Damaged bytes. They may be equal to the valid bytes: damage shrinks to nothing.

    Args:
        data: the bytes.
        origin: the valid value as it was drawn.
        changes: a description of each change.

    Example:
        >>> from kafwire.testing.strategies import Mutated
        >>> Mutated(b"\x01", b"\x00", ("a bit of byte 0 flipped",)).origin
        b'\x00'
    """

    origin: Any
    changes: tuple[str, ...]

    def __new__(cls, data: bytes, origin: Any, changes: tuple[str, ...] = ()) -> Self:
        """Store the bytes, their origin and the changes."""
        made = super().__new__(cls, data)
        made.origin = origin
        made.changes = changes
        return made

    def __repr__(self) -> str:
        """Return a text with the bytes, their origin and the changes."""
        how = "; ".join(self.changes) or "unchanged"
        return f"Mutated({bytes(self)!r}, origin={self.origin!r}, changes: {how})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - no value here contains itself
        with printer.group(4, "Mutated(", ")"):
            printer.breakable("")
            printer.text(f"{bytes(self)!r}, changes: {'; '.join(self.changes) or 'none'},")
            printer.breakable()
            printer.text("origin=")
            printer.pretty(self.origin)


def mutated(
    strategy: SearchStrategy[T], *, max_changes: int = 4, version: int | None = None
) -> SearchStrategy[Mutated]:
    """Draw bytes that are valid except for some changes.

    Changes are bits flipped, bytes cut off, removed, repeated or inserted, a piece of another drawn value in place of
    one, and wrong numbers: a length or count that is one off, zero, negative or huge, or a varint without an end. In a
    `Wire`, which the strategies of this package draw, wrong numbers replace the numbers at its places; in other bytes
    they go anywhere. Half of the time, the checksums of batches are corrected after the damage, so that they pass.

    The simplest form of every change is "nothing", so a failing example shrinks to valid bytes with the least damage.

    Args:
        strategy: draws bytes, or anything with `data`: a `Versioned`, `EncodedBatch`, `RecordsBlob` or `Frame`; or
            messages, with a `version`.
        max_changes: the most changes; there is at least one.
        version: the version in which to encode messages.

    Returns:
        A strategy of `Mutated`.

    Raises:
        ValueError: `max_changes` is below 1.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import mutated, record_batches
        >>> @given(mutated(record_batches()))
        ... def test_damage_raises_one_error(damaged):
        ...     try:
        ...         kafwire.records.decode_batches(bytes(damaged))
        ...     except kafwire.ProtocolError:
        ...         pass
        >>> test_damage_raises_one_error()
    """
    if max_changes < 1:
        raise ValueError(f"max_changes is {max_changes}; at least 1 is needed")
    return _mutated(strategy, max_changes, version)


@st.composite
def _mutated(draw: DrawFn, strategy: SearchStrategy[Any], max_changes: int, version: int | None) -> Mutated:
    origin = draw(strategy)
    valid = _bytes_of(origin, version)
    damage = _Damage(draw, valid, strategy.map(lambda value: _bytes_of(value, version)))
    changes: list[str] = []
    for _ in range(draw(st.integers(1, max_changes))):
        before = bytes(damage.data)
        said = getattr(damage, draw(st.sampled_from(_CHANGES)))()
        if damage.data != before:
            changes.append(said)
    repair = valid.repair if isinstance(valid, Wire) else None
    if changes and repair is not None and draw(st.booleans()):
        repaired = repair(bytes(damage.data))
        if repaired != damage.data:
            changes.append("checksum put right")
        return Mutated(repaired, origin, tuple(changes))
    return Mutated(bytes(damage.data), origin, tuple(changes))


_CHANGES = ("lie", "flip", "cut", "remove", "insert", "repeat", "splice")


class _Damage:
    """Bytes under change. Each change returns a description of itself."""

    def __init__(self, draw: DrawFn, valid: bytes, others: SearchStrategy[bytes]) -> None:
        self.data = bytearray(valid)
        self._places = list(valid.places) if isinstance(valid, Wire) else []
        self._draw = draw
        self._others = others

    def _at(self) -> int:
        return self._draw(st.integers(0, len(self.data)))

    def _replace(self, at: int, gone: int, new: bytes) -> None:
        """Replace bytes, forget the places within them, and move the later ones."""
        self.data[at : at + gone] = new
        self._places = [
            place._replace(offset=place.offset + len(new) - gone) if place.offset >= at + gone else place
            for place in self._places
            if place.offset >= at + gone or place.offset + place.size <= at
        ]

    def lie(self) -> str:
        """Replace a number by another one."""
        draw = self._draw
        known = [place for place in self._places if place.offset + place.size <= len(self.data)]
        if known:
            place = draw(st.sampled_from(known))
        else:
            form = draw(st.sampled_from(_FORMS))
            at = self._at()
            place = Place(at, min(_BITS.get(form, 8) // 8, len(self.data) - at), form, f"a number ({form})")
        true = _read(bytes(self.data[place.offset : place.offset + place.size]), place.form)
        odd = b""
        value = true
        kind = draw(st.integers(0, 3))
        if kind == 0:
            value += draw(st.integers(0, 16) | st.integers(-16, 0))
        elif kind == 1:
            value = draw(st.sampled_from(_EXTREMES))
        elif kind == 2 or "varint" not in place.form:
            value = draw(st.integers(-(1 << 31), (1 << 31) - 1))
        else:
            odd = draw(st.sampled_from(_ODD_VARINTS))
        if odd or value != true:
            self._replace(place.offset, place.size, odd or _written(value, place.form))
        return f"{place.name} at {place.offset}: {true} -> {'0x' + odd.hex() if odd else value}"

    def flip(self) -> str:
        """Change the bits of a byte."""
        if not self.data:
            return ""
        at = self._draw(st.integers(0, len(self.data) - 1))
        old = self.data[at]
        self.data[at] ^= self._draw(st.integers(0, 255))
        return f"byte {at}: {old:#04x} -> {self.data[at]:#04x}"

    def cut(self) -> str:
        """Take bytes off the end."""
        count = self._draw(st.integers(0, len(self.data)))
        self._replace(len(self.data) - count, count, b"")
        return f"the last {count} bytes cut off"

    def remove(self) -> str:
        """Take bytes out."""
        at = self._at()
        count = self._draw(st.integers(0, min(16, len(self.data) - at)))
        self._replace(at, count, b"")
        return f"{count} bytes at {at} removed"

    def insert(self) -> str:
        """Put bytes in."""
        at = self._at()
        more = self._draw(st.binary(max_size=12))
        self._replace(at, 0, more)
        return f"{more!r} put in at {at}"

    def repeat(self) -> str:
        """Put bytes in twice."""
        at = self._at()
        count = self._draw(st.integers(0, min(64, len(self.data) - at)))
        self._replace(at, 0, bytes(self.data[at : at + count]))
        return f"{count} bytes at {at} repeated"

    def splice(self) -> str:
        """Replace bytes by a piece of another valid value."""
        at = self._at()
        gone = self._draw(st.integers(0, min(64, len(self.data) - at)))
        other = self._draw(self._others)
        begin = self._draw(st.integers(0, len(other)))
        piece = bytes(other[begin : begin + self._draw(st.integers(0, 256))])
        self._replace(at, gone, piece)
        return f"{gone} bytes at {at} replaced by {piece!r}"


def _bytes_of(value: Any, version: int | None) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, HasData):
        return value.data
    if isinstance(value, Message) and version is not None:
        return encoded(value, version)
    need = "needs a version for" if isinstance(value, Message) else "takes bytes, or an object with `data`, not"
    raise TypeError(f"mutated() {need} {type(value).__name__}")


def _written(value: int, form: str) -> bytes:
    if form == "varint":
        return varint(max(-(1 << 63), min(value, (1 << 63) - 1)))
    if form == "uvarint":
        return uvarint(value & ((1 << 32) - 1 if -(1 << 31) <= value < 1 << 32 else (1 << 64) - 1))
    bits = _BITS[form]
    return (value & ((1 << bits) - 1)).to_bytes(bits // 8, "big")


def _read(data: bytes, form: str) -> int:
    """Return the number at the start of `data`; missing bytes count as zeros."""
    if form in _BITS:
        return int.from_bytes(data[: _BITS[form] // 8].ljust(_BITS[form] // 8, b"\0"), "big", signed=True)
    value = shift = 0
    for byte in data[:10]:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return (value >> 1) ^ -(value & 1) if form == "varint" else value
