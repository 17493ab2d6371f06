"""The TLS and SASL options of every client, and checks of their combinations.

Names are librdkafka's, and Java's are mapped to them (`names.py`). A new client reads and tests the named files
and credentials (`kafwire.security`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kafwire.config.checks import OneOf, flag, function, maybe, number, option, path, public_pem, secret, some_text
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
GRANT_TYPES = ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")
# Mechanisms that need a user name and a password.
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """The options by which client and broker authenticate each other."""

    security_protocol: str = option("PLAINTEXT", _protocol)

    # CA certificates for the broker's certificate: a file (PEM, or PKCS#12 with ssl_ca_password), or PEM text; neither:
    # the system's trust store.
    ssl_ca_location: str | None = option(None, maybe(path), hidden=True)
    ssl_ca_pem: str | None = option(None, maybe(public_pem), hidden=True)
    ssl_ca_password: Secret | None = option(None, maybe(secret), hidden=True)
    # This client's own certificate, with intermediate ones, and its private key: PEM files, or PEM texts.
    ssl_certificate_location: str | None = option(None, maybe(path), hidden=True)
    ssl_certificate_pem: str | None = option(None, maybe(public_pem), hidden=True)
    ssl_key_location: str | None = option(None, maybe(path), hidden=True)
    ssl_key_pem: Secret | None = option(None, maybe(secret), hidden=True)
    ssl_key_password: Secret | None = option(None, maybe(secret), hidden=True)
    # Or both in one file: PKCS#12, or PEM.
    ssl_keystore_location: str | None = option(None, maybe(path), hidden=True)
    ssl_keystore_password: Secret | None = option(None, maybe(secret), hidden=True)
    # A PEM file of certificate revocation lists.
    ssl_crl_location: str | None = option(None, maybe(path), hidden=True)
    ssl_enabled_protocols: tuple[str, ...] = option(TLS_VERSIONS, _tls_versions)
    # OpenSSL's names with colons between them; those of TLS 1.3 begin with TLS_.
    ssl_cipher_suites: str | None = option(None, maybe(some_text))
    # "https": the broker's certificate must be for the host of the connection.
    ssl_endpoint_identification_algorithm: str = option("https", _identification)
    # False: any certificate is accepted, so any server may pose as the broker.
    enable_ssl_certificate_verification: bool = option(True, flag)
    # A context instead of all these options; TLS then uses Python's module ssl, under the GIL.
    ssl_context: Any = option(None, maybe(_tls_context), hidden=True)

    sasl_mechanism: str | None = option(None, maybe(OneOf(*MECHANISMS)))
    sasl_username: str | None = option(None, maybe(some_text))
    sasl_password: Secret | None = option(None, maybe(secret), hidden=True)
    # The user name and password are the id and HMAC of a delegation token (KIP-48).
    sasl_tokenauth: bool = option(False, flag)
    # Returns a token, or a future of one: text, or kafwire.OAuthToken.
    sasl_oauthbearer_token_provider: Any = option(None, maybe(function), hidden=True)
    sasl_oauthbearer_token_endpoint_url: str | None = option(None, maybe(some_text))
    sasl_oauthbearer_grant_type: str = option("client_credentials", OneOf(*GRANT_TYPES))
    sasl_oauthbearer_client_id: str | None = option(None, maybe(some_text))
    sasl_oauthbearer_client_secret: Secret | None = option(None, maybe(secret), hidden=True)
    sasl_oauthbearer_scope: str | None = option(None, maybe(some_text))
    sasl_oauthbearer_extensions: Mapping[str, str] | None = option(None, maybe(_extensions))
    # The assertion (RFC 7523), or the key and claims to create it: instead of the secret, or as the grant.
    sasl_oauthbearer_assertion_file: str | None = option(None, maybe(path), hidden=True)
    sasl_oauthbearer_assertion_algorithm: str = option("RS256", OneOf("RS256", "ES256"))
    sasl_oauthbearer_assertion_private_key_file: str | None = option(None, maybe(path), hidden=True)
    sasl_oauthbearer_assertion_private_key_pem: Secret | None = option(None, maybe(secret), hidden=True)
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(None, maybe(secret), hidden=True)
    sasl_oauthbearer_assertion_jwt_template_file: str | None = option(None, maybe(path), hidden=True)
    sasl_oauthbearer_assertion_claim_aud: str | None = option(None, maybe(some_text))
    sasl_oauthbearer_assertion_claim_iss: str | None = option(None, maybe(some_text))
    sasl_oauthbearer_assertion_claim_sub: str | None = option(None, maybe(some_text))
    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(300, number(1))
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(60, number(0))
    sasl_oauthbearer_assertion_claim_jti_include: bool = option(False, flag)
    # CA certificates for the token endpoint: a PEM file, or PEM text; neither: the system's trust store.
    https_ca_location: str | None = option(None, maybe(path), hidden=True)
    https_ca_pem: str | None = option(None, maybe(public_pem), hidden=True)
    sasl_kerberos_service_name: str = option("kafka", some_text)
    # None: the principal of the credential cache.
    sasl_kerberos_principal: str | None = option(None, maybe(some_text))
    sasl_kerberos_keytab: str | None = option(None, maybe(path), hidden=True)
    # The AWS region, if the brokers' host names do not have it.
    sasl_aws_region: str | None = option(None, maybe(some_text))

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
                f"security_protocol={self.security_protocol} needs sasl_mechanism, one of {', '.join(MECHANISMS)}"
            )
        missing = [name for name in ("sasl_username", "sasl_password") if getattr(self, name) is None]
        if mechanism in _PASSWORD_MECHANISMS and missing:
            raise ConfigError(f"sasl_mechanism={mechanism} needs {' and '.join(missing)}")
        if self.sasl_tokenauth and not mechanism.startswith("SCRAM"):
            raise ConfigError("sasl_tokenauth=True needs sasl_mechanism=SCRAM-SHA-256 or SCRAM-SHA-512")
        if mechanism == "OAUTHBEARER":
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
