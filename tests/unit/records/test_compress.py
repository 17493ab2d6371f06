"""Kafka's codecs against the `cramjam` package, with every library they can come from."""

from __future__ import annotations

import random
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafwire.compression import CODECS, codec_id, compress, decompress, info
from kafwire.errors import ConfigError, ProtocolError
from kafwire.records import _compress
from tests.support.reference_codec import compress as reference_compress
from tests.support.reference_codec import decompress as reference_decompress
from tests.support.sanitizers import MEMORY, PROGRAMS, build, run

LIBRARIES = ["gzip", "lz4", "zstd"]
SOURCES = ["wheel", "system", "python"]


def samples() -> Iterator[bytes]:
    dice = random.Random(5)
    yield b""
    yield b"a"
    yield b"ab" * 40
    yield dice.randbytes(70_000)
    yield b"".join(b"key-%d:%d;" % (i % 97, i * i) for i in range(30_000))
    yield bytes(300_000)
    yield b"x" * 65_535
    yield b"xy" * 32_768 + b"z"


@pytest.fixture(params=[(codec, source) for codec in LIBRARIES for source in SOURCES], ids="-".join)
def bound(request: pytest.FixtureRequest) -> Iterator[str]:
    """A codec bound to one of its sources, and back to the first afterwards."""
    codec, source = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if source == "python" else "error")
        _compress._resolve(codec_id(codec), (source,))
    yield codec
    _compress._resolve(codec_id(codec))


def test_every_source_of_every_codec_compresses_for_others(bound: str) -> None:
    for data in samples():
        for level in (None, 1):
            packed = compress(bound, data, level)
            assert reference_decompress(bound, packed) == data
            assert decompress(bound, packed) == data


def test_every_source_of_every_codec_decompresses_others(bound: str) -> None:
    for data in samples():
        packed = reference_compress(bound, data)
        assert decompress(bound, packed) == data
        if data:
            assert decompress(bound, packed + packed) == data + data  # frames and members follow one another


