"""Sentences to rewrite, as `make prose` finds them."""

from __future__ import annotations

import pytest

from scripts.prose import CANDIDATE, Passage, passages

MODULE = '''"""What a module is for.

A second paragraph. A third sentence.
"""
# a comment of
# two lines

log.warning("a record %s "
            f"lost {names['x']} here")
raise KafkaError(text("two words", 1) or "three more words")  # beside it
warnings.warn(f"{old} is old now", DeprecationWarning, stacklevel=2)
parser.add_argument("--seed", help="the first seed")
NAMES = ["one word", "another word", "single"]


@click.option("-x", help="an option of click")
def test_names_that_tell() -> None:
    """A function."""
    value = """not a docstring, a value"""
'''


def kinds(text: str, name: str = "tests/test_module.py") -> list[tuple[str, int, str]]:
    return [(one.kind, one.line, " ".join(one.text.split())) for one in passages(name, text)]


def test_texts_of_a_module_by_kind_and_line() -> None:
    assert kinds(MODULE) == [
        ("docstring", 1, "What a module is for. A second paragraph. A third sentence."),
        ("comment", 5, "a comment of two lines"),
        ("log", 8, "a record %s lost x here"),
        ("error", 10, "two words"),
        ("error", 10, "three more words"),
        ("comment", 10, "beside it"),
        ("warning", 11, "x is old now"),
        ("help", 12, "the first seed"),
        ("string", 13, "one word"),
        ("string", 13, "another word"),
        ("help", 16, "an option of click"),
        ("test", 17, "names that tell"),
        ("docstring", 18, "A function."),
        ("string", 19, "not a docstring, a value"),
    ]


def test_cython_has_the_same_kinds() -> None:
    source = 'cdef int f(const char* p) except -1:\n    """Read p."""\n    raise ValueError("p is too short")\n'
    assert kinds(source, "kafwire/f.pyx") == [("docstring", 2, "Read p."), ("error", 3, "p is too short")]


def test_an_f_string_is_one_text_on_each_python() -> None:
    """CPython 3.12 and later split it into tokens."""
    source = 'raise ValueError(f"the key {shown:{width}} of " f\'{", ".join(f"{one}s" for one in keys)}\')\n'
    assert kinds(source + 'say(f"""ü {two}\nlines {here}""", "one text")\n') == [
        ("error", 1, 'the key {shown:x} of {", ".join(f"xs" for one in keys)}'),
        ("string", 2, "ü x lines x"),
        ("string", 3, "one text"),
    ]


def test_c_has_comments_and_strings() -> None:
    source = '/* One\n * more. */\nint x; // beside x\nchar *s = "two words", *t = "%s";\n'
    assert kinds(source, "a.c") == [
        ("comment", 1, "One more."),
        ("comment", 3, "beside x"),
        ("string", 4, "two words"),
    ]


def test_markdown_without_its_code() -> None:
    text = "# A title\n\nText with `who` in it.\n\n```\nwho runs this\n```\n\nThe end.\n"
    assert kinds(text, "a.md") == [
        ("docs", 1, "# A title"),
        ("docs", 3, "Text with `code` in it."),
        ("docs", 9, "The end."),
    ]


def test_sentences_end_at_points_paragraphs_items_and_rows() -> None:
    text = "One of 1.5 s, e.g. this. Two\ngoes on.\n\n- three\n- four\n| five | six |"
    assert Passage("docs", 1, text).sentences() == [
        "One of 1.5 s, e.g. this.",
        "Two goes on.",
        "- three",
        "- four",
        "| five | six |",
    ]


@pytest.mark.parametrize("text", ["Who reads", "it was told", "what\nis read", "made anew", "whom nobody saw"])
def test_candidates(text: str) -> None:
    assert CANDIDATE.search(text)


@pytest.mark.parametrize("text", ["whole", "a partition whose leader", "what it is", "whatever is"])
def test_no_candidates(text: str) -> None:
    assert not CANDIDATE.search(text)
