"""Sentences to rewrite, for `make prose`: `python -m scripts.prose [PATH...] [--list KIND...] [--word REGEX]`.

A candidate is a sentence with a word that stands for no noun of the code or of Kafka: who, whom, whoever, nobody,
told, anew, "what is". The table counts sentences and candidates by kind. `--list` prints the candidates of these kinds,
`--fail KIND...` ends with 1 if one of these kinds has a candidate.

| kind | text |
|---|---|
| error, warning, log, help | strings within a call that makes an exception, warns, logs, or declares an argument |
| string | other strings that have spaces |
| docstring, comment, test, docs | as named; `test`: names of test functions, `docs`: Markdown without its code |
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("error", "warning", "log", "help", "string", "docstring", "comment", "test", "docs")
CANDIDATE = re.compile(r"\b(?:who|whom|whoever|whomever|nobody|told|anew|what\s+is)\b", re.IGNORECASE)
_PYTHON, _C, _DOCS = (".py", ".pyi", ".pyx", ".pxd"), (".c", ".h"), (".md",)
_LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_HELP_CALLS = {"add_argument", "add_parser", "ArgumentParser", "click.option", "click.command", "click.argument"}
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])|\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.)\s)")
_C_TEXT = re.compile(r'/\*(?P<block>(?:.|\n)*?)\*/|//(?P<line>.*)|"(?P<string>(?:[^"\\\n]|\\.)*)"')
_OPENED = re.compile(r"""([a-zA-Z]*)(\"\"\"|\'\'\'|["'])""")
_FENCED = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Passage:
    """A text of one kind, and the line that it begins on."""

    kind: str
    line: int
    text: str

    def sentences(self) -> list[str]:
        """Its sentences: paragraphs, items of lists and rows of tables end one too."""
        return [one for part in _SENTENCE.split(self.text) if (one := " ".join(part.split()))]


def passages(name: str, text: str) -> Iterator[Passage]:
    """The passages of a file, in its order."""
    if name.endswith(_PYTHON):
        yield from _joined(_python(text, tests=PurePosixPath(name).name.startswith("test_")))
    elif name.endswith(_C):
        for found in _C_TEXT.finditer(text):
            kind = "string" if found["string"] is not None else "comment"
            words = found["string"] or found["block"] or found["line"] or ""
            if " " in words.strip():
                yield Passage(kind, text.count("\n", 0, found.start()) + 1, words.replace("\n *", "\n"))
    elif name.endswith(_DOCS):
        prose = _FENCED.sub(lambda code: "\n" * code[0].count("\n"), text)
        line = 1
        for paragraph in re.split(r"(\n\s*\n)", prose):
            if paragraph.strip():
                yield Passage("docs", line, re.sub(r"`[^`]*`", "`code`", paragraph))
            line += paragraph.count("\n")


def _joined(found: Iterable[Passage]) -> Iterator[Passage]:
    """Passages, with the comments of consecutive lines in one."""
    held: Passage | None = None
    end = 0
    for passage in found:
        if held and held.kind == passage.kind == "comment" and passage.line == end + 1:
            held = Passage("comment", held.line, f"{held.text} {passage.text}")
        else:
            if held:
                yield held
            held = passage
        end = passage.line
    if held:
        yield held


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of Python or Cython source. An f-string, which CPython 3.12 splits, is one token on each version."""
    lines = StringIO(text).readlines()
    opened: list[tokenize.TokenInfo] = []  # f-strings nest
    for token in tokenize.generate_tokens(StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name in {"FSTRING_START", "TSTRING_START"}:
            opened.append(token)
        elif name in {"FSTRING_END", "TSTRING_END"}:
            (row, column), (end, after) = opened.pop().start, token.end
            if not opened:
                within = "".join(lines[row - 1 : end])
                string = within[column : len(within) - len(lines[end - 1]) + after]
                yield tokenize.TokenInfo(tokenize.STRING, string, (row, column), token.end, token.line)
        elif not opened:
            yield token


def _python(text: str, *, tests: bool) -> Iterator[Passage]:
    """The passages of Python or Cython source, from its tokens: both have the same."""
    calls: list[str] = []  # the dotted names of the calls that enclose a token
    pieces: list[str] = []  # strings that stand side by side are one
    dotted = before = ""  # the name that ends here; the token before
    start = 0
    begins = True  # whether a statement begins here
    for token in _tokens(text):
        kind, string = token.type, token.string
        if kind == tokenize.COMMENT:
            yield Passage("comment", token.start[0], string.lstrip("#: ").rstrip())
        if kind == tokenize.STRING:
            start = start if pieces else token.start[0]
            pieces.append(_literal(string))
        elif pieces and kind not in {tokenize.NL, tokenize.COMMENT}:
            words = "".join(pieces)
            if begins and not calls:
                yield Passage("docstring", start, words)
            elif re.search(r"\w\s+\w", words):
                yield Passage(_kind(calls), start, words)
            pieces = []
            begins = False
        if kind == tokenize.OP and string in "([{":
            calls.append(dotted if string == "(" else "")
        elif kind == tokenize.OP and string in ")]}" and calls:
            calls.pop()
        elif tests and before == "def" and string.startswith("test_"):
            yield Passage("test", token.start[0], string.removeprefix("test_").replace("_", " "))
        if kind in _LAYOUT:
            begins = begins or kind in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
        elif kind != tokenize.STRING:
            begins = False
            dotted = f"{dotted}{string}" if before == "." or string == "." else string if kind == tokenize.NAME else ""
            before = string


def _literal(string: str) -> str:
    opened = _OPENED.match(string)
    if opened and "f" in opened[1].lower():
        return re.sub(r"\{[^{}]*\}", "x", string[opened.end() : -len(opened[2])])
    try:
        value = ast.literal_eval(string)
    except (SyntaxError, ValueError):  # of Cython alone
        return string
    return value if isinstance(value, str) else ""


def _kind(calls: list[str]) -> str:
    """The kind of a string within these calls: that of the innermost call with a kind of its own."""
    for call in reversed(calls):
        of, _, name = call.rpartition(".")
        if name.endswith(("Error", "Exception")) or name == "error_type":
            return "error"
        if name == "warn" or name.endswith("Warning"):
            return "warning"
        if name in _LOG_CALLS and "log" in of.lower():
            return "log"
        if call in _HELP_CALLS or name in _HELP_CALLS:
            return "help"
    return "string"


def files(paths: list[str]) -> list[str]:
    """The files of the tree below these paths, as git lists them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def main(words: list[str] | None = None) -> int:
    """Print the table, and the candidates that `--list` names."""
    parser = argparse.ArgumentParser(prog="python -m scripts.prose", description="Count and list sentences to rewrite.")
    parser.add_argument("path", nargs="*", default=["kafwire"], help="files and folders (default: kafwire)")
    parser.add_argument(
        "--list", nargs="+", choices=KINDS, default=[], metavar="KIND", help="print candidates of a kind"
    )
    parser.add_argument(
        "--fail", nargs="+", choices=KINDS, default=[], metavar="KIND", help="end with 1 if a kind has one"
    )
    parser.add_argument(
        "--word", type=re.compile, default=CANDIDATE, metavar="REGEX", help="another mark of a candidate"
    )
    chosen = parser.parse_args(words)
    sentences: Counter[str] = Counter()
    candidates: Counter[str] = Counter()
    for name in files(chosen.path):
        if not name.endswith((*_PYTHON, *_C, *_DOCS)):
            continue
        for passage in passages(name, (ROOT / name).read_text()):
            for sentence in passage.sentences():
                sentences[passage.kind] += 1
                if chosen.word.search(sentence):
                    candidates[passage.kind] += 1
                    if passage.kind in chosen.list:
                        print(f"{name}:{passage.line}: {passage.kind}: {sentence}")
    print(f"{'kind':12}{'sentences':>10}{'candidates':>12}")
    for kind in filter(sentences.__contains__, KINDS):
        print(f"{kind:12}{sentences[kind]:>10,}{candidates[kind]:>12,}")
    print(f"{'all':12}{sentences.total():>10,}{candidates.total():>12,}")
    return int(any(candidates[kind] for kind in chosen.fail))


if __name__ == "__main__":
    sys.exit(main())
