"""Parts of documents between two marks."""

from __future__ import annotations

import pytest

from scripts.marks import with_part


def test_a_part_replaces_the_old_one_and_nothing_else() -> None:
    once = with_part("before\n<b>\nold\n<e>\nafter\n", "<b>", "<e>", "new\n")
    assert once == "before\n<b>\nnew\n<e>\nafter\n"
    assert with_part(once, "<b>", "<e>", "new\n") == once


@pytest.mark.parametrize("text", ["", "<b>", "<e>", "<e><b>", "<b><b><e>", "<b><e><e>", "<e><b><e>", "<b><e><b>"])
def test_a_document_has_each_mark_once(text: str) -> None:
    with pytest.raises(ValueError, match="needs <b> and <e>, once each and in this order"):
        with_part(text, "<b>", "<e>", "new\n")
