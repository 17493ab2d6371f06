from collections.abc import Iterable, Mapping

class Layout:
    def __init__(
        self,
        topic: str | bytes | None = None,
        partition: int = -1,
        *,
        columns: Iterable[str] | None = None,
        names: Mapping[str, str] | None = None,
        timestamp_unit: str = "ms",
        timestamp_type: str = "int8",
        transient: bool = False,
    ) -> None: ...
    def __arrow_c_schema__(self) -> object: ...
