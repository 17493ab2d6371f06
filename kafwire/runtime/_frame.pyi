from collections.abc import Sequence
from typing import Final, final

from typing_extensions import Buffer as BytesLike

from kafwire.memory._buffer import Buffer

RESPONSE: Final[int]
SENT: Final[int]

@final
class Frames:
    def __init__(self, max_frame: int) -> None: ...
    max_frame: int
    @property
    def pending_bytes(self) -> int: ...
    @property
    def inside_frame(self) -> bool: ...
    @property
    def poison(self) -> str | None: ...
    def queue(
        self,
        token: int,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        expect_response: bool = True,
    ) -> None: ...
    def take(self, limit: int = 65536) -> bytes: ...
    def feed(self, data: BytesLike) -> None: ...
    def completions(self) -> list[tuple[int, int, Buffer | None]]: ...
    def outstanding(self) -> list[int]: ...
