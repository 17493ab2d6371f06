"""The TLS and SASL options of every client, and checks of their combinations.

Names are librdkafka's, and `from_config` maps Java's to them. A new client reads and tests the named files
and credentials (`kafwire.security`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kafwire.config.checks import (
    Number,
    OneOf,
    described_by,
    flag,
    function,
    maybe,
    option,
    path,
    public_pem,
    secret,
    some_text,
)
from kafwire.config.sasl_mechanisms import NAMES, OAUTHBEARER, SCRAM_HASHES, WITH_PASSWORD
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
GRANT_TYPES = ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")


def _protocol(value: Any) -> str:
    if not isinstance(value, str) or value.upper() not in PROTOCOLS:
        raise ValueError(f"allowed: {', '.join(PROTOCOLS)}")
    return value.upper()


def _tls_versions(value: Any) -> tuple[str, ...]:
    """Check TLSv1.2, TLSv1.3 or both; text with commas, or several texts."""
    parts = value.split(",") if isinstance(value, str) else list(value)
    found = {part.strip() for part in parts}
    if not found or found - {*TLS_VERSIONS}:
        raise ValueError("allowed: TLSv1.2, TLSv1.3, or both with a comma between them")
    return tuple(version for version in TLS_VERSIONS if version in found)


def _identification(value: Any) -> str:
    """Check the option: Java turns off the check of host names by the empty text, librdkafka by "none"."""
    if value not in ("https", "none", ""):
        raise ValueError('allowed: "https", and "none" or "" for no check of the host name')
    return "https" if value == "https" else "none"


def _extensions(value: Any) -> dict[str, str]:
    """Check SASL extensions (KIP-342): a mapping, or librdkafka's `a=b,c=d`."""
    if isinstance(value, str):
        value = dict(part.strip().partition("=")[::2] for part in value.split(",") if part.strip())
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise TypeError("a mapping of texts, or name=value,name=value is needed")
    return dict(value)


