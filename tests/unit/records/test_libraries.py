"""Compression runs in C without the GIL: a codec that falls back to Python is slow, without any other sign."""

import pytest

from kafwire.compression import CODECS, info


@pytest.mark.parametrize("codec", CODECS)
def test_codec_is_native(codec: str) -> None:
    origin = info()[codec]
    assert not origin.startswith(("Python", "missing")), f"{codec}: {origin}"
