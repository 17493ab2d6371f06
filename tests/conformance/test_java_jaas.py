"""Kafka's own parser reads the same from `sasl.jaas.config`, where kafwire reads anything."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafwire.config.jaas import parse_jaas
from kafwire.errors import ConfigError
from kafwire.secret import Secret
from tests.support.java.oracle import Oracle, OracleError

COMPARED: Counter[str] = Counter()

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
VALUES = [
    *("plain", "'a b'", '"a\\"b\\\\c"', '"\\n\\t\\r\\a\\b\\f\\v\\q"', '"\\101\\7\\0478\\477"', '"a;b=c//d/*e*/"', '""'),
    *(
        "a-b_c.d$e9",
        "/* x */ 'y' // z\n",
        "/ z\n 'y'",
        "'\u00ad\ufb01\uff50\U0001f511'",
        "'it\"s'",
        '"it\'s"',
        "_",
        "$1",
    ),
    *("\u00e9\uff50\U0001f511", "true", "\u00a0"),
]


def theirs(oracle: Oracle, text: str) -> dict[str, str]:
    module, *words = (word.decode() for word in oracle.one("jaas", text))
    assert module == MODULE
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize("value", ["1", "1a", "a:b", "a@b", "-a", ".a", "a\\b", "[", "", "=", "a=b", "a b", "'a''b'"])
def test_values_that_java_refuses_are_refused(oracle: Oracle, value: str) -> None:
    """kafwire refuses such values, too: a value never differs from Java's."""
    with pytest.raises(OracleError):
        theirs(oracle, f"{MODULE} required password={value};")
    with pytest.raises(ConfigError):
        parse_jaas(f"{MODULE} required password={value};")


def check(oracle: Oracle, text: str) -> bool:
    """True if kafwire reads it; then Java reads the same."""
    try:
        options = parse_jaas(text).options
    except ConfigError:
        return False
    ours = {name.removeprefix("sasl_"): value for name, value in options.items()}
    ours = {name: value.reveal() if isinstance(value, Secret) else value for name, value in ours.items()}
    assert ours == theirs(oracle, text)
    COMPARED["entries"] += 1
    return True


@pytest.mark.compares(1)
@pytest.mark.parametrize("value", VALUES)
def test_values(oracle: Oracle, value: str) -> None:
    assert check(oracle, f"{MODULE} required username=alice password={value};")


@pytest.mark.compares(20)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
    | st.text("ab=;\"'/*\\ \n0127", max_size=9)
    | st.text("ab=;/*\\ 0127", max_size=9).map("'{}'".format)
)
def test_any_value(oracle: Oracle, value: str) -> None:
    check(oracle, f"{MODULE} required username='alice' password={value};")
