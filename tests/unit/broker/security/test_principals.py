"""Names in certificates, and what rules make of them."""

import datetime as dt
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kafwire.broker.security.principals import distinguished_name, mapped_name, principal_of, read_rules

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*parts: Any) -> Any:
    """DER of a certificate whose subject has these parts; each is one attribute, or several."""
    rdns = []
    for part in parts:
        several = part if isinstance(part, list) else [part]
        rdns.append(x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in several]))
    name = x509.Name(rdns)
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]),
        subject_name=name, public_key=KEY.public_key(), serial_number=1 << 120,
        not_valid_before=now, not_valid_after=now,
    )  # fmt: skip
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


CN, O, OU, C = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COUNTRY_NAME  # noqa: E741


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(CN, "client")], "CN=client"),
        ([(C, "DE"), (O, "kafwire"), (OU, "tests"), (CN, "client")], "CN=client,OU=tests,O=kafwire,C=DE"),
        ([(O, "a, b + c = d"), (CN, 'x"\\<>#;')], 'CN=x\\"\\\\\\<\\>\\#\\;,O=a\\, b \\+ c \\= d'),
        ([(CN, " two  ")], "CN=\\ two\\ \\ "),
        ([(CN, "  ")], "CN=\\ \\ "),
        ([(CN, "J\u00fcrgen \U0001f600")], "CN=J\u00fcrgen \U0001f600"),
        ([(NameOID.USER_ID, "7"), (NameOID.DOMAIN_COMPONENT, "test")], "DC=test,UID=7"),
        ([(NameOID.LOCALITY_NAME, "l"), (NameOID.STATE_OR_PROVINCE_NAME, "s"), (NameOID.STREET_ADDRESS, "r")],
         "STREET=r,ST=s,L=l"),
        ([(NameOID.EMAIL_ADDRESS, "a@b"), (CN, "c")], "CN=c,1.2.840.113549.1.9.1=#1603614062"),
        ([(NameOID.STREET_ADDRESS, "x" * 200)], "STREET=" + "x" * 200),
        ([], ""),
    ],
)  # fmt: skip
def test_names_are_those_of_rfc_2253(parts: Any, expected: Any) -> None:
    assert distinguished_name(certificate(*parts)) == expected


def test_several_attributes_are_one_part() -> None:
    assert sorted(distinguished_name(certificate([(CN, "a"), (OU, "b")])).split("+")) == ["CN=a", "OU=b"]


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert principal_of(None) == "User:ANONYMOUS"
    assert principal_of(certificate((O, "o"), (CN, "client"))) == "User:CN=client,O=o"


def test_bytes_that_are_no_certificate() -> None:
    whole = certificate((CN, "client"))
    for cut in (0, 1, 10, 60):
        with pytest.raises((ValueError, IndexError)):
            distinguished_name(whole[:cut])


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=([^,]+).*$/$1/,DEFAULT", "CN=Client,O=b", "Client"),
        ("RULE:^CN=([^,]+).*$/$1/,DEFAULT", "O=b", "O=b"),
        ("RULE:^CN=([^,]+),O=(.*)$/$1@$2/L", "CN=Client,O=B", "client@b"),
        ("RULE:^O=.*$/x/, RULE:^CN=(.*)$/$1/U", "CN=a", "A"),
    ],
)
def test_rules(rules: Any, name: Any, expected: Any) -> None:
    assert mapped_name(name, rules) == expected


def test_no_rule_applies() -> None:
    with pytest.raises(ValueError, match="no rule of"):
        mapped_name("CN=a", "RULE:^O=.*$/x/")


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "NONE", "DEFAULT;DEFAULT"])
def test_invalid_rules_are_refused(rules: Any) -> None:
    with pytest.raises(ValueError, match="invalid rules for principal names"):
        read_rules(rules)
