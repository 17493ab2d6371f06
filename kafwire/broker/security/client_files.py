"""Files of client options for the users of a secured cluster: tools take a file's path, so no password is typed."""

from collections.abc import Iterator
from pathlib import Path

from kafwire.broker.properties_file import properties_file
from kafwire.broker.security.certificates import write_private
from kafwire.broker.security.client_options import Dialect
from kafwire.broker.security.cluster_security import ClusterSecurity
from kafwire.broker.security.security import Security
from kafwire.config.sasl_mechanisms import WITH_PASSWORD

__all__ = ["written_options"]


def written_options(security: ClusterSecurity) -> str:
    """Write a file for each listener, user, mechanism and dialect. Return lines to copy, with the files' paths."""
    return "\n".join(line for listener in security.listeners for line in _lines(security, listener))


def _lines(security: ClusterSecurity, listener: Security) -> Iterator[str]:
    yield f"listener {listener.name} {security.bootstrap_of(listener)}"
    if listener.has_tls:
        yield f"  CA certificate: {security.certificates.ca_pem}"
    if listener.client_auth == "required":
        yield f"  client certificate: {security.certificates.client_certificate}"
        yield f"  client key: {security.certificates.client_key}"
    for mechanism in listener.mechanisms or (None,):
        for user in listener.users if mechanism in WITH_PASSWORD else (None,):
            title = ", ".join(part for part in (user, mechanism) if part) or "any client"
            yield f"  {title}:"
            path = _write(security, listener, user, mechanism, "kafwire")
            yield f"    kafwire topics -F {path}"
            yield f"    kcat -L -F {_write(security, listener, user, mechanism, 'librdkafka')}"
            path = _write(security, listener, user, mechanism, "java")
            bootstrap = security.bootstrap_of(listener)
            yield f"    kafka-topics.sh --list --bootstrap-server {bootstrap} --command-config {path}"


def _write(
    security: ClusterSecurity, listener: Security, user: str | None, mechanism: str | None, dialect: Dialect
) -> Path:
    number = list(listener.users).index(user) + 1 if user is not None else 0  # a user's name may be no valid file name
    parts = [listener.name, mechanism, f"user-{number}" if number else None, dialect]
    path = security.folder / ("-".join(part for part in parts if part).lower() + ".properties")
    options = security.client_options(user, mechanism, listener=listener, dialect=dialect)
    text = (
        properties_file(options) if dialect == "java" else "".join(f"{key}={value}\n" for key, value in options.items())
    )
    write_private(path, text.encode())
    return path
