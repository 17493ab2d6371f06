# What kafwire's fuzzing uses of atheris, which brings no types.
from collections.abc import Callable
from contextlib import AbstractContextManager

def instrument_imports(
    include: list[str] | None = None, exclude: list[str] | None = None, enable_loader_override: bool = True
) -> AbstractContextManager[None]: ...
def Setup(args: list[str], test_one_input: Callable[[bytes], None]) -> list[str]: ...  # noqa: N802
def Fuzz() -> None: ...  # noqa: N802
