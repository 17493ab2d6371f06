"""The principal of a client's certificate, as in Kafka's DefaultKafkaPrincipalBuilder. Pure.

The name is the certificate's subject by RFC 2253, in the form of Java's `X500Principal.getName`. Rules as in
`ssl.principal.mapping.rules` (KIP-371) map it to another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafwire.broker.request import ANONYMOUS

DEFAULT_RULES = "DEFAULT"
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
# The string types of ASN.1 that are written as text. Any other value is written in hexadecimal.
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "utf-16-be"}
_SPECIAL = ',=+<>#;"\\'
_RULE = re.compile(r"DEFAULT|RULE:((?:\\.|[^/])*)/((?:\\.|[^/])*)/([LU]?)")


class _Tlv(NamedTuple):
    """A value of DER: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    whole: bytes


def principal_of(certificate: bytes | None, rules: str = DEFAULT_RULES) -> str:
    """Return the principal of a client with this certificate, in DER; None: it has sent none."""
    if certificate is None:
        return ANONYMOUS
    return f"User:{mapped_name(distinguished_name(certificate), rules)}"


def mapped_name(name: str, rules: str) -> str:
    """Return a name mapped by the first rule that matches. Raises `ValueError` if none does, or a rule is invalid."""
    for rule in read_rules(rules):
        if rule is None:
            return name
        pattern, replacement, case = rule
        if pattern.fullmatch(name):
            made = pattern.sub(replacement, name)
            return made.lower() if case == "L" else made.upper() if case == "U" else made
    raise ValueError(f"no rule of {rules!r} applies to {name!r}")


def read_rules(rules: str) -> list[tuple[re.Pattern[str], str, str] | None]:
    """Return rules as pattern, replacement and case; None: the unchanged name. Raises `ValueError`."""
    found: list[tuple[re.Pattern[str], str, str] | None] = []
    position = 0
    while position < len(rules):
        match = _RULE.match(rules, position)
        if match is None or rules[match.end() : match.end() + 1] not in ("", ","):
            raise ValueError(f"invalid rules for principal names: {rules!r}")
        position = match.end() + 1
        while rules[position : position + 1] == " ":
            position += 1
        if match[1] is None:
            found.append(None)
        else:
            found.append((re.compile(match[1]), re.sub(r"\$(\d)", r"\\\1", match[2]), match[3]))
    return found


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, by RFC 2253: the most specific part first. Raises `ValueError`."""
    (outer,) = _read(certificate)
    signed = next(_read(outer.content))
    fields = [each for each in _read(signed.content) if each.tag != _VERSION]
    subject = fields[4]  # serial number, algorithm, issuer, validity, subject
    return ",".join("+".join(map(_attribute, _read(each.content))) for each in reversed([*_read(subject.content)]))


def _read(data: bytes) -> Iterator[_Tlv]:
    position = 0
    while position < len(data):
        start = position
        tag, size = data[position], data[position + 1]
        position += 2
        if size >= 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        if position + size > len(data):
            raise ValueError("a certificate ends too early")
        position += size
        yield _Tlv(tag, data[position - size : position], data[start:position])


def _attribute(attribute: _Tlv) -> str:
    kind, value = _read(attribute.content)
    oid = _dotted(kind.content)
    encoding = _ENCODINGS.get(value.tag)
    if oid not in _KEYWORDS or encoding is None:
        return f"{_KEYWORDS.get(oid, oid)}=#{value.whole.hex()}"
    text = value.content.decode(encoding, "replace")
    escaped = "".join("\\00" if c == "\0" else "\\" + c if c in _SPECIAL else c for c in text)
    lead = len(text) - len(text.lstrip(" "))
    trail = len(text.rstrip(" "))
    if lead == len(text):
        escaped = "\\ " * lead
    else:
        tail = len(text) - trail
        escaped = "\\ " * lead + escaped[lead : len(escaped) - tail] + "\\ " * tail
    return f"{_KEYWORDS[oid]}={escaped}"


def _dotted(oid: bytes) -> str:
    numbers, value = [], 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
