"""Properties of a test cluster's nodes, and the file that Java reads."""

from __future__ import annotations

from kafwire.testing.node_properties import append_listeners, default_properties, properties_file
from kafwire.testing.ports import choose_ports


def test_a_file_is_ascii_and_one_line_each() -> None:
    assert properties_file({"a": "b c=d:#!", "path": "\\"}) == "a=b c=d:#!\npath=\\u005c\n"
    assert properties_file({"a": "é\n😀"}) == "a=\\u00e9\\u000a\\ud83d\\ude00\n"


def test_space_at_the_ends_is_kept() -> None:
    assert properties_file({"a": " b "}) == "a=\\u0020b\\u0020\n"


def test_further_listeners_come_behind() -> None:
    ports = choose_ports(1, proxies=False, partitions=False)
    own = default_properties(1, 1, ports)
    first = own["listeners"]
    append_listeners(own, {"listeners": "SSL://127.0.0.1:1", "other": "x"})
    assert own["listeners"] == f"{first},SSL://127.0.0.1:1"
    assert own["other"] == "x"
