"""The tree of a pattern."""

import re

import pytest

from kafwire.broker.pattern_syntax import Assertion, Character, PatternError, Repeat, parse


def test_a_tree_has_sequences_alternatives_and_repetitions() -> None:
    tree = parse("a(b|^)*")
    assert isinstance(tree, list)
    first, repeat = tree
    assert isinstance(first, Character)
    assert (first.passes("a"), first.passes("b")) == (True, False)
    assert isinstance(repeat, Repeat)
    assert (repeat.least, repeat.most) == (0, None)
    assert isinstance(repeat.part, tuple)
    assert repeat.part[1] == [Assertion("^")]


def test_flags_end_with_their_group() -> None:
    tree = parse("((?i)a)b")
    assert isinstance(tree, list)
    group, outer = tree
    assert isinstance(group, list)
    (inner,) = group
    assert isinstance(inner, Character)
    assert isinstance(outer, Character)
    assert inner.passes("A")
    assert not outer.passes("B")


@pytest.mark.parametrize("repeat", ["{3,1}", "{1001}", "{0,1001}", "{10000}", "{1,100000}", "{" + "9" * 5_000 + "}"])
@pytest.mark.parametrize("before", ["", "a", "a*"])
def test_an_error_says_where(before: str, repeat: str) -> None:
    with pytest.raises(PatternError, match=f"^{re.escape('bad repetition operator: ' + repeat)}$"):
        parse(before + repeat)


@pytest.mark.parametrize("text", ["a{00}", "a{01}", "a{1,02}", "a{00001}", "a{,1}", "a{\u0663}"])
def test_a_repetition_that_is_none_is_text(text: str) -> None:
    tree = parse(text)
    assert isinstance(tree, list)
    assert not any(isinstance(part, Repeat) for part in tree)
    assert len(tree) == len(text)
