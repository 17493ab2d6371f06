from collections.abc import Sequence

from kafwire.value_columns._value_encoding import Writer

class ProtobufWriter(Writer):
    def __init__(
        self, ops: Sequence[tuple[int, ...]], count: int, tables: Sequence[int], texts: bytes, root: int, views: int
    ) -> None: ...
