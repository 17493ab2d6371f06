"""One direction of a connection: bytes in, frames out. Pure: no I/O."""

from kafwire.errors import ProtocolError

__all__ = ["MAX_FRAME_BYTES", "SIZE_BYTES", "FrameStream"]

MAX_FRAME_BYTES = 100 << 20
SIZE_BYTES = 4

_OTHER_PROTOCOLS = {
    b"\x16\x03": "this is a TLS handshake: encrypted bytes cannot be decoded",
    b"\x17\x03": "these are TLS records: encrypted bytes cannot be decoded",
    b"HTTP": "this is HTTP",
    b"GET ": "this is HTTP",
    b"POST": "this is HTTP",
}


class FrameStream:
    """Bytes are added to `buffer`; `peek` and `skip` go through the frames. `position` is the start of the buffer."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.buffer = bytearray()
        self.position = 0
        self.ended = False
        self._max_frame_bytes = max_frame_bytes
        self._frame: bytes | None = None  # the frame of the last `peek`

    def peek(self) -> bytes | None:
        """Return the next frame without its size, or None while it is incomplete."""
        if self._frame is None and (size := self.size()) is not None and len(self.buffer) - SIZE_BYTES >= size:
            self._frame = bytes(memoryview(self.buffer)[SIZE_BYTES : SIZE_BYTES + size])
        return self._frame

    def size(self) -> int | None:
        """Return the next frame's size field; None while it is incomplete.

        Raises `ProtocolError` for an impossible frame size.
        """
        if len(self.buffer) < SIZE_BYTES:
            return None
        size = int.from_bytes(self.buffer[:SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._max_frame_bytes:
            start = bytes(self.buffer[:SIZE_BYTES])
            other = next((text for prefix, text in _OTHER_PROTOCOLS.items() if start.startswith(prefix)), None)
            raise ProtocolError(
                f"no frame has a size of {size} bytes, the limit is {self._max_frame_bytes}; "
                + (other or "does the stream begin where the connection did?"),
                offset=self.position,
            )
        return size

    def skip(self) -> None:
        """Skip the frame that `peek` returned."""
        assert self._frame is not None
        whole = SIZE_BYTES + len(self._frame)
        del self.buffer[:whole]
        self.position += whole
        self._frame = None
