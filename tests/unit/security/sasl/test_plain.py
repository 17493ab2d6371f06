"""SASL/PLAIN, message by message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.plain import PlainExchange
from tests.support.sasl_traps import CANARY, check_refused, reported


def test_its_only_message() -> None:
    exchange = PlainExchange("tim", Secret("tanstaaftanstaaf"))
    assert (exchange.mechanism, exchange.blocks(None)) == ("PLAIN", False)
    assert exchange.first() == b"\0tim\0tanstaaftanstaaf"
    exchange.respond(b"")
    check_refused(exchange, b"")


def test_on_behalf_of_another() -> None:
    """The example of RFC 4616."""
    assert PlainExchange("Kurt", Secret("xipj3plmq"), authzid="Ursel").first() == b"Ursel\0Kurt\0xipj3plmq"


def test_text_is_utf8_as_it_is() -> None:
    text = "\u00ad\ufb01\uff50\U0001f511"
    assert PlainExchange(text, Secret(text)).first() == b"\0" + text.encode() + b"\0" + text.encode()


@pytest.mark.parametrize(
    ("user", "password", "authzid", "said"),
    [
        (f"{CANARY}\0x", "p", "", "the user name has a NUL"),
        ("u", f"{CANARY}\0x", "", "the password has a NUL"),
        ("u", "p", f"{CANARY}\0", "the authorization id has a NUL"),
        ("", CANARY, "", "the user name is empty"),
        ("u", "", "", "the password is empty"),
        ("u", f"{CANARY}\ud800", "", "the password has an unpaired surrogate"),
    ],
)
def test_credentials_that_the_mechanism_cannot_carry(user: str, password: str, authzid: str, said: str) -> None:
    with pytest.raises(AuthenticationError, match=said) as refused:
        PlainExchange(user, Secret(password), authzid=authzid).first()
    assert CANARY not in reported(refused.value)


@given(st.binary(min_size=1))
def test_any_other_reply_is_refused(response: bytes) -> None:
    exchange = PlainExchange("tim", Secret(CANARY))
    exchange.first()
    check_refused(exchange, response)


def test_a_reply_before_the_first_message() -> None:
    check_refused(PlainExchange("tim", Secret(CANARY)), b"")
