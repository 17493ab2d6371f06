"""Parsing of `bootstrap_servers`, in all forms of broker addresses. No name is looked up here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafwire.config.security import PROTOCOLS

DEFAULT_PORT = 9092
FORMS = '"host", "host:port" or "[IPv6 address]:port"'


def parse_servers(value: Any) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of a text with commas, or of an iterable of texts.

    The default port is 9092. A security protocol before an address is allowed, as in a broker's `listeners`: see
    `protocols_of`. Raises `ValueError` or `TypeError`.
    """
    if not isinstance(value, str | Iterable) or isinstance(value, bytes):
        raise TypeError(f"{FORMS}, several of them with commas between, or a list of them is needed")
    texts = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a list of text is needed, each {FORMS}")
    if any("@" in text for text in texts):
        raise ValueError(
            f"user name and password are options of their own, sasl_username and sasl_password; write {FORMS}"
        )
    if any("=" in text for text in texts):  # a key of a connection string may follow
        raise ValueError(f"an address has no '=': settings are options of their own; write {FORMS}{_hint(texts)}")
    parts = [part.strip() for text in texts for part in text.split(",")]
    servers = tuple(_parse(part) for part in parts if part)
    if not servers:
        raise ValueError("at least one host:port is needed")
    return servers


def shown_servers(value: Any) -> str:
    """Return the option for an error: `***` replaces possible passwords, before the last `@` or after a `=`."""
    if isinstance(value, str):
        shown = f"***{value[value.rindex('@') :]}" if "@" in value else value
        name, separator, _ = shown.partition("=")
        return repr(f"{name}{separator}***" if separator else shown)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown_servers, value))}]"
    shown = repr(value)
    return "***" if "@" in shown or "=" in shown else shown


def protocols_of(value: Any) -> set[str]:
    """Return the security protocols before addresses in `value`, which `parse_servers` has accepted."""
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    parts = [part.strip() for text in texts for part in text.split(",")]
    return {part.partition("://")[0].upper() for part in parts if "://" in part}


def _hint(texts: list[str]) -> str:
    if not any(text.strip().startswith("Endpoint=sb://") for text in texts):
        return ""
    return (
        '. This is a connection string of Azure Event Hubs: the address is "<namespace>.servicebus.windows.net:9093", '
        "with security_protocol='SASL_SSL', sasl_mechanism='PLAIN', sasl_username='$ConnectionString' and the "
        "connection string as sasl_password"
    )


def _parse(part: str) -> tuple[str, int]:
    scheme, separator, address = part.partition("://")
    if not separator:
        address = part
    elif scheme.upper() not in PROTOCOLS:  # users paste a broker's `listeners=PLAINTEXT://host:9092`
        raise ValueError(f"{part!r}: leave {scheme + separator!r} out: only Kafka's protocol is spoken; write {FORMS}")
    host, port = _split(part, address)
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(
            f"{part!r}: {host!r} is not a host name: each label between dots has 1 to 63 characters"
        ) from None
    return host, port


def _split(part: str, address: str) -> tuple[str, int]:
    if any(c.isspace() or c == ";" for c in address) or address.startswith(("['", '["')):
        raise ValueError(f"{part!r} is not host:port: several addresses have a comma between them")
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        well_formed = bool(bracket)
    else:
        host, colon, port = address.partition(":")
        well_formed = True
    if ":" in port or "]" in host + port or not well_formed:  # the begin of the port would be ambiguous
        raise ValueError(f"{part!r}: an IPv6 address goes in brackets, [::1]:9092")
    if not host or any(c.isspace() or c in "/@?#" for c in host):
        raise ValueError(f"{part!r} is not host:port")
    if not colon:
        return host, DEFAULT_PORT
    if colon != ":" or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{part!r} is not host:port, with a port from 1 to 65535")
    return host, int(port)
