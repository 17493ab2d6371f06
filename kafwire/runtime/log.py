"""`log`: the logger `kafwire`, and those of areas (`consumer_log`), for code that may run in kafwire's own threads.

Keyword arguments of a call are the fields of the event, such as `topic` and `partition`: the dict `kafwire` of the log
record has them.

A user's log handler may take locks, send to Kafka, or wait. So the engine's thread and the callback thread never enter
the module `logging`, not even to check a level: dictConfig holds the lock for that while it closes handlers. The thread
of `Reports` emits their lines. Any other thread logs directly.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from types import TracebackType
from typing import Any, Final

from kafwire.errors import name_of
from kafwire.foreign_text import printable
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.patched import get_ident, thread_local, thread_name

NAME = "kafwire"
# The loggers below it, by area.
AREAS = ("consumer", "producer", "cluster", "security", "stream", "outbox")

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class _Shown:
    """An argument of a log line, shown in printable characters."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return printable(str(self._value))

    def __repr__(self) -> str:
        return printable(repr(self._value))


class Printable(logging.Filter):
    """Escapes log arguments: text from the network or other programs cannot forge log lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the arguments that are not printable; every record passes."""
        if isinstance(record.args, tuple) and record.args:
            record.args = tuple(map(_shown, record.args))
        return True


def _shown(value: Any) -> Any:
    if isinstance(value, int | float) or str(value).isprintable():
        return value
    return printable(value) if isinstance(value, str) else _Shown(value)


for _name in (NAME, *(f"{NAME}.{area}" for area in (*AREAS, "spark"))):
    logging.getLogger(_name).addFilter(Printable())  # a logger's filters do not see the lines of loggers below it


class _Here(thread_local):
    """Per thread: the function that takes its lines; None: log directly."""

    take: Callable[[LogLine], object] | None = None


_here = _Here()
# The attribute of log records with the fields of their events.
FIELDS = "kafwire"
# A child forked within a delivery callback runs on in that thread, and has no thread that would take its lines.
os.register_at_fork(after_in_child=lambda: setattr(_here, "take", None))


def leave_by(take: Callable[[LogLine], object]) -> None:
    """Pass the lines of the current thread to `take` from now on."""
    _here.take = take


@contextlib.contextmanager
def muted(name: str) -> Iterator[None]:
    """Drop the lines that the current thread logs by another logger. Not for the engine's thread.

    asyncio reports each new loop at DEBUG, and a handler would run in the middle of starting kafwire.
    """
    thread = get_ident()

    def is_other(_: logging.LogRecord) -> bool:
        return get_ident() != thread

    logger = logging.getLogger(name)
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


@dataclass(slots=True)
class LogLine:
    """One call of `log`, with the data of its thread for the log record."""

    logger: logging.Logger
    level: int
    text: str
    args: tuple[Any, ...]
    exc_info: _ExcInfo | None
    place: tuple[str, int, str]  # file, line, function
    fields: dict[str, Any]
    time_ns: int = field(default_factory=time.time_ns)
    thread: int = field(default_factory=get_ident)
    thread_name: str = field(default_factory=thread_name)

    def emit(self) -> None:
        """Pass the line to the handlers."""
        logger = self.logger
        if not logger.isEnabledFor(self.level):
            return
        file, line, function = self.place
        extra = {FIELDS: self.fields}
        record = logger.makeRecord(
            logger.name, self.level, file, line, self.text, self.args, self.exc_info, function, extra
        )
        late_ms = record.created * 1000.0 - self.time_ns / 1e6
        record.created = self.time_ns / 1e9
        record.msecs = float(self.time_ns // 1_000_000 % 1000)
        record.relativeCreated -= late_ms
        record.thread, record.threadName = self.thread, self.thread_name
        logger.handle(record)


class EngineLog:
    """The logger of an area, with the methods of a `logging.Logger` that kafwire uses."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, text: str, *args: object, **fields: object) -> None:
        """Log at DEBUG."""
        self._log(logging.DEBUG, text, args, fields)

    def info(self, text: str, *args: object, **fields: object) -> None:
        """Log at INFO."""
        self._log(logging.INFO, text, args, fields)

    def warning(self, text: str, *args: object, exc_info: BaseException | None = None, **fields: object) -> None:
        """Log at WARNING."""
        self._log(logging.WARNING, text, args, fields, exc_info)

    def error(self, text: str, *args: object, exc_info: BaseException | None = None, **fields: object) -> None:
        """Log at ERROR."""
        self._log(logging.ERROR, text, args, fields, exc_info)

    def exception(self, text: str, *args: object, **fields: object) -> None:
        """Log at ERROR, with the exception being handled."""
        self._log(logging.ERROR, text, args, fields, sys.exc_info()[1])

    def log(self, level: int, text: str, *args: object, **fields: object) -> None:
        """Log at a level."""
        self._log(level, text, args, fields)

    def _log(
        self,
        level: int,
        text: str,
        args: tuple[object, ...],
        fields: dict[str, object],
        error: BaseException | None = None,
    ) -> None:
        take = _here.take
        if take is None:
            if self._logger.isEnabledFor(level):
                extra = {FIELDS: _plain(fields)}
                self._logger.log(level, text, *args, exc_info=error, stacklevel=3, extra=extra)
        elif level >= self._logger.getEffectiveLevel():  # reads fields, and takes no lock
            frame = sys._getframe(2)
            place = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
            exc_info = None if error is None else (type(error), error, error.__traceback__)
            take(LogLine(self._logger, level, text, args, exc_info, place, _plain(fields)))


def _plain(fields: dict[str, object]) -> dict[str, Any]:
    """Return fields that `json.dumps` takes. An error is its name, as in the metrics."""
    return {key: _plain_value(value) for key, value in fields.items()}


def _plain_value(value: object) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain_value(each) for each in value]
    if isinstance(value, BaseException):
        return name_of(value)
    return str(value)


log: Final = EngineLog(NAME)
consumer_log: Final = EngineLog(f"{NAME}.consumer")
producer_log: Final = EngineLog(f"{NAME}.producer")
cluster_log: Final = EngineLog(f"{NAME}.cluster")
security_log: Final = EngineLog(f"{NAME}.security")
stream_log: Final = EngineLog(f"{NAME}.stream")
outbox_log: Final = EngineLog(f"{NAME}.outbox")
