"""Java's SASL server of GSSAPI, as brokers have it, accepts what kafwire's exchange says with tickets of a real KDC."""

from collections import Counter

import pytest

from kafwire.errors import AuthenticationError
from kafwire.security.sasl.gssapi import GssapiExchange
from tests.support.java.oracle import Oracle, OracleError
from tests.support.kerberos import Kdc, needed

needed()

COMPARED: Counter[str] = Counter()


@pytest.mark.compares(1)
def test_gssapi(oracle: Oracle) -> None:
    with Kdc() as kdc:
        kdc.principal("alice", "wonderland")
        bob = str(kdc.keytab("bob"))
        service = kdc.service()
        key = str(kdc.keytab(service))

        def broker() -> None:
            oracle.one("sasl open kerberos", "broker", str(kdc.krb5_conf), key, service, "kafka", kdc.host)

        def authenticate(exchange: GssapiExchange) -> str:
            broker()
            message: bytes | None = exchange.first()
            name, complete = b"", b"false"
            while message is not None:
                challenge, complete, name = oracle.one("sasl step", "broker", message)
                message = exchange.respond(challenge)
            assert complete == b"true"
            COMPARED["GSSAPI"] += 1
            return name.decode()

        with kdc.entered():
            assert (
                authenticate(GssapiExchange("kafka", kdc.host, keytab=bob, cache="MEMORY:java")) == f"bob@{kdc.realm}"
            )
        with kdc.entered(KRB5CCNAME=f"FILE:{kdc.kinit('alice', 'wonderland')}"):
            assert authenticate(GssapiExchange("kafka", kdc.host)) == f"alice@{kdc.realm}"
            exchange = GssapiExchange("kafka", kdc.host)
            exchange.first()
            broker()
            with pytest.raises(OracleError):
                oracle.one("sasl step", "broker", b"garbage")
            with pytest.raises(AuthenticationError):
                exchange.respond(b"garbage")
