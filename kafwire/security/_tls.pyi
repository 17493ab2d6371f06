from typing import final

from kafwire.runtime._interfaces import StreamSource

PROBLEMS: dict[int, str]

class UnusableSettings(Exception):
    part: str
    reason: str
    def __init__(self, part: str, reason: str) -> None: ...

def library() -> str: ...
def read_pkcs12(data: bytes, password: bytes) -> tuple[bytes, bytes]: ...

@final
class Context:
    def __init__(
        self,
        *,
        trusted: bytes | tuple[bytes, ...] | None = None,
        certificates: bytes | tuple[bytes, ...] | None = None,
        key: bytes | None = None,
        password: bytes | None = None,
        revoked: bytes | tuple[bytes, ...] | None = None,
        ciphers: bytes | None = None,
        suites: bytes | None = None,
        versions: tuple[int, int] = (2, 3),
        verify: bool = True,
        verify_name: bool = True,
        kernel: bool = False,
    ) -> None: ...
    @property
    def unreadable(self) -> tuple[tuple[str, int, str], ...]: ...
    @property
    def allows_kernel(self) -> bool: ...
    def source(self, host: str, is_address: bool, port: int) -> TlsSource: ...
    def take_common_name(self) -> str | None: ...
    def statistics(self) -> dict[str, int]: ...

@final
class TlsSource(StreamSource):
    def __init__(self, context: Context, host: bytes, is_address: bool, port: int) -> None: ...
