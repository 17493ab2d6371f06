"""Files of properties for Java."""

from __future__ import annotations

from kafwire.broker.properties_file import properties_file


def test_a_file_is_ascii_and_one_line_each() -> None:
    assert properties_file({"a": "b c=d:#!", "path": "\\"}) == "a=b c=d:#!\npath=\\u005c\n"
    assert properties_file({"a": "é\n😀"}) == "a=\\u00e9\\u000a\\ud83d\\ude00\n"


def test_space_at_the_ends_is_kept() -> None:
    assert properties_file({"a": " b "}) == "a=\\u0020b\\u0020\n"
