"""The tree of a pattern."""

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


def test_an_error_says_where() -> None:
    with pytest.raises(PatternError, match=r"bad repetition operator: \{3,1\}"):
        parse("a{3,1}")