def _tls_context(value: Any) -> Any:
    if not hasattr(value, "wrap_bio"):
        raise TypeError("an ssl.SSLContext is needed")
    return value


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Options of TLS and SASL."""

    security_protocol: str = option(
        "PLAINTEXT",
        _protocol,
        "Protocol of the brokers' listener: TLS or none, SASL or none.",
        accepts=OneOf(*PROTOCOLS).accepts,
        typed=f"Literal[{OneOf(*PROTOCOLS).accepts}]",
    )
    ssl_ca_location: str | None = option(
        None,
        maybe(path),
        "PEM or PKCS#12 file with the CA certificates that the client trusts, or a folder of them. None: those of "
        "the system.",
        names="librdkafka Java=ssl.truststore.location kafka-python=ssl_cafile",
        hidden=True,
    )
    ssl_ca_pem: str | None = option(
        None,
        maybe(public_pem),
        "CA certificates as PEM text, instead of ssl_ca_location.",
        names="librdkafka Java=ssl.truststore.certificates",
        hidden=True,
    )
    ssl_ca_password: Secret | None = option(
        None,
        maybe(secret),
        "Password of a PKCS#12 file of CA certificates.",
        names="Java=ssl.truststore.password",
        hidden=True,
    )
    ssl_certificate_location: str | None = option(
        None,
        maybe(path),
        "PEM file with the certificate of this client and the intermediate ones.",
        names="librdkafka kafka-python=ssl_certfile",
        hidden=True,
    )
    ssl_certificate_pem: str | None = option(
        None,
        maybe(public_pem),
        "The same certificates as PEM text, instead of ssl_certificate_location.",
        names="librdkafka Java=ssl.keystore.certificate.chain",
        hidden=True,
    )
    ssl_key_location: str | None = option(
        None,
        maybe(path),
        "PEM file with the private key of this client.",
        names="librdkafka kafka-python=ssl_keyfile",
        hidden=True,
    )
    ssl_key_pem: Secret | None = option(
        None,
        maybe(secret),
        "The private key as PEM text, instead of ssl_key_location.",
        names="librdkafka Java=ssl.keystore.key",
        hidden=True,
    )
    ssl_key_password: Secret | None = option(
        None,
        maybe(secret),
        "Password of an encrypted private key.",
        names="Java librdkafka kafka-python=ssl_password",
        hidden=True,
    )
    ssl_keystore_location: str | None = option(
        None, maybe(path), "PKCS#12 or PEM file with certificate and private key together.", hidden=True
    )
    ssl_keystore_password: Secret | None = option(
        None, maybe(secret), "Password of ssl_keystore_location.", hidden=True
    )
    ssl_crl_location: str | None = option(
        None,
        maybe(path),
        "PEM file of certificate revocation lists.",
        names="librdkafka kafka-python=ssl_crlfile",
        hidden=True,
    )
    ssl_enabled_protocols: tuple[str, ...] = option(
        TLS_VERSIONS,
        _tls_versions,
        "TLS versions that the client offers, as a list or with commas.",
        names="Java",
        accepts="TLSv1.2, TLSv1.3 or both",
        typed="str | Iterable[str]",
    )
    ssl_cipher_suites: str | None = option(
        None,
        maybe(some_text),
        "OpenSSL's names of cipher suites, with colons between them; those of TLS 1.3 begin with TLS_. None: "
        "OpenSSL's defaults.",
        names="Java librdkafka kafka-python=ssl_ciphers",
    )
    ssl_endpoint_identification_algorithm: str = option(
        "https",
        _identification,
        'With "https", the certificate of a broker must be for the host of the connection; "none" and "" disable '
        "this check.",
        accepts='"https", "none", ""',
    )
    enable_ssl_certificate_verification: bool = option(
        True,
        flag,
        "False: the client accepts any certificate, so any server may pose as the broker.",
        names="librdkafka",
    )
    ssl_context: Any = option(
        None,
        maybe(_tls_context),
        "`ssl.SSLContext` instead of all these options. TLS then uses Python's module ssl, under the GIL.",
        names="",
        hidden=True,
    )

    sasl_mechanism: str | None = option(
        None,
        maybe(OneOf(*NAMES)),
        "SASL mechanism, which security_protocol SASL_PLAINTEXT and SASL_SSL need.",
        names="Java librdkafka librdkafka=sasl.mechanisms",
    )
    sasl_username: str | None = option(
        None,
        maybe(some_text),
        "User name of PLAIN and SCRAM.",
        names="librdkafka kafka-python=sasl_plain_username aiokafka=sasl_plain_username",
    )
    sasl_password: Secret | None = option(
        None,
        maybe(secret),
        "Password of PLAIN and SCRAM.",
        names="librdkafka kafka-python=sasl_plain_password aiokafka=sasl_plain_password",
        hidden=True,
    )
    sasl_tokenauth: bool = option(
        False, flag, "The user name and password are the id and HMAC of a delegation token (KIP-48).", names=""
    )
    sasl_oauthbearer_token_provider: Any = option(
        None,
        maybe(function),
        "Function that returns a token, or a future of one: text, or `kafwire.OAuthToken`.",
        names="",
        typed="Callable[[], Any] | None",
        hidden=True,
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        None, maybe(some_text), "Address of the token endpoint, instead of a function."
    )
    sasl_oauthbearer_grant_type: str = option(
        "client_credentials",
        OneOf(*GRANT_TYPES),
        "Grant that the client presents to the token endpoint.",
        names="librdkafka",
    )
    sasl_oauthbearer_client_id: str | None = option(
        None,
        maybe(some_text),
        "Id of this client at the token endpoint.",
        names="librdkafka Java=sasl.oauthbearer.client.credentials.client.id "
        "librdkafka=sasl.oauthbearer.client.credentials.client.id",
    )
    sasl_oauthbearer_client_secret: Secret | None = option(
        None,
        maybe(secret),
        "Secret of this client at the token endpoint.",
        names="librdkafka Java=sasl.oauthbearer.client.credentials.client.secret "
        "librdkafka=sasl.oauthbearer.client.credentials.client.secret",
        hidden=True,
    )
    sasl_oauthbearer_scope: str | None = option(
        None, maybe(some_text), "Scope that the client requests from the token endpoint."
    )
    sasl_oauthbearer_extensions: Mapping[str, str] | None = option(
        None,
        maybe(_extensions),
        "SASL extensions for the brokers (KIP-342).",
        names="librdkafka",
        accepts="a mapping, or text: name=value,name=value",
        typed="str | Mapping[str, str] | None",
    )
    sasl_oauthbearer_assertion_file: str | None = option(
        None,
        maybe(path),
        "File with a signed JWT (RFC 7523), which is the grant (KIP-1139) or replaces the secret (KIP-1258). The "
        "client reads it for each token. Other options of assertions then have no effect.",
        hidden=True,
    )
    sasl_oauthbearer_assertion_algorithm: str = option(
        "RS256", OneOf("RS256", "ES256"), 'Algorithm that signs assertions, which needs `pip install "kafwire[oauth]"`.'
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = option(
        None,
        maybe(path),
        "PEM file with the key that signs assertions. The client reads it for each assertion.",
        hidden=True,
    )
    sasl_oauthbearer_assertion_private_key_pem: Secret | None = option(
        None,
        maybe(secret),
        "The key that signs assertions as PEM text, instead of a file.",
        names="librdkafka",
        hidden=True,
    )
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(
        None, maybe(secret), "Passphrase of an encrypted key that signs assertions.", hidden=True
    )
    sasl_oauthbearer_assertion_jwt_template_file: str | None = option(
        None,
        maybe(path),
        "JSON file with the `header` and `payload` from which each assertion starts.",
        names="librdkafka Java=sasl.oauthbearer.assertion.template.file",
        hidden=True,
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = option(
        None, maybe(some_text), "Audience of assertions. It replaces the claim of the template."
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = option(
        None, maybe(some_text), "Issuer of assertions. It replaces the claim of the template."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = option(
        None, maybe(some_text), "Subject of assertions. It replaces the claim of the template."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(
        300, Number(1), "Time after its creation for which an assertion is valid."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(
        60, Number(0), "Time before its creation for which an assertion is valid, as clocks differ."
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = option(False, flag, "Each assertion has an id.")
    https_ca_location: str | None = option(
        None,
        maybe(path),
        "PEM file with the CA certificates of the token endpoint. None: those of the system.",
        names="librdkafka",
        hidden=True,
    )
    https_ca_pem: str | None = option(
        None,
        maybe(public_pem),
        "The same certificates as PEM text, instead of https_ca_location.",
        names="librdkafka",
        hidden=True,
    )
    sasl_kerberos_service_name: str = option("kafka", some_text, "Kerberos service name of the brokers.")
    sasl_kerberos_principal: str | None = option(
        None,
        maybe(some_text),
        "Kerberos principal of the client. None: that of the credential cache.",
        names="librdkafka",
    )
    sasl_kerberos_keytab: str | None = option(
        None,
        maybe(path),
        "File with the key of the principal. None: tickets of the credential cache.",
        names="librdkafka",
        hidden=True,
    )
    sasl_aws_region: str | None = option(
        None, maybe(some_text), "AWS region, if the host names of the brokers do not have it.", names=""
    )

    @property
    def has_tls(self) -> bool:
        """True if connections use TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """True if connections authenticate by SASL."""
        return self.security_protocol.startswith("SASL_")

    def check_security(self, given: frozenset[str]) -> None:
        """Reject security options that would be ignored: they give false safety.

        `given` names the options that were set.
        """
        changed = {
            item.name
            for item in fields(SecurityConfig)
            if item.name in given and getattr(self, item.name) != item.default
        }
        tls = sorted(name for name in changed if name.startswith(("ssl_", "enable_ssl_")))
        sasl = sorted(name for name in changed if name.startswith(("sasl_", "https_")))
        if tls and not self.has_tls:
            better = "SASL_SSL" if self.has_sasl else "SSL"
            raise ConfigError(
                f"option {tls[0]} has no effect with security_protocol={self.security_protocol}, which does not "
                f"encrypt: set security_protocol={better}, or leave it out"
            )
        if sasl and not self.has_sasl:
            better = "SASL_SSL" if self.has_tls else "SASL_SSL or SASL_PLAINTEXT"
            raise ConfigError(
                f"option {sasl[0]} has no effect with security_protocol={self.security_protocol}: set "
                f"security_protocol={better}, or leave it out"
            )
        if self.has_tls:
            self._check_tls(tls)
        if self.has_sasl:
            self._check_sasl()

    def _check_tls(self, changed: list[str]) -> None:
        if self.ssl_context is not None and changed != ["ssl_context"]:
            other = next(name for name in changed if name != "ssl_context")
            raise ConfigError(f"option ssl_context is instead of {other}: leave one of the two out")
        for one, other in (
            ("ssl_ca_location", "ssl_ca_pem"),
            ("ssl_certificate_location", "ssl_certificate_pem"),
            ("ssl_key_location", "ssl_key_pem"),
            ("ssl_keystore_location", "ssl_certificate_location"),
            ("ssl_keystore_location", "ssl_certificate_pem"),
            ("ssl_keystore_location", "ssl_key_location"),
            ("ssl_keystore_location", "ssl_key_pem"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ConfigError(f"options {one} and {other} are two ways to say the same: leave one of the two out")
        certificate = self.ssl_certificate_location or self.ssl_certificate_pem
        key = self.ssl_key_location or self.ssl_key_pem
        if certificate and not key:
            raise ConfigError("a client certificate needs its private key: set ssl_key_location or ssl_key_pem")
        if key and not certificate:
            raise ConfigError(
                "a private key needs its certificate: set ssl_certificate_location or ssl_certificate_pem"
            )

    def _check_sasl(self) -> None:
        mechanism = self.sasl_mechanism
        if mechanism is None:
            raise ConfigError(
                f"security_protocol={self.security_protocol} needs sasl_mechanism, one of {', '.join(NAMES)}"
            )
        missing = [name for name in ("sasl_username", "sasl_password") if getattr(self, name) is None]
        if mechanism in WITH_PASSWORD and missing:
            raise ConfigError(f"sasl_mechanism={mechanism} needs {' and '.join(missing)}")
        if self.sasl_tokenauth and mechanism not in SCRAM_HASHES:
            raise ConfigError(f"sasl_tokenauth=True needs sasl_mechanism={' or '.join(SCRAM_HASHES)}")
        if mechanism == OAUTHBEARER.name:
            self._check_oauth()

    def _check_oauth(self) -> None:
        provider, endpoint = self.sasl_oauthbearer_token_provider, self.sasl_oauthbearer_token_endpoint_url
        if (provider is None) == (endpoint is None):
            raise ConfigError(
                "sasl_mechanism=OAUTHBEARER needs either sasl_oauthbearer_token_provider, a function that returns a "
                "token, or sasl_oauthbearer_token_endpoint_url"
            )
        if endpoint is None:
            return
        if (
            self.sasl_oauthbearer_assertion_file
            or self.sasl_oauthbearer_assertion_private_key_file
            or self.sasl_oauthbearer_assertion_private_key_pem
        ):
            return  # the assertion replaces the secret (KIP-1258), and names the client
        if self.sasl_oauthbearer_grant_type != "client_credentials":
            raise ConfigError(
                f"sasl_oauthbearer_grant_type={self.sasl_oauthbearer_grant_type} needs "
                "sasl_oauthbearer_assertion_file, or sasl_oauthbearer_assertion_private_key_file to make them with"
            )
        if self.sasl_oauthbearer_client_id is None or self.sasl_oauthbearer_client_secret is None:
            raise ConfigError(
                "sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_id and "
                "sasl_oauthbearer_client_secret, or instead of the secret sasl_oauthbearer_assertion_file or "
                "sasl_oauthbearer_assertion_private_key_file"
            )
