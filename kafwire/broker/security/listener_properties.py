"""The broker properties of secured listeners. Pure; `BrokerFiles` names the files that they point to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafwire.broker.ports import HOST
from kafwire.broker.security.security import Security
from kafwire.config.sasl_mechanisms import GSSAPI, LOGIN_MODULES, OAUTHBEARER, PLAIN, SCRAM_HASHES
from kafwire.secret import Secret

__all__ = ["BrokerFiles", "jaas_entry", "jvm_options", "listener_properties", "secret_properties"]

_OAUTH = OAUTHBEARER.login_module.rpartition(".")[0]
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# The certificate's subject is CN=client,OU=...,O=...: its user is client, which keeps ACLs readable.
_PRINCIPAL_RULES = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"


@dataclass(frozen=True)
class BrokerFiles:
    """The files that brokers read: private key and certificates, the CAs of clients, the public keys of tokens."""

    server_pem: Path
    ca_pem: Path
    jwks: Path


def listener_properties(
    listeners: Sequence[Security], ports: Mapping[str, int], advertised: Mapping[str, int], files: BrokerFiles
) -> dict[str, str]:
    """Return the properties of one node's listeners, without secrets; ports are by the listener's name.

    `listeners`, `advertised.listeners` and `listener.security.protocol.map` must be appended to the node's own.
    """
    own = {
        "listeners": ",".join(f"{each.name}://{HOST}:{ports[each.name]}" for each in listeners),
        "advertised.listeners": ",".join(f"{each.name}://{each.host}:{advertised[each.name]}" for each in listeners),
        "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in listeners),
    }
    for each in listeners:
        own |= {_prefix(each) + key: value for key, value in _of_listener(each, files).items()}
    if any(each.acls for each in listeners):
        superusers = dict.fromkeys(user for each in listeners for user in each.superusers)
        own["authorizer.class.name"] = _AUTHORIZER
        own["super.users"] = ";".join(f"User:{user}" for user in ("ANONYMOUS", *superusers))
    return own


def secret_properties(listeners: Iterable[Security], token_key: str) -> dict[str, str]:
    """Return the properties that no other process may see: PLAIN passwords, and the key of delegation tokens."""
    own: dict[str, str] = {}
    for each in listeners:
        if "PLAIN" in each.mechanisms:
            users = {f"user_{user}": Secret(password).reveal() for user, password in each.users.items()}
            own[f"{_prefix(each)}plain.sasl.jaas.config"] = jaas_entry(PLAIN.login_module, users)
        if each.delegation_tokens:
            own["delegation.token.secret.key"] = token_key
    return own


def jvm_options(listeners: Iterable[Security], files: BrokerFiles) -> list[str]:
    """Return the JVM options of a node with these listeners."""
    options: list[str] = []
    for each in listeners:
        if "OAUTHBEARER" in each.mechanisms:
            # A broker reads tokens' keys from an address (from 4.0 on) or a file (from 4.1 on) only if these options
            # name it.
            options.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={files.jwks.as_uri()}")
            options.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={files.jwks}")
        if each.krb5_conf is not None:
            options.append(f"-Djava.security.krb5.conf={each.krb5_conf}")
    return list(dict.fromkeys(options))


def jaas_entry(module: str, options: Mapping[str, str]) -> str:
    """Return a JAAS configuration of one login module; names and values of its options may be any text."""
    written = "".join(f" {_quoted(key)}={_quoted(value)}" for key, value in options.items())
    return f"{module} required{written};"


def _prefix(listener: Security) -> str:
    return f"listener.name.{listener.name.lower()}."


def _of_listener(listener: Security, files: BrokerFiles) -> dict[str, str]:
    own: dict[str, str] = {}
    if listener.has_tls:
        own |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(listener.server_pem or files.server_pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.ca_pem),
            "ssl.client.auth": listener.client_auth,
            "ssl.principal.mapping.rules": _PRINCIPAL_RULES,
        }
    if listener.has_sasl:
        own["sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
        if listener.connections_max_reauth_ms:
            own["connections.max.reauth.ms"] = str(listener.connections_max_reauth_ms)
    for mechanism in listener.mechanisms:
        prefix = f"{mechanism.lower()}."
        if mechanism in SCRAM_HASHES:
            # `tokenauth` is for clients; a broker accepts delegation tokens for SCRAM by itself.
            own[f"{prefix}sasl.jaas.config"] = jaas_entry(LOGIN_MODULES[mechanism], {})
        elif mechanism == OAUTHBEARER.name:
            own[f"{prefix}sasl.jaas.config"] = jaas_entry(OAUTHBEARER.login_module, {})
            own[f"{prefix}sasl.server.callback.handler.class"] = f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
            own["sasl.oauthbearer.jwks.endpoint.url"] = files.jwks.as_uri()
            if listener.oauth_audience is not None:
                own["sasl.oauthbearer.expected.audience"] = listener.oauth_audience
            if listener.oauth_issuer is not None:
                own["sasl.oauthbearer.expected.issuer"] = listener.oauth_issuer
        elif mechanism == GSSAPI.name:
            assert listener.principal is not None
            login = {
                "useKeyTab": "true",
                "storeKey": "true",
                "keyTab": str(listener.keytab),
                "principal": listener.principal,
                # The broker only accepts connections: it needs no ticket, and starts without the KDC.
                "isInitiator": "false",
            }
            own[f"{prefix}sasl.jaas.config"] = jaas_entry(GSSAPI.login_module, login)
            own["sasl.kerberos.service.name"] = listener.principal.partition("/")[0]
    return own | {key: _text(value) for key, value in listener.properties.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """Return a text in quotation marks for Java's StreamTokenizer, with line ends escaped, as these would end it."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return f'"{text}"'
