BOOL: int
INT: int
FLOAT32: int
FLOAT64: int
STRING: int
ROW_NULL: int
ROW_READ: int
ROW_LEFT: int

class Memory:
    address: int
    size: int
    def __init__(self, size: int) -> None: ...

def read_rows(
    fields: list[tuple[bytes, int, int, int, int]], data: int, offsets: int, first: int, rows: int, valid: int
) -> tuple[int, Memory, Memory, list[tuple[int, Memory, Memory, Memory | None]]]: ...
def join_rows(data: int, offsets: int, first: int, rows: int, valid: int) -> Memory: ...