def test_every_source_of_every_codec_refuses_damaged_bytes(bound: str) -> None:
    data = b"".join(b"key-%d:%d;" % (i % 97, i * i) for i in range(3_000))
    packed = compress(bound, data)
    for cut in (1, 5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(ProtocolError, match=bound):
            decompress(bound, packed[:cut])
    with pytest.raises(ProtocolError, match=bound):
        decompress(bound, b"this is nothing compressed, whatever it is called")
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        decompress(bound, packed, max_decompressed=1000)
    assert decompress(bound, packed, max_decompressed=len(data)) == data


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.parametrize("harm", ["cut", "cap"])
def test_a_refused_frame_does_not_spoil_the_next(codec: str, harm: str) -> None:
    raw = b"abc" * 300_000
    # As some producers write it: the frame's header promises the size of its content.
    sized = lz4.frame.compress(raw, store_size=True) if codec == "lz4" else reference_compress(codec, raw)
    good = compress(codec, b"hello" * 100)
    for _ in range(3):
        with pytest.raises(ProtocolError):
            decompress(codec, sized[: len(sized) // 2] if harm == "cut" else sized, max_decompressed=1000)
        assert decompress(codec, good) == b"hello" * 100


def test_a_fallback_to_python_warns_and_shows() -> None:
    with pytest.warns(RuntimeWarning, match="much slower"):
        _compress._resolve(codec_id("lz4"), ("python",))
    assert info()["lz4"] == "Python: lz4"
    _compress._resolve(codec_id("lz4"))
    assert info()["lz4"].startswith("package lz4")


def test_no_fallback_is_in_use_here() -> None:
    assert list(info()) == list(CODECS)
    assert not [origin for origin in info().values() if origin.startswith(("Python", "missing"))]


def test_a_codec_without_any_library_is_an_error_that_names_the_package() -> None:
    with pytest.raises(ConfigError, match="'zstandard'"):
        _compress._resolve(codec_id("zstd"), ())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("level", [1, 6, 9])
def test_levels_are_taken(codec: str, level: int) -> None:
    data = b"".join(b"key-%d:%d;" % (i % 97, i * i) for i in range(3_000))
    assert decompress(codec, compress(codec, data, level)) == data


def test_unknown_names_are_refused() -> None:
    for call in (lambda: compress("brotli", b""), lambda: decompress("", b""), lambda: codec_id(None)):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="none, gzip, snappy, lz4, zstd"):
            call()


@given(
    st.binary(max_size=3000) | st.lists(st.binary(min_size=1, max_size=9), max_size=12).map(lambda p: b"".join(p * 200))
)
def test_snappy_in_both_framings(data: bytes) -> None:
    packed = compress("snappy", data)
    assert packed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    assert reference_decompress("snappy", packed) == data
    assert decompress("snappy", packed) == data
    assert decompress("snappy", bytes(cramjam.snappy.compress_raw(data))) == data


def test_snappy_elements_of_every_kind() -> None:
    far = random.Random(3).randbytes(70_000)
    literal = b"\xf8" + struct.pack("<I", len(far) - 1)[:3]  # tag 62: a literal whose length takes three bytes
    copies = b"\x01\x01" + b"\x1d\x05" + b"\xfe\x64\x00" + b"\xff" + struct.pack("<I", 69_000)
    block = b"\x80\xa3\x04"[:0]
    expected = bytearray(far)
    for distance, count in ((1, 4), (5, 11), (100, 64), (69_000, 64)):
        for _ in range(count):
            expected.append(expected[-distance])
    size = len(expected)
    while size > 127:
        block, size = block + bytes([size & 127 | 128]), size >> 7
    block += bytes([size]) + literal + far + copies
    assert bytes(cramjam.snappy.decompress_raw(block)) == expected
    assert decompress("snappy", block) == expected


def test_gzip_headers_with_every_optional_field() -> None:
    body = zlib.compressobj(wbits=-15)
    deflated = body.compress(b"content" * 100) + body.flush()
    trailer = struct.pack("<II", zlib.crc32(b"content" * 100), 700)
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 3) + b"abc" + b"name\0" + b"comment\0" + b"\0\0"
    assert decompress("gzip", header + deflated + trailer) == b"content" * 100
    for at in range(len(header) - 1):
        with pytest.raises(ProtocolError):
            decompress("gzip", (header + deflated + trailer)[:at])
    for wrong in (struct.pack("<II", 0, 700), trailer[:4] + struct.pack("<I", 701), trailer[:7]):
        with pytest.raises(ProtocolError):
            decompress("gzip", header + deflated + wrong)


@pytest.mark.parametrize("size", [70_000, 5_000_000])
def test_zstd_frames_without_their_size(size: int) -> None:
    """Java writes such frames; 5 MB of zeros are more than any first guess at the room they need."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size))
    assert decompress("zstd", packed) == bytes(size)
    assert decompress("zstd", packed, max_decompressed=size) == bytes(size)
    with pytest.raises(ProtocolError, match="more than"):
        decompress("zstd", packed, max_decompressed=size - 1)


@pytest.mark.parametrize("promise", [0, 1, 100, 2_000_000, 0xFFFFFFFF])
def test_a_gzip_length_is_a_hint_that_need_not_be_believed(promise: int) -> None:
    packed = compress("gzip", bytes(3_000_000))
    with pytest.raises(ProtocolError, match="trailer does not match"):
        decompress("gzip", packed[:-4] + struct.pack("<I", promise))
    with pytest.raises(ProtocolError, match="more than"):
        decompress("gzip", packed, max_decompressed=2_999_999)


@given(
    st.binary(max_size=3000)
    | st.lists(st.binary(min_size=1, max_size=90), max_size=12).map(lambda parts: b"".join(parts * 200))
)
def test_lz4_of_our_own_is_read_by_others(data: bytes) -> None:
    packed = compress("lz4", data)
    assert packed.startswith(lz4.frame.compress(data, block_size=4, block_linked=False, store_size=False)[:7])
    assert lz4.frame.decompress(packed) == data
    assert bytes(cramjam.lz4.decompress(packed)) == data


def test_lz4_of_our_own_is_as_small_as_the_library_s() -> None:
    dice = random.Random(7)
    lines = b"".join(b'{"sensor": %d, "value": %.3f}' % (dice.randrange(500), dice.gauss(20, 5)) for _ in range(9_000))
    few = bytes(dice.choices(range(256), [1 + 4000 // (n + 1) for n in range(256)], k=200_000))
    for data in (lines, few, *samples()):
        assert len(compress("lz4", data)) <= len(compress("lz4", data, 0)) * 1.01 + 16


def test_the_c_code_under_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, sources in {"snappy_test": ["snappy.c", "crc32c.c"], "lz4_test": ["lz4.c"]}.items():
        monkeypatch.setitem(PROGRAMS, program, sources)
        assert run(build(tmp_path, program, MEMORY), 300).startswith("ok: ")
