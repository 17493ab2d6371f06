from collections.abc import Sequence
from typing import Any, Final, final

from kafwire.memory._buffer import Buffer
from kafwire.runtime._interfaces import Notifier, RequestTable, ResponseFilter, StreamSource

CONNECTED: Final[int]
RESPONSE: Final[int]
SENT: Final[int]
CLOSED: Final[int]
POSTED: Final[int]

@final
class Loop:
    def fileno(self) -> int: ...
    def connect(
        self,
        sockaddr: tuple[str, int] | tuple[str, int, int, int],
        family: int,
        *,
        max_frame: int,
        stream: StreamSource | None = None,
        send_buffer: int = 0,
        receive_buffer: int = 0,
    ) -> int: ...
    def submit(
        self,
        connection: int,
        token: int,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        expect_response: bool,
        past_hold: bool = False,
    ) -> None: ...
    def hold(self, connection: int, holding: bool) -> None: ...
    def set_max_frame(self, connection: int, max_frame: int) -> None: ...
    def close_connection(self, connection: int) -> None: ...
    def drain(self) -> list[tuple[int, int, int, Any]]: ...
    def post(self, cookie: int) -> None: ...
    def notifier(self, cookie: int) -> Notifier: ...
    def requests(self, connection: int) -> RequestTable: ...
    def set_response_filter(self, connection: int, response_filter: ResponseFilter) -> None: ...
    def statistics(self) -> dict[str, int]: ...
    def stop(self) -> None: ...
