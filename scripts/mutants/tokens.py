"""The words of C and of Cython, with their places. Comments and C's preprocessor lines are none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CAST = re.compile(r"(?<![\w)\]] )< ?(\w+(?: \w+)*)((?: ?\*)*) > ?(?=[\w(])")
OPEN, CLOSE = "([{", ")]}"

_NUMBER = r"0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*"
_CYTHON = re.compile(
    r"""(?P<skip>[ \t\f\r]+|\\\n|\#[^\n]*)
    |(?P<string>[a-zA-Z]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<number>"""
    + _NUMBER
    + r""")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<line>\n)
    |(?P<sign>\*\*=|//=|<<=|>>=|\.\.\.|->|\*\*|//|<<|>>|<=|>=|==|!=|:=|[-+*/%&|^]=|[^\w\s])""",
    re.VERBOSE | re.DOTALL,
)
_C = re.compile(
    r"""(?P<skip>[ \t\f\r\n]+|\\\n|//[^\n]*|/\*.*?\*/|(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<string>[uUL]?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>"""
    + _NUMBER
    + r""")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\w\s])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A word: `kind` is string, number, name, sign, or line (Cython's end of a line)."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the next character is."""
        return self.start + len(self.text)


def words(source: str, *, cython: bool) -> Iterator[Token]:
    """All words of a source."""
    pattern, place = (_CYTHON if cython else _C), 0
    while place < len(source):
        match = pattern.match(source, place)
        if match is None:
            raise ValueError(f"no word begins with {source[place : place + 20]!r}")
        place = match.end()
        if match.lastgroup != "skip":
            yield Token(str(match.lastgroup), match.group(), match.start())


def text(tokens: Sequence[Token]) -> str:
    """Words with the spaces that make them easy to read, the same however they stood in the source."""
    found = ""
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is None or not _needs_space(before, token):
            found += token.text
        else:
            found += f" {token.text}"
    return CAST.sub(r"<\1\2>", found)


def _needs_space(before: Token, token: Token) -> bool:
    tight = before.text in {"(", "[", ".", "->", "!", "~"} or token.text in {")", "]", ",", ".", "->", ";", "[", ":"}
    calls = token.text == "(" and before.kind == "name"
    return not (tight or calls)


def split(tokens: Sequence[Token], at: str) -> list[Sequence[Token]]:
    """The parts between separators that stand in no bracket."""
    parts, begin = [], 0
    for number, depth in depths(tokens):
        if depth == 0 and tokens[number].text == at:
            parts.append(tokens[begin:number])
            begin = number + 1
    return [*parts, tokens[begin:]]


def depths(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """(index, how deep in brackets) of each word; a bracket is outside of itself."""
    depth = 0
    for number, token in enumerate(tokens):
        if token.text in CLOSE and token.kind == "sign":
            depth -= 1
        yield number, depth
        if token.text in OPEN and token.kind == "sign":
            depth += 1


def closing(tokens: Sequence[Token], begin: int) -> int:
    """The index of the bracket that closes the one at `begin`."""
    for number, depth in depths(tokens[begin:]):
        if number and depth == 0:
            return begin + number
    raise ValueError(f"nothing closes the bracket at {tokens[begin].start}")
