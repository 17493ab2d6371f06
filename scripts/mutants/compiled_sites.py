"""The breaks that are possible in Cython and in C, found among their words: in conditions, statements and constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scripts.mutants.rules import LARGEST_CONSTANT, avoids
from scripts.mutants.site import Edit, Site, numbered
from scripts.mutants.tokens import Token, closing, depths, split, text, words

BOUNDARIES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
SWAPPED = {"min": "max", "max": "min"}
KEYWORDS = {
    *("if", "elif", "else", "while", "for", "return", "and", "or", "not", "in", "is", "raise", "yield", "lambda"),
    *("print", "case", "sizeof", "assert", "from", "import", "del", "await"),
}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "|=", "&=", "^=", "<<=", ">>=", "//="}
SILENT = {"cdef", "cimport", "import", "from", "@", "pass", "raise"}
EXITS = {"return", "raise", "break", "continue", "goto"}


@dataclass(frozen=True)
class Language:
    """How a break is written."""

    false: str
    negation: str
    conjunctions: tuple[str, str]
    nothing: str


CYTHON = Language("False", "not", ("or", "and"), "pass")
C = Language("0", "!", ("||", "&&"), ";")


def scan_cython(source: str) -> list[Site]:
    """All of them, in the order of the source."""
    return numbered(_Cython(source).sites())


def scan_c(source: str) -> list[Site]:
    """All of them, in the order of the source."""
    return numbered(_Native(source).sites())


@dataclass
class _Finder:
    """The breaks of both languages: of one condition or one statement."""

    source: str
    language: Language
    found: list[Site] = field(default_factory=list)
    function: str = ""

    def add(self, pattern: str, tokens: Sequence[Token], becomes: str, was: str | None = None) -> None:
        edit = Edit(tokens[0].start, tokens[-1].end, becomes)
        said = text(tokens) if was is None else was
        self.found.append(Site(pattern, self.function, said, becomes, (edit,)))

    def condition(self, tokens: Sequence[Token], *, guard: bool) -> None:
        """The condition of an if or a loop; `guard`: nothing but leaving depends on it."""
        said, written = text(tokens), self._written(tokens)
        if avoids("condition", said):
            return
        operators = [token.text for _, token in self._comparisons(tokens)]
        if not (len(operators) == 1 and operators[0] in {"==", "!=", "is"} and self._is_single(tokens)):
            negation = self.language.negation
            if tokens[0].text == negation and self._is_single(tokens):
                self.add("condition negated", tokens, self._written(tokens[1:]), said)
            else:
                self.add("condition negated", tokens, f"{negation} ({written})", said)
        if guard:
            self.add("guard dropped", tokens, self.language.false, said)
        for word in self.language.conjunctions:
            parts = split(tokens, word)
            if len(parts) < 2:
                continue
            for dropped in parts:
                left = [f"({self._written(part)})" for part in parts if part is not dropped]
                self.add("side dropped", tokens, f" {word} ".join(left), said)
            break

    def expressions(self, tokens: Sequence[Token]) -> None:
        """Comparisons, constants and choices anywhere in a statement."""
        for number, token in self._comparisons(tokens):
            around = self._around(tokens, number)
            if avoids("condition", around):
                continue
            if token.text in BOUNDARIES and not avoids("boundary", around):
                self.add("boundary moved", [token], BOUNDARIES[token.text], around)
                after = tokens[number + 1] if number + 1 < len(tokens) else None
                small = after is not None and re.fullmatch(r"\d+", after.text) and int(after.text) <= LARGEST_CONSTANT
                if after is not None and small and self._ends(tokens, number + 2):
                    self.add("constant moved", [after], str(int(after.text) + 1), around)
            elif token.text in BOUNDARIES:
                continue
            elif token.text == "is":
                words_of = tokens[number : number + 2]
                if len(words_of) == 2 and words_of[1].text == "not":
                    self.add("comparison negated", words_of, "is", around)
                else:
                    self.add("comparison negated", [token], "is not", around)
            else:
                self.add("comparison negated", [token], "!=" if token.text == "==" else "==", around)
        for number, token in enumerate(tokens):
            after = tokens[number + 1] if number + 1 < len(tokens) else None
            before = tokens[number - 1] if number else None
            if after is None:
                continue
            binds = number + 2 < len(tokens) and tokens[number + 2].text in {"*", "<<", "<", "//", "/"}
            is_sum = token.text in {"+", "-"} and before is not None and self._is_value(before)
            if is_sum and after.text == "1" and not binds:
                self.add("off by one", [token, after], "", self._around(tokens, number))
            if token.text in SWAPPED and after.text == "(":
                end = closing(tokens, number + 1)
                self.add(f"{token.text} swapped", [token], SWAPPED[token.text], text(tokens[number : end + 1]))

    def statement(self, tokens: Sequence[Token], whole: Sequence[Token]) -> None:
        """An assignment to what others see, or a call for its effect; `whole` has what ends the statement too."""
        target = None
        for number, depth in depths(tokens):
            if depth == 0 and tokens[number].text in ASSIGNMENTS:
                target = tokens[:number]
                break
        if target is not None:
            seen = any(token.text in {".", "->", "["} for token in target) or target[0].text == "*"
            if seen and not self._is_declaration(target):
                self.add("assignment dropped", whole, self.language.nothing)
            sign = tokens[len(target)]
            if sign.text in {"+=", "-="} and not self._is_declaration(target):
                becomes = "-=" if sign.text == "+=" else "+="
                self.add("sign changed", [sign], becomes, text(tokens))
            last = tokens[-1]
            if last.text in {"True", "False"} and len(tokens) == len(target) + 2:
                self.add("flag flipped", [last], "False" if last.text == "True" else "True", text(tokens))
        elif self._is_call(tokens):
            if not avoids("call", text(tokens[: self._opening(tokens)])):
                self.add("effect dropped", whole, self.language.nothing)
        elif any(token.text in {"++", "--"} for token in tokens) and len(tokens) > 2:
            self.add("assignment dropped", whole, self.language.nothing)

    # --- small questions --------------------------------------------------------------------------------------------

    def _written(self, tokens: Sequence[Token]) -> str:
        return self.source[tokens[0].start : tokens[-1].end]

    def _comparisons(self, tokens: Sequence[Token]) -> list[tuple[int, Token]]:
        found, number = [], 0
        while number < len(tokens):
            token = tokens[number]
            before = tokens[number - 1] if number else None
            if token.text == "<" and token.kind == "sign" and (before is None or not self._is_value(before)):
                while number < len(tokens) and tokens[number].text != ">":  # a cast
                    number += 1
            elif (token.kind == "sign" and token.text in {*BOUNDARIES, "==", "!="}) or (
                token.kind == "name" and token.text == "is" and self.language is CYTHON
            ):
                found.append((number, token))
            number += 1
        return found

    @staticmethod
    def _is_value(token: Token) -> bool:
        if token.kind == "name":
            return token.text not in KEYWORDS
        return token.kind in {"number", "string"} or token.text in {")", "]"}

    def _is_single(self, tokens: Sequence[Token]) -> bool:
        return all(len(split(tokens, word)) == 1 for word in self.language.conjunctions)

    @staticmethod
    def _ends(tokens: Sequence[Token], number: int) -> bool:
        return number >= len(tokens) or tokens[number].text in {
            ")",
            ":",
            ";",
            "and",
            "or",
            "&&",
            "||",
            "?",
            "else",
            "if",
        }

    def _around(self, tokens: Sequence[Token], number: int) -> str:
        """The operands about an operator, as far as the next operator that binds less or the bracket around them."""
        loose = {
            "and",
            "or",
            "not",
            "&&",
            "||",
            "?",
            ":",
            ";",
            "if",
            "else",
            "return",
            "while",
            "elif",
            ",",
            *ASSIGNMENTS,
        }
        begin, depth = number, 0
        while begin and (depth or tokens[begin - 1].text not in loose):
            depth += (tokens[begin - 1].text in ")]}") - (tokens[begin - 1].text in "([{")
            if depth < 0:
                break
            begin -= 1
        end, depth = number + 1, 0
        while end < len(tokens) and (depth or tokens[end].text not in loose or tokens[end - 1].text == "is"):
            depth += (tokens[end].text in "([{") - (tokens[end].text in ")]}")
            if depth < 0:
                break
            end += 1
        return text(tokens[begin:end])

    @staticmethod
    def _is_declaration(target: Sequence[Token]) -> bool:
        return len(target) > 1 and target[0].kind == target[1].kind == "name"

    @staticmethod
    def _opening(tokens: Sequence[Token]) -> int:
        return next(number for number, token in enumerate(tokens) if token.text == "(")

    def _is_call(self, tokens: Sequence[Token]) -> bool:
        if len(tokens) < 3 or tokens[0].kind != "name" or tokens[0].text in KEYWORDS or tokens[-1].text != ")":
            return False
        opening = self._opening(tokens) if any(token.text == "(" for token in tokens) else 0
        if not opening or closing(tokens, opening) != len(tokens) - 1:
            return False
        return all(token.kind == "name" or token.text in {".", "->"} for token in tokens[:opening]) and not any(
            one.kind == two.kind == "name" for one, two in pairwise(tokens[:opening])
        )


@dataclass(frozen=True)
class _Line:
    """A statement of Cython, over as many lines as it takes."""

    indent: int
    tokens: Sequence[Token]

    @property
    def first(self) -> str:
        return self.tokens[0].text


class _Cython:
    def __init__(self, source: str) -> None:
        self._finder = _Finder(source, CYTHON)
        self._lines = _lines(source)

    def sites(self) -> list[Site]:
        """Walk over the lines, knowing what they are in by how far they are indented."""
        scopes: list[tuple[int, str, str]] = []  # indent, name, kind
        for number, line in enumerate(self._lines):
            while scopes and scopes[-1][0] >= line.indent:
                scopes.pop()
            opened = _opened(line)
            if opened is not None:
                name, kind = opened
                name = f"{scopes[-1][1]}.{name}" if scopes and scopes[-1][1] and name else name
                left_alone = avoids("function", name) or (scopes and scopes[-1][2] == "declarations")
                scopes.append((line.indent, name, "declarations" if left_alone else kind))
                continue
            if scopes and scopes[-1][2] == "function" and line.first not in SILENT:
                self._finder.function = scopes[-1][1]
                self._look(number, line)
        return self._finder.found

    def _look(self, number: int, line: _Line) -> None:
        finder, tokens = self._finder, line.tokens
        colon = next((n for n, depth in depths(tokens) if depth == 0 and tokens[n].text == ":"), None)
        if line.first in {"if", "elif", "while"} and colon is not None and colon > 1:
            body = self._body(number) or [_Line(line.indent + 1, tokens[colon + 1 :])]
            last = body[-1]
            condition = tokens[1:colon]
            if last.first == "raise" and len(last.tokens) > 1 and avoids("raised", last.tokens[1].text):
                return
            guard = line.first != "while" and last.first in EXITS and not self._has_else(number)
            finder.condition(condition, guard=guard)
            finder.expressions(condition)
        elif line.first in {"continue", "break"} and not self._is_single_guard(number) and not self._is_last(number):
            finder.add("exit dropped", tokens, "pass")
        elif line.first == "return":
            finder.expressions(tokens[1:])
            if len(tokens) == 2 and tokens[1].text in {"True", "False"}:
                finder.add("flag flipped", [tokens[1]], str(tokens[1].text == "False"), text(tokens))
        elif colon is None or tokens[-1].text != ":":
            finder.statement(tokens, tokens)
            finder.expressions(tokens)

    def _body(self, number: int) -> list[_Line]:
        """The lines right below, of the next level."""
        indent = self._lines[number].indent
        inside = []
        for line in self._lines[number + 1 :]:
            if line.indent <= indent:
                break
            inside.append(line)
        return [line for line in inside if line.indent == inside[0].indent]

    def _has_else(self, number: int) -> bool:
        indent = self._lines[number].indent
        for line in self._lines[number + 1 :]:
            if line.indent <= indent:
                return line.indent == indent and line.first in {"elif", "else"}
        return False

    def _is_single_guard(self, number: int) -> bool:
        before, line = self._lines[number - 1], self._lines[number]
        return before.first in {"if", "elif"} and before.indent < line.indent

    def _is_last(self, number: int) -> bool:
        """True if a `continue` is the last of its loop."""
        if self._lines[number].first == "break":
            return False
        indent = self._lines[number].indent
        loop = next(
            line.indent
            for line in reversed(self._lines[:number])
            if line.first in {"for", "while"} and line.indent < indent
        )
        for line in self._lines[number + 1 :]:
            if line.indent <= loop:
                return True
            if line.indent < indent and line.first not in {"elif", "else"}:
                return False
        return True


def _lines(source: str) -> list[_Line]:
    found: list[_Line] = []
    tokens: list[Token] = []
    depth = 0
    for token in words(source, cython=True):
        if token.kind == "line":
            if tokens and not depth:
                start = tokens[0].start
                found.append(_Line(start - source.rfind("\n", 0, start) - 1, tokens))
                tokens = []
            continue
        if token.kind == "sign":
            depth += (token.text in "([{") - (token.text in ")]}")
        tokens.append(token)
    return [line for line in found if line.tokens[0].kind != "string" or len(line.tokens) > 1]


def _opened(line: _Line) -> tuple[str, str] | None:
    """The name and kind (function, class, declarations) of what a line begins; None: it is no definition."""
    tokens = line.tokens
    if tokens[-1].text != ":" or line.first not in {"def", "cdef", "cpdef", "class", "ctypedef", "async"}:
        return None
    if any(token.text in {"enum", "extern", "struct", "union"} for token in tokens[:3]):
        return "", "declarations"
    if any(token.text == "class" for token in tokens[:2]):
        number = next(n for n, token in enumerate(tokens) if token.text == "class")
        return tokens[number + 1].text, "class"
    bracket = next((n for n, token in enumerate(tokens) if token.text == "("), None)
    return None if bracket is None else (tokens[bracket - 1].text, "function")


class _Native:
    """A reader of C's statements, as far as these matter."""

    def __init__(self, source: str) -> None:
        self._finder = _Finder(source, C)
        self._tokens = list(words(source, cython=False))

    def sites(self) -> list[Site]:
        """Look for functions, and into each."""
        place = 0
        while place < len(self._tokens):
            token = self._tokens[place]
            if token.text == "{":
                end = closing(self._tokens, place)
                name = self._name_of(place)
                if name and not avoids("function", name):
                    self._finder.function = name
                    self._block(place + 1, end)
                place = end + 1 if name or not self._is_linkage(place) else place + 1
            else:
                place += 1
        return self._finder.found

    def _is_linkage(self, place: int) -> bool:
        return place > 0 and self._tokens[place - 1].kind == "string"

    def _name_of(self, place: int) -> str:
        """The function whose body begins at `place`; empty: it is none's."""
        if self._tokens[place - 1].text != ")":
            return ""
        depth = 0
        for number in range(place - 1, 0, -1):
            depth += (self._tokens[number].text == ")") - (self._tokens[number].text == "(")
            if not depth:
                return self._tokens[number - 1].text
        return ""

    def _block(self, place: int, end: int) -> None:
        before: Sequence[Token] = []
        while place < end:
            after = self._one(place, before)
            before = self._tokens[place:after]
            place = after

    def _one(self, place: int, before: Sequence[Token] = ()) -> int:
        """Look at the statement that begins at `place`; where the next one begins."""
        tokens, first = self._tokens, self._tokens[place].text
        if first == "{":
            end = closing(tokens, place)
            self._block(place + 1, end)
            return end + 1
        if first in {"if", "while", "switch", "for"}:
            end = closing(tokens, place + 1)
            inside = tokens[place + 2 : end]
            after = self._one(end + 1)
            followed = after < len(tokens) and tokens[after].text == "else"
            if first == "for":
                parts = split(inside, ";")
                if len(parts) == 3 and parts[1]:
                    self._finder.expressions(parts[1])
            elif first != "switch" and not _asks_for_memory(inside, before):
                guard = first == "if" and self._leaves(end + 1, after) and not followed
                self._finder.condition(inside, guard=guard)
                self._finder.expressions(inside)
            return self._one(after + 1) if followed else after
        if first == "do":
            after = self._one(place + 1)
            end = closing(tokens, after + 1)
            self._finder.expressions(tokens[after + 2 : end])
            return end + 2
        if first in {"case", "default"} or (tokens[place].kind == "name" and tokens[place + 1].text == ":"):
            return next(n for n in range(place, len(tokens)) if tokens[n].text == ":") + 1
        end = place
        for number, depth in depths(tokens[place:]):
            if depth == 0 and tokens[place + number].text == ";":
                end = place + number
                break
        statement, whole = tokens[place:end], tokens[place : end + 1]
        if statement and first not in EXITS:
            self._finder.statement(statement, whole)
        if len(statement) > 1 and first not in {"goto", "static", "enum"}:
            self._finder.expressions(statement[first == "return" :])
        return end + 1

    def _leaves(self, begin: int, after: int) -> bool:
        """True if the statement from `begin` to `after` ends by leaving."""
        last = after - 1
        if self._tokens[last].text == "}":
            last -= 1
        for number in range(last - 1, begin - 1, -1):
            if self._tokens[number].text in {";", "{", "}"} or number == begin:
                first = number if number == begin and self._tokens[number].text != "{" else number + 1
                return self._tokens[first].text in EXITS
        return False


def _asks_for_memory(condition: Sequence[Token], before: Sequence[Token]) -> bool:
    """True if a condition is that there was memory for the request of the statement before."""
    names = {token.text for token in condition if token.kind == "name"}
    asked = any("alloc" in token.text or token.text.endswith("_new") for token in (*before, *condition))
    return asked and (not before or any(token.text in names for token in before))
