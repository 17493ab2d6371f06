from collections.abc import Sequence

from kafwire.value_columns._value_columns import Program

class AvroProgram(Program):
    def __init__(
        self, ops: Sequence[tuple[int, int, int, int, int, int]], tables: Sequence[int], constants: bytes
    ) -> None: ...
