from collections.abc import Sequence

from kafwire.value_columns._value_encoding import Writer

class AvroWriter(Writer):
    def __init__(
        self, ops: Sequence[tuple[int, ...]], tables: Sequence[int], constants: bytes, root: int, views: int
    ) -> None: ...
