"""The login of one client to all its brokers: takes its options, and makes an exchange for each connection.

The client's connections share tokens, AWS credentials, derived keys, and Kerberos tickets.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafwire.config.sasl_mechanisms import NAMES, SCRAM_HASHES
from kafwire.errors import AuthenticationError, ConfigError
from kafwire.runtime.interfaces import Engine
from kafwire.secret import Secret
from kafwire.security.refusals import Refusals
from kafwire.security.sasl import aws_msk_iam, gssapi, oauthbearer, plain, scram
from kafwire.security.sasl.exchange import Exchange
from kafwire.security.sasl.sigv4 import AwsCredentials
from kafwire.security.shared_call import SharedCall
from kafwire.security.token_source import TokenSource


class LoginOptions(Protocol):
    """The client's login options, by their names. None: not given."""

    @property
    def sasl_mechanism(self) -> str | None:
        """One of `sasl_mechanisms.NAMES`; None: no SASL."""

    @property
    def sasl_username(self) -> str | None:
        """PLAIN, SCRAM: the user name, or a delegation token's id."""

    @property
    def sasl_password(self) -> Secret | None:
        """PLAIN, SCRAM: the user's password, or a delegation token's HMAC in base64."""

    @property
    def sasl_tokenauth(self) -> bool:
        """SCRAM: whether name and password are those of a delegation token."""

    @property
    def sasl_oauthbearer_token_provider(self) -> Callable[[], object] | None:
        """OAUTHBEARER: returns tokens."""

    @property
    def sasl_oauthbearer_token_endpoint_url(self) -> str | None:
        """OAUTHBEARER: the URL of the token endpoint, instead of a provider."""

    @property
    def sasl_oauthbearer_client_id(self) -> str | None:
        """The client id at the token endpoint."""

    @property
    def sasl_oauthbearer_client_secret(self) -> Secret | None:
        """The client secret at the token endpoint."""

    @property
    def sasl_oauthbearer_scope(self) -> str | None:
        """The scope in requests to the token endpoint."""

    @property
    def sasl_oauthbearer_extensions(self) -> str | Mapping[str, str] | None:
        """SASL extensions: a mapping, or "name=value,name=value". Extensions of a token take precedence."""

    @property
    def sasl_oauthbearer_grant_type(self) -> str | None:
        """The grant type at the token endpoint; None: client_credentials."""

    @property
    def sasl_oauthbearer_assertion_file(self) -> str | None:
        """A file with an assertion that another program renews; all other options of assertions are then ignored."""

    @property
    def sasl_oauthbearer_assertion_algorithm(self) -> str | None:
        """The algorithm of assertions: RS256 (also for None) or ES256."""

    @property
    def sasl_oauthbearer_assertion_private_key_file(self) -> str | None:
        """The file of the private key that signs assertions."""

    @property
    def sasl_oauthbearer_assertion_private_key_pem(self) -> Secret | None:
        """The private key itself as PEM, instead of a file."""

    @property
    def sasl_oauthbearer_assertion_private_key_passphrase(self) -> Secret | None:
        """The passphrase of an encrypted private key."""

    @property
    def sasl_oauthbearer_assertion_jwt_template_file(self) -> str | None:
        """A file with the header and payload to start assertions from."""

    @property
    def sasl_oauthbearer_assertion_claim_aud(self) -> str | None:
        """The audience (`aud`) in assertions."""

    @property
    def sasl_oauthbearer_assertion_claim_iss(self) -> str | None:
        """The issuer (`iss`) in assertions."""

    @property
    def sasl_oauthbearer_assertion_claim_sub(self) -> str | None:
        """The subject (`sub`) in assertions."""

    @property
    def sasl_oauthbearer_assertion_claim_exp_seconds(self) -> int:
        """The seconds until an assertion expires."""

    @property
    def sasl_oauthbearer_assertion_claim_nbf_seconds(self) -> int:
        """The seconds by which an assertion's start (`nbf`) lies in the past."""

    @property
    def sasl_oauthbearer_assertion_claim_jti_include(self) -> bool:
        """Whether each assertion has a unique id (`jti`)."""

    @property
    def https_ca_location(self) -> str | None:
        """A file or folder of trusted certificates for the token endpoint."""

    @property
    def https_ca_pem(self) -> str | None:
        """The trusted certificates for the token endpoint as PEM text."""

    @property
    def sasl_kerberos_service_name(self) -> str | None:
        """GSSAPI: the brokers' service name; None: kafka."""

    @property
    def sasl_kerberos_principal(self) -> str | None:
        """GSSAPI: the client's principal."""

    @property
    def sasl_kerberos_keytab(self) -> str | None:
        """GSSAPI: a file with the principal's key; None: take tickets from the user's cache."""

    @property
    def sasl_aws_region(self) -> str | None:
        """AWS_MSK_IAM: the cluster's region; None: the region in the broker's host name."""


