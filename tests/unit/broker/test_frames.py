"""Frames of the embedded broker."""

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.frames import MAX_TEXT, has_long_text

Metadata = protocol.MetadataResponse


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (Metadata(cluster_id="x" * MAX_TEXT), False),
        (Metadata(cluster_id="x" * (MAX_TEXT + 1)), True),
        (Metadata(cluster_id="\u00e4" * (MAX_TEXT // 2 + 1)), True),  # bytes count
        (Metadata(topics=[Metadata.MetadataResponseTopic(name="x" * (MAX_TEXT + 1))]), True),
        (protocol.SaslHandshakeResponse(mechanisms=["PLAIN", "x" * (MAX_TEXT + 1)]), True),
        (protocol.SaslAuthenticateResponse(auth_bytes=b"x" * (MAX_TEXT + 1)), False),
    ],
)
def test_a_text_may_be_too_long_for_a_message(response: Any, expected: bool) -> None:
    assert has_long_text(response) is expected
