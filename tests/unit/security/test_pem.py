"""PEM texts as objects: whatever is between them, broken or not."""

from __future__ import annotations

import pytest

from kafwire.security.pem import CERTIFICATES, REVOCATION_LISTS, objects

ONE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
LIST = b"-----BEGIN X509 CRL-----\nBBBB\n-----END X509 CRL-----\n"
OPEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"nothing", []),
        (ONE, [1]),
        (b"\xef\xbb\xbf# a bundle\r\n" + ONE.replace(b"\n", b"\r\n") + LIST + ONE, [2, 8]),
        (OPEN + ONE, [1, 3]),
        (ONE + OPEN, [1, 4]),
        (b"-----END CERTIFICATE-----\n" + ONE, [2]),
    ],
)
def test_certificates(text: bytes, lines: list[int]) -> None:
    found = objects(text, CERTIFICATES)
    assert [each.line for each in found] == lines
    assert all(each.text.count(b"BEGIN") == 1 and each.text.startswith(b"-----BEGIN CERT") for each in found)


def test_other_kinds_are_passed_over() -> None:
    assert [each.text for each in objects(ONE + LIST + ONE, REVOCATION_LISTS)] == [LIST]