class Login:
    """Makes the exchanges of one client. It imports the packages of its mechanism when it is created, and no others.

    Args:
        options: the client's options.
        timeout_s: how long a connection waits for a token, or for AWS credentials.

    Raises:
        ConfigError: an option is missing or wrong, or a package is not installed.
    """

    def __init__(self, options: LoginOptions, *, timeout_s: float = 30.0) -> None:
        self.mechanism = options.sasl_mechanism or ""
        self._options = options
        self._timeout_s = timeout_s
        self._keys = scram.ScramKeys()
        self._cache = _new_cache()
        self._refusals = Refusals()
        self._forget: Callable[[], None] | None = None
        self._tokens: TokenSource | None = None
        self._credentials: SharedCall[AwsCredentials] | None = None
        self._extensions: dict[str, str] = {}
        if self.mechanism not in NAMES:
            raise ConfigError(f"sasl_mechanism must be one of {', '.join(NAMES)}, not {self.mechanism!r}")
        if self.mechanism == oauthbearer.MECHANISM:
            self._prepare_tokens(options)
        elif self.mechanism == aws_msk_iam.MECHANISM:
            self._prepare_credentials()
        elif self.mechanism == gssapi.MECHANISM:
            _check_kerberos()
            if options.sasl_kerberos_keytab is not None:
                self._forget = self._forget_tickets
        elif not options.sasl_username or not options.sasl_password:
            missing = "sasl_password" if options.sasl_username else "sasl_username"
            raise ConfigError(f"sasl_mechanism {self.mechanism} needs {missing}")

    def __repr__(self) -> str:
        return f"Login({self.mechanism!r})"

    @property
    def identity(self) -> str:
        """The user, as errors name it."""
        named = self._options.sasl_username or self._options.sasl_kerberos_principal
        if named is not None:
            return repr(named)
        return "its token" if self._tokens is not None else "this client"

    @property
    def asks(self) -> str:
        """The blocking operation of an exchange, as errors name it."""
        if self.mechanism == gssapi.MECHANISM:
            return "Kerberos (its KDC, or a name server)"
        return "the derivation of the password's key"

    @property
    def is_by_delegation_token(self) -> bool:
        """Whether user and password are those of a delegation token."""
        return self._options.sasl_tokenauth

    @property
    def epoch(self) -> int:
        """A number that grows when a refusal makes the credentials invalid."""
        return self._refusals.epoch

    def refused(self, host: str, epoch: int, now: float, why: str) -> bool:
        """Drop the token, AWS credentials or tickets that a broker refused.

        Args:
            host: the broker's name.
            epoch: the value of `epoch` before the exchange was made.
            now: seconds since 1970.
            why: the broker's reason.

        Returns:
            True if the next exchange has other credentials; False for a password or a delegation token.
        """
        if self._forget is None:
            return False
        if self._refusals.add(host, epoch, now, why):
            self._forget()
        return True

    def accepted(self, host: str) -> None:
        """Note that a broker has accepted this client."""
        self._refusals.clear(host)

    async def exchange(self, engine: Engine, host: str) -> Exchange:
        """Return a new exchange with one broker, for a login or a re-authentication. On the engine only.

        Args:
            engine: the client's engine.
            host: the broker's name as configured or in metadata, not its resolved address.

        Raises:
            AuthenticationError: there is no token, or there are no credentials; or this broker has refused several, and
                the pause before the next attempt lasts.
        """
        options = self._options
        self._refusals.check(host, engine.clock.time_ns() / 1e9)
        if self.mechanism in SCRAM_HASHES:
            assert options.sasl_username is not None
            assert options.sasl_password is not None
            return scram.ScramExchange(
                self.mechanism,
                options.sasl_username,
                options.sasl_password,
                nonce=secrets.token_urlsafe(24),
                keys=self._keys,
                tokenauth=options.sasl_tokenauth,
            )
        if self._tokens is not None:
            token = await self._tokens.token(engine)
            extensions = {**self._extensions, **token.extensions}
            return oauthbearer.OAuthBearerExchange(token.value, extensions, expires_at=token.expires_at)
        if self._credentials is not None:
            return aws_msk_iam.AwsMskIamExchange(
                await self._credentials.result(engine),
                host=host,
                region=options.sasl_aws_region,
                now=engine.clock.time_ns() / 1e9,
            )
        if self.mechanism == gssapi.MECHANISM:
            return gssapi.GssapiExchange(
                options.sasl_kerberos_service_name or "kafka",
                host,
                principal=options.sasl_kerberos_principal,
                keytab=options.sasl_kerberos_keytab,
                cache=self._cache,
            )
        assert self.mechanism == plain.MECHANISM
        assert options.sasl_username is not None
        assert options.sasl_password is not None
        return plain.PlainExchange(options.sasl_username, options.sasl_password)

    @staticmethod
    def expires_at(exchange: Exchange) -> float | None:
        """When an exchange's credentials expire, in seconds since 1970; None: unknown, or never."""
        found: float | None = getattr(exchange, "expires_at", None)
        return found

    def _prepare_tokens(self, options: LoginOptions) -> None:
        self._extensions = _extensions(options.sasl_oauthbearer_extensions)
        provider, url = options.sasl_oauthbearer_token_provider, options.sasl_oauthbearer_token_endpoint_url
        if (provider is None) == (not url):
            raise ConfigError(
                "sasl_mechanism OAUTHBEARER needs either sasl_oauthbearer_token_provider or"
                " sasl_oauthbearer_token_endpoint_url"
            )
        if provider is not None:
            if not callable(provider):
                raise ConfigError("sasl_oauthbearer_token_provider must be a function without arguments")
            self._tokens = TokenSource(provider, timeout_s=self._timeout_s)
            self._forget = self._tokens.forget
            return
        from kafwire.security.token_endpoint import CLIENT_CREDENTIALS, TokenEndpoint

        assert url is not None
        endpoint = TokenEndpoint(
            url,
            client_id=options.sasl_oauthbearer_client_id,
            client_secret=options.sasl_oauthbearer_client_secret,
            scope=options.sasl_oauthbearer_scope,
            grant_type=options.sasl_oauthbearer_grant_type or CLIENT_CREDENTIALS,
            assertion=_assertion(options),
            ca_location=options.https_ca_location,
            ca_pem=options.https_ca_pem,
            # shorter, as the endpoint's error has more detail than the caller's timeout
            timeout_s=0.95 * self._timeout_s,
        )
        self._tokens = TokenSource(endpoint, timeout_s=self._timeout_s, what=f"the token endpoint {endpoint.name}")
        self._forget = self._tokens.forget

    def _prepare_credentials(self) -> None:
        from kafwire.security.aws_credentials import AmbientCredentials

        def accept(engine: Engine, found: object) -> AwsCredentials:
            del engine
            if not isinstance(found, AwsCredentials):
                raise AuthenticationError("there are no AWS credentials")
            return found

        ambient = AmbientCredentials()
        self._credentials = SharedCall("botocore", ambient, accept, self._timeout_s)
        self._forget = ambient.forget

    def _forget_tickets(self) -> None:
        """Take new tickets from the keytab, into another cache."""
        self._cache = _new_cache()


