"""The options of clients of a secured listener, in each client's spelling. Pure."""

from pathlib import Path
from typing import Literal

from kafwire.broker.security.certificates import Certificates
from kafwire.broker.security.listener_properties import jaas_entry
from kafwire.broker.security.security import Security
from kafwire.config.sasl_mechanisms import GSSAPI, LOGIN_MODULES, OAUTHBEARER

__all__ = ["DIALECTS", "Dialect", "client_options"]

Dialect = Literal["kafwire", "librdkafka", "java"]
DIALECTS: tuple[Dialect, ...] = ("kafwire", "librdkafka", "java")

_OAUTH = OAUTHBEARER.login_module.rpartition(".")[0]


def client_options(
    listener: Security,
    certificates: Certificates,
    bootstrap: str,
    *,
    user: str | None,
    mechanism: str | None,
    dialect: Dialect,
    token_file: Path | None = None,
) -> dict[str, str]:
    """Return the options of a client of this listener.

    With OAUTHBEARER, kafwire and librdkafka get a token from a function, which is not in the result; Java reads
    `token_file`. With GSSAPI, clients take a ticket from the user's cache.

    Raises `ValueError` for a mechanism or user that the listener lacks, or an unknown dialect.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is one of {', '.join(DIALECTS)}, not {dialect!r}")
    if mechanism is not None and mechanism not in listener.mechanisms:
        raise ValueError(f"listener {listener.name} has no mechanism {mechanism!r}")
    options = {"bootstrap.servers": bootstrap, "security.protocol": listener.protocol}
    if listener.has_tls:
        options |= _tls(listener, certificates, dialect)
    if listener.has_sasl:
        options |= _sasl(listener, mechanism or listener.mechanisms[0], user, dialect, token_file)
    return options


def _tls(listener: Security, certificates: Certificates, dialect: Dialect) -> dict[str, str]:
    mutual = listener.client_auth == "required"
    if dialect == "java":
        options = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.ca_pem)}
        if mutual:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client_pem)}
        return options
    options = {"ssl.ca.location": str(certificates.ca_pem)}
    if mutual:
        options["ssl.certificate.location"] = str(certificates.client_certificate)
        options["ssl.key.location"] = str(certificates.client_key)
    return options


def _sasl(
    listener: Security, mechanism: str, user: str | None, dialect: Dialect, token_file: Path | None
) -> dict[str, str]:
    java = dialect == "java"
    options = {"sasl.mechanism": mechanism}
    if mechanism == OAUTHBEARER.name:
        if java:
            options["sasl.login.callback.handler.class"] = f"{_OAUTH}.OAuthBearerLoginCallbackHandler"
            options["sasl.jaas.config"] = jaas_entry(OAUTHBEARER.login_module, {})
            if token_file is not None:
                options["sasl.oauthbearer.token.endpoint.url"] = token_file.as_uri()
        return options
    if mechanism == GSSAPI.name:
        assert listener.principal is not None
        options["sasl.kerberos.service.name"] = listener.principal.partition("/")[0]
        if java:
            cached = {"useTicketCache": "true"}
            options["sasl.jaas.config"] = jaas_entry(GSSAPI.login_module, cached)
        return options
    user = next(iter(listener.users), "") if user is None else user
    if user not in listener.users:
        raise ValueError(f"listener {listener.name} has no user {user!r}")
    password = listener.password(user)
    if not java:
        return options | {"sasl.username": user, "sasl.password": password}
    login = {"username": user, "password": password}
    return options | {"sasl.jaas.config": jaas_entry(LOGIN_MODULES[mechanism], login)}
