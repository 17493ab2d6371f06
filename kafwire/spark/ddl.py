"""Columns as Spark's DDL writes them, `carrier STRING, delay INT`: a text in, Spark's types out.

Pure but for pyspark's type classes: pyspark's own parser is Java's, and the processes of a data source have no JVM.
"""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kafwire.errors import ConfigError

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}
_WORD = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z0-9_]+)|(.))", re.DOTALL)
_MOST_DEPTH = 64
_MOST_DIGITS = 38


def parse_columns(option: str, text: str) -> StructType:
    """The columns of `text`; raises `ConfigError`, which names `option` and the place."""
    parser = _Parser(option, text)
    found = parser.fields("", 0)
    parser.end()
    return found


class _Parser:
    def __init__(self, option: str, text: str) -> None:
        self._option, self._text = option, text
        self._words = [found[1] or found[2] or found[3] for found in _WORD.finditer(text.strip())]
        self._at = 0

    def fields(self, close: str, depth: int) -> StructType:
        found = StructType()
        while True:
            name = self._name()
            self._skip(":")
            found.add(name, self._type(depth))
            if self._peek().lower() == "not":
                raise self._wrong(f"column {name} may hold nulls: leave NOT NULL out")
            if not self._skip(","):
                break
        if close and not self._skip(close):
            raise self._wrong(f"{close} is missing before {self._peek()!r}" if self._peek() else f"{close} is missing")
        names = [name.lower() for name in found.names]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self._wrong(f"the column {twice} is named twice")
        return found

    def end(self) -> None:
        if self._peek():
            raise self._wrong(f"a comma or the end is needed before {self._peek()!r}")

    def _type(self, depth: int) -> DataType:
        if depth > _MOST_DEPTH:
            raise self._wrong(f"types are nested more than {_MOST_DEPTH} deep")
        name = self._next().lower()
        if name in _PLAIN:
            return _PLAIN[name]
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name not in ("array", "map", "struct"):
            raise self._wrong(f"{name!r} is no type: use {', '.join(_PLAIN)}, decimal, array, map or struct")
        self._need("<")
        if name == "struct":
            return self.fields(">", depth + 1)
        inner = self._type(depth + 1)
        if name == "map":
            self._need(",")
            inner, key = self._type(depth + 1), inner
        self._need(">")
        return ArrayType(inner) if name == "array" else MapType(key, inner)

    def _decimal(self) -> DecimalType:
        precision, scale = 10, 0  # Spark's defaults
        if self._skip("("):
            precision = self._number()
            scale = self._number() if self._skip(",") else 0
            self._need(")")
        if not scale <= precision <= _MOST_DIGITS or precision < 1:
            raise self._wrong(f"decimal({precision},{scale}) has 1 to {_MOST_DIGITS} digits, the scale among them")
        return DecimalType(precision, scale)

    def _name(self) -> str:
        word = self._next()
        if word.startswith("`") and len(word) > 1:
            return word[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", word, re.ASCII):
            raise self._wrong(f"a column's name is needed, not {word!r}" if word else "a column's name is missing")
        return word

    def _number(self) -> int:
        word = self._next()
        if not re.fullmatch(r"[0-9]{1,4}", word):
            raise self._wrong(f"a number is needed, not {word!r}")
        return int(word)

    def _need(self, word: str) -> None:
        if not self._skip(word):
            raise self._wrong(f"{word} is needed before {self._peek()!r}" if self._peek() else f"{word} is missing")

    def _skip(self, word: str) -> bool:
        if self._peek() != word:
            return False
        self._at += 1
        return True

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _wrong(self, why: str) -> ConfigError:
        return ConfigError(
            f"option {self._option}={self._text!r}: {why}; columns are written as in Spark's DDL, such as "
            "'carrier STRING, delay INT'"
        )
