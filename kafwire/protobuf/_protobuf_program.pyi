from collections.abc import Sequence

from kafwire.value_columns._value_columns import Program

class ProtobufProgram(Program):
    def __init__(
        self,
        messages: Sequence[tuple[int, ...]],
        fields: Sequence[tuple[int, ...]],
        tables: Sequence[int],
        texts: bytes,
        indexes: bytes | None,
    ) -> None: ...
