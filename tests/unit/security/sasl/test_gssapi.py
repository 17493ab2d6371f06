"""SASL/GSSAPI with tickets of a real KDC; the broker's side is Kerberos' own acceptor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafwire.errors import AuthenticationError
from kafwire.security.sasl.gssapi import GssapiExchange
from tests.support.kerberos import Kdc, needed
from tests.support.sasl_traps import check_refused

needed()

import gssapi  # noqa: E402


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with Kdc() as started:
        started.principal("alice", "wonderland")
        started.keytab(started.service())
        started.keytab("bob")
        yield started


@pytest.fixture
def realm(kdc: Kdc) -> Iterator[Kdc]:
    with kdc.entered():
        yield kdc


class Acceptor:
    """The broker's side of RFC 4752."""

    def __init__(self, kdc: Kdc, offer: bytes = b"\x01\0\0\0") -> None:
        store: dict[str | bytes, str | bytes] = {"keytab": str(kdc.keytab(kdc.service()))}
        self._context = gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", store=store), usage="accept")
        self._offer = offer
        self.chosen = b""

    def respond(self, message: bytes) -> bytes:
        if not self._context.complete:
            return self._context.step(message) or b""
        if not self.chosen and not message:
            made: bytes = self._context.wrap(self._offer, encrypt=False).message
            return made
        self.chosen = self._context.unwrap(message).message
        return b""

    @property
    def client(self) -> str:
        return str(self._context.initiator_name)


def authenticate(exchange: GssapiExchange, acceptor: Acceptor) -> None:
    message: bytes | None = exchange.first()
    for _ in range(10):
        message = exchange.respond(acceptor.respond(message or b""))
        if message is None:
            return
    raise AssertionError("the exchange does not end")


def from_keytab(kdc: Kdc, service: str = "kafka") -> GssapiExchange:
    return GssapiExchange(service, kdc.host, keytab=str(kdc.keytab("bob")), cache="MEMORY:bob")


def test_by_a_keytab(realm: Kdc) -> None:
    exchange, acceptor = from_keytab(realm), Acceptor(realm)
    assert (exchange.mechanism, exchange.blocks(None)) == ("GSSAPI", True)
    authenticate(exchange, acceptor)
    assert (acceptor.client, acceptor.chosen) == ("bob@KAFWIRE.TEST", b"\x01\0\0\0")
    check_refused(exchange, b"")


def test_by_a_keytab_and_a_name(realm: Kdc) -> None:
    acceptor = Acceptor(realm)
    keytab = str(realm.keytab("bob"))
    authenticate(GssapiExchange("kafka", realm.host, principal="bob@KAFWIRE.TEST", keytab=keytab), acceptor)
    assert acceptor.client == "bob@KAFWIRE.TEST"
    with pytest.raises(AuthenticationError, match="no ticket for the broker"):
        GssapiExchange("kafka", realm.host, principal="alice@KAFWIRE.TEST", keytab=keytab).first()


def test_tickets_of_a_keytab_are_asked_for_once(realm: Kdc) -> None:
    authenticate(from_keytab(realm), Acceptor(realm))
    before = realm.log().count("AS_REQ")
    authenticate(from_keytab(realm), Acceptor(realm))
    assert realm.log().count("AS_REQ") == before > 0


def test_by_the_ticket_cache(kdc: Kdc) -> None:
    with kdc.entered(KRB5CCNAME=f"FILE:{kdc.kinit('alice', 'wonderland')}"):
        acceptor = Acceptor(kdc)
        authenticate(GssapiExchange("kafka", kdc.host), acceptor)
        assert acceptor.client == "alice@KAFWIRE.TEST"
        authenticate(GssapiExchange("kafka", kdc.host, principal="alice"), Acceptor(kdc))
        with pytest.raises(AuthenticationError, match="no ticket for the broker"):
            GssapiExchange("kafka", kdc.host, principal="bob").first()


def test_without_any_ticket(kdc: Kdc, tmp_path: Path) -> None:
    with (
        kdc.entered(KRB5CCNAME=f"FILE:{tmp_path}/none", KRB5_CLIENT_KTNAME=f"FILE:{tmp_path}/none"),
        pytest.raises(AuthenticationError, match="'kafka@localhost' failed, no ticket .*No credentials"),
    ):
        GssapiExchange("kafka", kdc.host).first()


def test_a_service_that_the_realm_does_not_know(realm: Kdc) -> None:
    with pytest.raises(AuthenticationError, match="Server .*kfk/localhost.* not found in Kerberos database"):
        from_keytab(realm, "kfk").first()


def test_a_keytab_that_is_not_there(realm: Kdc, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="no ticket for the broker"):
        GssapiExchange("kafka", realm.host, keytab=str(tmp_path / "none"), cache="MEMORY:none").first()


@pytest.mark.parametrize("offer", [b"\x02\0\xff\xff", b"\x04\0\xff\xff", b"\x06\0\xff\xff"])
def test_a_broker_that_demands_a_security_layer(realm: Kdc, offer: bytes) -> None:
    with pytest.raises(AuthenticationError, match="use TLS"):
        authenticate(from_keytab(realm), Acceptor(realm, offer))


def test_a_broker_that_offers_layers_too(realm: Kdc) -> None:
    acceptor = Acceptor(realm, b"\x07\0\xff\xff")
    authenticate(from_keytab(realm), acceptor)
    assert acceptor.chosen == b"\x01\0\0\0"


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x01\0\0\0\0"])
def test_an_offer_of_another_length(realm: Kdc, offer: bytes) -> None:
    with pytest.raises(AuthenticationError, match="instead of 4"):
        authenticate(from_keytab(realm), Acceptor(realm, offer))


@pytest.mark.parametrize("data", [b"", b"\0", b"garbage" * 100, b"\x60\x82\xff\xff"])
def test_garbage_instead_of_the_brokers_token(realm: Kdc, data: bytes) -> None:
    exchange = from_keytab(realm)
    exchange.first()
    check_refused(exchange, data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(), at_the_layers=st.booleans())
def test_whatever_the_broker_says_ends_in_one_error(realm: Kdc, data: bytes, at_the_layers: bool) -> None:
    exchange, acceptor = from_keytab(realm), Acceptor(realm)
    message = exchange.first()
    if at_the_layers:
        exchange.respond(acceptor.respond(message))
    check_refused(exchange, data)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("change", ["cut", "flip", "other"])
def test_a_damaged_token(realm: Kdc, steps: int, change: str) -> None:
    exchange, acceptor = from_keytab(realm), Acceptor(realm)
    message: bytes | None = exchange.first()
    for _ in range(steps - 1):
        message = exchange.respond(acceptor.respond(message or b""))
    response = acceptor.respond(message or b"")
    damaged = {"cut": response[:-1], "flip": response[:-1] + bytes([response[-1] ^ 1]), "other": b"x" * len(response)}[
        change
    ]
    check_refused(exchange, damaged)


def test_a_last_reply_that_is_not_empty(realm: Kdc) -> None:
    exchange, acceptor = from_keytab(realm), Acceptor(realm)
    message: bytes | None = exchange.first()
    for _ in range(2):
        message = exchange.respond(acceptor.respond(message or b""))
    acceptor.respond(message or b"")
    check_refused(exchange, b"more")


def test_a_reply_before_the_first_message(realm: Kdc) -> None:
    check_refused(from_keytab(realm), b"")
