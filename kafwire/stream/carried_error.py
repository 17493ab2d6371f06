"""`CarriedError`: a handler's error in another process, on its way to the process that runs the stream.

Policies depend on the type of an error. Pickle keeps it only if a call of the class with `args` makes the same error,
and if both processes find the class by the same name: a class of the program's own module is `__mp_main__.Busy` in one,
and `__main__.Busy` in the other.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from importlib import import_module
from typing import Any

# A spawned process has its parent's main module under the first name.
_CHILDS_MAIN, _MAIN = "__mp_main__", "__main__"


class CarriedError(Exception):
    """An error in parts that pickle without the error's class. `restored` makes the error again."""

    def __init__(
        self,
        text: str,
        classes: list[tuple[str, str]],
        pickled: bytes | None,
        args: list[bytes],
        state: dict[str, bytes],
    ) -> None:
        """`classes` name the error's class and its bases; `pickled` is the error itself, if that works."""
        super().__init__(text, classes, pickled, args, state)
        self._text = text
        self._classes = classes
        self._pickled = pickled
        self._args = args
        self._state = state

    @classmethod
    def of(cls, error: Exception) -> CarriedError:
        """Take an error apart, in the process that raised it."""
        names = [(_module_of(kind), kind.__qualname__) for kind in type(error).__mro__[:-1]]
        pickled = None
        with contextlib.suppress(Exception):  # whatever its constructor raises
            found = pickle.dumps(error)
            copy = pickle.loads(found)  # noqa: S301  # our own bytes
            if type(copy) is type(error) and str(copy) == str(error) and vars(copy).keys() == vars(error).keys():
                pickled = found
        args = [_pickled(value) for value in error.args]
        state = {name: _pickled(value) for name, value in vars(error).items() if name != "__notes__"}
        try:
            text = str(error)
        except Exception:  # noqa: BLE001  # whatever a user's class raises
            text = "(its str() failed)"
        return cls(text, names, pickled, args, state)

    def restored(self) -> Exception:
        """Make the error again, in the process that runs the stream. Its constructor is not called."""
        kind = _found(*self._classes[0])
        if kind is not None and self._pickled is not None:
            with contextlib.suppress(Exception):
                error = pickle.loads(self._pickled)  # noqa: S301  # bytes of our own process
                if type(error) is kind:
                    return error
        args = [_loaded(value) for value in self._args]
        state = {name: _loaded(value) for name, value in self._state.items()}
        for chosen in (kind, None):
            with contextlib.suppress(Exception):
                made = self._stand_in() if chosen is None else chosen
                error = made.__new__(made, *args)
                error.args = tuple(args)
                vars(error).update(state)
                return error
        return RuntimeError(f"{self._classes[0][1]}: {self._text}")

    def _stand_in(self) -> type[Exception]:
        """Return a class of the same name, for one that this process cannot find, on the nearest base that it finds."""
        module, name = self._classes[0]
        text = self._text
        base = next((kind for one in self._classes[1:] if (kind := _found(*one)) is not None), Exception)
        return type(name, (base,), {"__module__": module, "__qualname__": name, "__str__": lambda _: text})


def _module_of(kind: type) -> str:
    return _MAIN if kind.__module__ == _CHILDS_MAIN else kind.__module__


def _found(module: str, name: str) -> type[Exception] | None:
    """Return the class of that name in this process."""
    try:
        found: Any = sys.modules.get(module) or import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):  # such as a class defined within a function
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001  # whatever an object's own methods raise
        return pickle.dumps(repr(value))


def _loaded(value: bytes) -> Any:
    try:
        return pickle.loads(value)  # noqa: S301  # bytes of our own process
    except Exception as error:  # noqa: BLE001  # a class that this process cannot find
        return f"(cannot be unpickled here: {error})"
