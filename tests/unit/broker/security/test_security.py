"""`Security`: what goes together, and what does not."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from kafwire.broker.security.security import as_listeners, users_of
from kafwire.secret import Secret
from kafwire.testing import Security


def test_a_sasl_listener_has_plain_and_scram() -> None:
    listener = Security()
    assert (listener.protocol, listener.name, listener.host) == ("SASL_SSL", "SASL_SSL", "127.0.0.1")
    assert listener.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert listener.superusers == ("admin",)


def test_an_ssl_listener_has_no_users() -> None:
    assert Security("SSL").users == {}
    assert Security("SSL", client_auth="required").name == "SSL_MTLS"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"protocol": "TLS"}, "protocol is one of"),
        ({"protocol": "SSL", "mechanisms": ["PLAIN"]}, "protocol SSL has none"),
        ({"mechanisms": ["LOGIN"]}, "not 'LOGIN'"),
        ({"client_auth": "requested"}, "'none' or 'required'"),
        ({"protocol": "SASL_PLAINTEXT", "client_auth": "required"}, "needs TLS"),
        ({"mechanisms": ["GSSAPI"]}, "keytab, krb5_conf and principal"),
        ({"mechanisms": ["PLAIN"], "delegation_tokens": True}, "used with SCRAM"),
        ({"name": "PLAINTEXT"}, "a listener's name"),
        ({"name": "lower"}, "a listener's name"),
        ({"users": {"zoë": "secret"}}, "only ASCII"),
    ],
)
def test_contradicting_options_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Security(**options)


def test_passwords_are_neither_shown_nor_pickled() -> None:
    listener = Security(users={"alice": "canary", "bob": Secret("canary")})
    assert "canary" not in repr(listener)
    assert listener.password("bob") == "canary"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(listener)


def test_listeners_are_named_once_and_a_user_has_one_password() -> None:
    assert as_listeners(None) == ()
    assert [listener.name for listener in as_listeners(["ssl", "sasl_ssl"])] == ["SSL", "SASL_SSL"]
    with pytest.raises(ValueError, match="one name"):
        as_listeners(["SSL", Security("SSL")])
    with pytest.raises(ValueError, match="'alice' has two passwords"):
        as_listeners(["SASL_SSL", Security("SASL_PLAINTEXT", users={"alice": "other"})])
    both = [Security("SSL"), Security(users={"alice": "a"}), Security("SASL_PLAINTEXT", users={"bob": "b"})]
    assert users_of(both) == {"alice": Secret("a"), "bob": Secret("b")}


def test_gssapi_needs_a_name_to_be_known_by() -> None:
    kerberos = {"keytab": Path("/k"), "krb5_conf": Path("/c"), "principal": "kafka/localhost@TEST"}
    assert Security(mechanisms=["GSSAPI"], **kerberos).host == "localhost"  # type: ignore[arg-type]
