"""A parser of RE2's syntax. Its tree has lists for sequences and tuples for alternatives; it knows nothing of matching.

See RE2's syntax (github.com/google/re2/wiki/Syntax). The parser drops captures and laziness, as patterns match whole
texts. RE2's syntax has no back-references and lookarounds, so the parser refuses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

MOST_TEXT = 50_000
MOST_NESTED = 100
MOST_REPEATS = 1000  # as in RE2

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")  # RE2 reads {01} as text
_GROUP = re.compile(r"\(\?P?<[A-Za-z_]\w*>|\(\?([imsU]*(?:-[imsU]+)?)([:)])|\((?!\?)", re.ASCII)
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_SPACES, _NO_SPACES = r"\t\n\f\r ", r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff"
_RANGES = (r"\d", r"\D", r"\w", r"\W", _SPACES, _NO_SPACES)
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class PatternError(ValueError):
    """A text is no valid pattern; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Character:
    """One character of a class."""

    expression: re.Pattern[str]

    def passes(self, char: str) -> bool:
        """True if the class has this character."""
        return self.expression.match(char) is not None


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place in the text: `^`, `$`, or `b` and `B` for a word boundary and no word boundary."""

    kind: str
    by_line: bool = False

    def holds(self, before: str, after: str) -> bool:
        """True if the assertion holds between two characters, which are empty at the text's ends."""
        if self.kind == "^":
            return not before or (self.by_line and before == "\n")
        if self.kind == "$":
            return not after or (self.by_line and after == "\n")
        return (_is_word(before) != _is_word(after)) is (self.kind == "b")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part with its least and most repetitions; `most` None: no limit."""

    part: PatternNode
    least: int
    most: int | None


PatternNode: TypeAlias = "Character | Assertion | Repeat | list[PatternNode] | tuple[PatternNode, ...]"


def parse(text: str) -> PatternNode:
    """Return the tree of a pattern.

    Raises:
        PatternError: the pattern is invalid.
    """
    if len(text) > MOST_TEXT:
        raise PatternError("expression is too large")
    return _Parser(text).run()


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = frozenset[str]()

    def run(self) -> PatternNode:
        node = self._alternatives(0)
        if self._at < len(self._text):
            raise PatternError(f"unexpected ): {self._text}")
        return node

    def _alternatives(self, depth: int) -> PatternNode:
        if depth > MOST_NESTED:
            raise PatternError("expression nests too deeply")
        found: list[PatternNode] = []
        part: list[PatternNode] = []
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "|":
                self._at += 1
                found.append(part)
                part = []
            elif (match := _GROUP.match(self._text, self._at)) and match[2] == ")":
                self._at = match.end()
                self._set_flags(match[1])  # until the group around it ends
                part[-1:] = [self._repeated(each) for each in part[-1:]]  # as in RE2
            elif self._text.startswith("\\Q", self._at):
                quoted = self._quoted()
                part += quoted[:-1]
                part += [self._repeated(each) for each in quoted[-1:]]
            else:
                part.append(self._repeated(self._atom(depth)))
        return (*found, part) if found else part

    # --- repetitions

    def _repeated(self, atom: PatternNode) -> PatternNode:
        begin = self._at
        operator = self._operator()
        if operator is None:
            return atom
        least, most = operator
        if self._at < len(self._text) and self._text[self._at] == "?":
            self._at += 1  # lazy: the same texts match
        end = self._at
        if self._operator() is not None:
            raise PatternError(f"bad repetition operator: {self._text[begin : self._at]}")
        self._at = end
        return Repeat(atom, least, most)

    def _operator(self) -> tuple[int, int | None] | None:
        if self._at >= len(self._text):
            return None
        known: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if found := known.get(self._text[self._at]):
            self._at += 1
            return found
        match = _REPEAT.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        least = int(match[1][:5])  # five digits are above the limit, whatever follows
        most = int(match[3][:5]) if match[3] else None if match[2] else least
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise PatternError(f"bad repetition operator: {match[0]}")
        return least, most

    # --- atoms

    def _atom(self, depth: int) -> PatternNode:
        begin = self._at
        if self._operator() is not None:
            raise PatternError(f"no argument for repetition operator: {self._text[begin : self._at]}")
        char = self._text[self._at]
        if char == "(":
            return self._group(depth)
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        self._at += 1
        if char in "^$":
            return Assertion(char, "m" in self._flags)
        return self._test("." if char == "." else re.escape(char))

    def _group(self, depth: int) -> PatternNode:
        match = _GROUP.match(self._text, self._at)
        if match is None:
            raise PatternError(f"invalid perl operator: {self._text[self._at : self._at + 3]}")
        self._at = match.end()
        before = self._flags
        self._set_flags(match[1] or "")
        node = self._alternatives(depth + 1)
        if self._at >= len(self._text):
            raise PatternError(f"missing ): {self._text}")
        self._at += 1
        self._flags = before
        return node

    def _set_flags(self, text: str) -> None:
        on, _, off = text.partition("-")
        self._flags = (self._flags | frozenset(on)) - frozenset(off)

    def _quoted(self) -> list[PatternNode]:
        r"""Return the characters between `\Q` and `\E`."""
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at + 2 : end if end >= 0 else None]
        self._at = end + 2 if end >= 0 else len(self._text)
        return [self._test(re.escape(each)) for each in quoted]

    def _escape(self) -> PatternNode:
        following = self._text[self._at + 1 : self._at + 2]
        if following in ("b", "B", "A", "z"):
            self._at += 2
            return Assertion({"A": "^", "z": "$"}.get(following, following))
        return self._test(self._escaped())

    def _escaped(self) -> str:
        """Return one character or class after a backslash, in Python's syntax, inside a class and outside."""
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise PatternError("trailing \\")
        for expression, base in ((_HEX, 16), (_OCTAL, 8)):
            if match := expression.match(self._text, self._at):
                self._at = match.end()
                point = int(next(each for each in match.groups() if each), base)
                if point > 0x10FFFF:
                    break
                return re.escape(chr(point))
        self._at += 2
        if following in _CONTROLS:
            return re.escape(_CONTROLS[following])
        if following in "dDwW":
            return f"\\{following}"
        if following in "sS":  # without \v, as in RE2
            return _SPACES if following == "s" else _NO_SPACES
        if following in "pP":
            raise PatternError(f"\\{following} needs google-re2: install kafwire[re2]")
        if following.isascii() and not following.isalnum():
            return re.escape(following)
        raise PatternError(f"invalid escape sequence: \\{following}")

    def _class(self) -> PatternNode:
        begin = self._at
        self._at += 1
        text = "["
        if self._text.startswith("^", self._at):
            self._at += 1
            text = "[^"
        is_first = True
        while is_first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise PatternError(f"missing ]: {self._text[begin:]}")
            text += self._range()
            is_first = False
        self._at += 1
        return self._test(f"{text}]", self._text[begin : self._at])

    def _range(self) -> str:
        """Return a part of a class: a character, a range of them, or a class within it."""
        first = self._member()
        if not self._text.startswith("-", self._at) or self._text.startswith("]", self._at + 1):
            return first
        self._at += 1
        if self._at >= len(self._text):
            raise PatternError("missing ]")
        last = self._member()
        bad = [each for each in (first, last) if each in _RANGES or each in _CLASSES.values()]
        if bad:
            raise PatternError(f"invalid character class range: {first}-{last}")
        return f"{first}-{last}"

    def _member(self) -> str:
        if self._text.startswith("[:", self._at):
            end = self._text.find(":]", self._at)
            if end >= 0:
                return self._named(end)
        char = self._text[self._at]
        if char == "\\":
            return self._escaped()
        self._at += 1
        return re.escape(char)

    def _named(self, end: int) -> str:
        name = self._text[self._at + 2 : end]
        known = _CLASSES.get(name.removeprefix("^"))
        if known is None:
            raise PatternError(f"invalid character class range: {self._text[self._at : end + 2]}")
        if name.startswith("^"):
            raise PatternError(f"{self._text[self._at : end + 2]} needs google-re2: install kafwire[re2]")
        self._at = end + 2
        return known

    def _test(self, expression: str, shown: str = "") -> Character:
        flags = re.ASCII
        if "i" in self._flags:
            flags |= re.IGNORECASE
        if "s" in self._flags:
            flags |= re.DOTALL
        if len(expression) > 2 and expression[0] != "[":
            expression = f"[{expression}]"
        try:
            return Character(re.compile(expression, flags))
        except re.error:
            raise PatternError(f"invalid character class range: {shown or expression}") from None
