"""Expressions of `subscribePattern`: Python's are taken, and Java's that differ are named."""

from __future__ import annotations

import re

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.topic_pattern import topic_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "^a.*",
        r"a|b\.c",
        "[a-z]+",
        "[]a]",
        "[^]a]x",
        r"[a\[b]",
        r"\[a[b]",
        "[a][b]",
        "(?i)a",
        "(?P<n>a)(?P=n)",
        r"a\\0",
        "a++",
    ],
)
def test_an_expression_of_python_is_taken(pattern: str) -> None:
    assert topic_pattern(f" {pattern} ") == pattern


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"\p{Alpha}+", r"bad escape \p at position 0; write Java's \p{...} as a class"),
        (r"\P{L}", r"write Java's \P{...} as a class"),
        (r"\pL", r"write Java's \p{...} as a class"),
        (r"\Qa.b\E", r"write Java's \Q...\E with a backslash before each special character"),
        ("(?<n>a)", "write Java's (?<name>...) as (?P<name>...)"),
        (r"(?P<n>a)\k<n>", r"write Java's \k<name> as (?P=name)"),
        ("[a-z&&[^b]]", "write Java's intersection of classes, &&, as one class"),
        ("[[a-c][x-z]]", "write Java's union of classes, [[...][...]], as one class"),
        ("[a-c[x-z]]", "another expression in Java: a class has [ inside; write Java's union of classes"),
        ("x[^[a]]", "another expression in Java: a class has [ inside"),
        (r"\0101", r"another expression in Java, where \0 begins an octal number"),
        (r"\x{41}", r"write the character of Java's \x{...}"),
        (r"\cA", r"write the character of Java's \x{...}"),
        (r"a\z", r"write Java's \z as \Z"),
        (r"\h+", r"write Java's \h, \H, \V, \R and \X as classes"),
        (r"\Ga", r"leave Java's \G out"),
        ("(?d)a", "leave Java's flags d and U out"),
        ("a(?i)b", "write Java's flags in the middle of an expression as a group, (?i:...)"),
        ("(?<=a+)b", "write Java's look-behind with one fixed width"),
        ("a(", "is not a regular expression of Python: missing ), unterminated subpattern at position 1; correct it"),
        (" ", "option subscribePattern is empty"),
    ],
)
def test_a_pattern_of_java_is_named(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        topic_pattern(pattern)
