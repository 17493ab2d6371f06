"""Patterns that clients send: RE2's results, and no pattern that takes long. The right values are google-re2's."""

from __future__ import annotations

import logging

import pytest

from kafwire.broker import regular_expressions
from kafwire.broker.regular_expressions import Budget, OutOfStepsError, Pattern, PatternError, matching

NAMES = ["", "a", "b", "aa", "ab", "aaa", "A", "t-1", "t-12", "a.b", "_", "-", "{", "]", "\n", "é", "a b"]


@pytest.fixture(autouse=True)
def own_matcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "RE2", None)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("t-.", ["t-1"]),
        ("t-.*", ["t-1", "t-12"]),
        ("a+|b", ["a", "b", "aa", "aaa"]),
        ("a{2}", ["aa"]),
        ("a{2,}", ["aa", "aaa"]),
        ("a{0,1}b?", ["", "a", "b", "ab"]),
        ("a{,2}", []),
        ("(a|b)*?", ["", "a", "b", "aa", "ab", "aaa"]),
        ("(?:a)(?P<n>b)", ["ab"]),
        ("(?i)a", ["a", "A"]),
        ("(?i:a)b", ["ab"]),
        (".", ["a", "b", "A", "_", "-", "{", "]", "é"]),
        ("(?s).", ["a", "b", "A", "_", "-", "{", "]", "\n", "é"]),
        ("\\w", ["a", "b", "A", "_"]),
        ("[^\\w]", ["-", "{", "]", "\n", "é"]),
        ("[]{-]", ["-", "{", "]"]),
        ("[[:lower:]]+", ["a", "b", "aa", "ab", "aaa"]),
        ("t-\\d{1,2}", ["t-1", "t-12"]),
        ("\\x61\\x{62}", ["ab"]),
        ("\\Qa.b\\E", ["a.b"]),
        ("a\\.b", ["a.b"]),
        ("^a$", ["a"]),
        ("\\Aa\\z", ["a"]),
        ("a\\bb", []),
        ("a\\b.b", ["a.b", "a b"]),
        ("(a*)*", ["", "a", "aa", "aaa"]),
        ("a.b", ["a.b", "a b"]),
    ],
)
def test_whole_texts_match_as_with_re2(pattern: str, matches: list[str]) -> None:
    assert matching([Pattern(pattern)], NAMES)[pattern] == {*matches}


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "*", "a**", "a++", "|+", "[", "[]", "[b-a]", "[a-\\d]", "[[:no:]]", "\\", "\\y", "\\1"),
        *("a{1001}", "a{3,1}", "(?=a)", "(?!a)", "(?<=a)b", "(?x)a", "(?P=n)", "a{1000000000000}"),
    ],
)
def test_texts_that_re2_refuses_are_no_patterns(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["\\pL", "[[:^alpha:]]"])
def test_classes_that_need_google_re2_name_it(pattern: str) -> None:
    with pytest.raises(PatternError, match="needs google-re2"):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["((a{1,100}){1,100}){1,100}", "a" * 50_001, "(" * 200 + ")" * 200])
def test_patterns_that_are_too_large_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="too large|nests"):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)*c", "(.*)*x(.*)*y", "(a?){30}a{30}c", "([a-z]+)*-$"])
def test_steps_grow_with_the_text_and_not_with_its_ways(pattern: str) -> None:
    budget = Budget(5_000)
    assert not Pattern(pattern).matches("a" * 40 + "-" * 2, budget)


def test_a_pattern_beyond_the_budget_is_named(caplog: pytest.LogCaptureFixture) -> None:
    pattern = "(a|b)*a(a|b){200}c"
    names = ["a", *("".join("ab"[number >> bit & 1] for bit in range(249)) for number in range(1, 2000, 7))]
    with caplog.at_level(logging.WARNING):
        assert matching([Pattern("a"), Pattern(pattern)], names) == {"a": {"a"}, pattern: frozenset()}
    assert [pattern in each.getMessage() for each in caplog.records] == [True]
    with pytest.raises(OutOfStepsError):
        Pattern(pattern).matches(names[-1], Budget(1000))


class FakeRe2:
    """The part of google-re2 that a broker uses."""

    class error(Exception):  # noqa: N801
        pass

    class Options:
        log_errors = True

    def compile(self, text: str, options: Options) -> FakeRe2:
        assert not options.log_errors, "RE2 would write to stderr"
        if text == "(":
            raise self.error(b"missing ): (")
        return self

    def fullmatch(self, text: str) -> object:
        return text or None


def test_google_re2_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "RE2", FakeRe2())
    assert matching([Pattern("\\pL")], ["", "a"]) == {"\\pL": {"a"}}
    with pytest.raises(PatternError, match=r"missing \): \("):
        Pattern("(")
