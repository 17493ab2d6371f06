"""The SASL mechanisms: the one list that options, logins, JAAS texts, the embedded broker and test clusters read.

A new mechanism is an entry here, its exchange in `security/sasl/`, and the call that makes the exchange in
`security/login.py`. Data only.
"""

from __future__ import annotations

from typing import NamedTuple

_KAFKA = "org.apache.kafka.common.security."


class Mechanism(NamedTuple):
    """A SASL mechanism."""

    name: str
    login_module: str  # Java's class in `sasl.jaas.config`
    has_password: bool = False  # it needs sasl_username and sasl_password
    scram_hash: str = ""  # as hashlib names it
    scram_number: int = 0  # in AlterUserScramCredentials (KIP-554)
    is_in_kafka: bool = True  # Kafka's own brokers have it


PLAIN = Mechanism("PLAIN", f"{_KAFKA}plain.PlainLoginModule", has_password=True)
SCRAM_SHA_256 = Mechanism(
    "SCRAM-SHA-256", f"{_KAFKA}scram.ScramLoginModule", has_password=True, scram_hash="sha256", scram_number=1
)
SCRAM_SHA_512 = SCRAM_SHA_256._replace(name="SCRAM-SHA-512", scram_hash="sha512", scram_number=2)
OAUTHBEARER = Mechanism("OAUTHBEARER", f"{_KAFKA}oauthbearer.OAuthBearerLoginModule")
AWS_MSK_IAM = Mechanism("AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule", is_in_kafka=False)
GSSAPI = Mechanism("GSSAPI", "com.sun.security.auth.module.Krb5LoginModule")

MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI)
NAMES = tuple(each.name for each in MECHANISMS)
IN_KAFKA = tuple(each.name for each in MECHANISMS if each.is_in_kafka)
WITH_PASSWORD = tuple(each.name for each in MECHANISMS if each.has_password)
LOGIN_MODULES = {each.name: each.login_module for each in MECHANISMS}
SCRAM_HASHES = {each.name: each.scram_hash for each in MECHANISMS if each.scram_hash}
SCRAM_NUMBERS = {each.name: each.scram_number for each in MECHANISMS if each.scram_number}