def _new_cache() -> str:
    return f"MEMORY:kafwire-{secrets.token_hex(8)}"


def _assertion(options: LoginOptions) -> Any:
    """Return the source of assertions, or None if they are not configured."""
    from kafwire.security.jwt_assertion import AssertionFile, SignedAssertion

    if options.sasl_oauthbearer_assertion_file:
        return AssertionFile(options.sasl_oauthbearer_assertion_file)
    key_file = options.sasl_oauthbearer_assertion_private_key_file
    key_pem = options.sasl_oauthbearer_assertion_private_key_pem
    if not key_file and not key_pem:
        return None
    return SignedAssertion(
        algorithm=options.sasl_oauthbearer_assertion_algorithm or "RS256",
        private_key_file=key_file or None,
        private_key_pem=key_pem or None,
        private_key_passphrase=options.sasl_oauthbearer_assertion_private_key_passphrase,
        jwt_template_file=options.sasl_oauthbearer_assertion_jwt_template_file,
        claim_aud=options.sasl_oauthbearer_assertion_claim_aud,
        claim_iss=options.sasl_oauthbearer_assertion_claim_iss,
        claim_sub=options.sasl_oauthbearer_assertion_claim_sub,
        claim_exp_seconds=options.sasl_oauthbearer_assertion_claim_exp_seconds,
        claim_nbf_seconds=options.sasl_oauthbearer_assertion_claim_nbf_seconds,
        claim_jti_include=options.sasl_oauthbearer_assertion_claim_jti_include,
    )


def _extensions(given: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return extensions as names and values. Raises `ConfigError`, which shows no value."""
    if isinstance(given, str):
        pairs = [part.strip().partition("=") for part in given.split(",") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ConfigError("sasl_oauthbearer_extensions must be name=value,name=value")
        found = {name.strip(): value.strip() for name, _, value in pairs}
        if len(found) < len(pairs):
            raise ConfigError("sasl_oauthbearer_extensions has a name twice")
    else:
        found = dict(given or {})
    try:
        oauthbearer.check_extensions(found)
    except AuthenticationError as problem:
        raise ConfigError(f"sasl_oauthbearer_extensions: {problem}") from None
    return found


def _check_kerberos() -> None:
    try:
        import gssapi as _  # noqa: F401
    except ImportError:
        raise ConfigError(
            "sasl_mechanism GSSAPI needs the package gssapi, and MIT Kerberos for it: install kafwire[kerberos]"
        ) from None
    except OSError as problem:
        raise ConfigError(f"sasl_mechanism GSSAPI needs the libraries of Kerberos: {problem}") from None
