"""The versions that Kafka 4 removed, against the message classes of Kafka 3.9, as `test_java` does with valid ones."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.protocol import MESSAGES, Request, encode_request_header
from kafwire.protocol.spec import Response
from tests.support import reference_messages as reference
from tests.support import seeds
from tests.support.java.messages import check, check_verdict
from tests.support.java.oracle import Oracle
from tests.support.message_samples import samples

COMPARED: Counter[str] = Counter()
every_pair = pytest.mark.parametrize(
    ("name", "version"),
    [
        (name, version)
        for name, cls in MESSAGES.items()
        for version in range(cls.oldest_version, cls.min_version)
        if name != "ShareGroupPartitionMetadataKey"  # its version in 3.9 is the type of the record
    ],
    ids=str,
)


@every_pair
def test_java_reads_and_writes_samples_the_same(name: str, version: int, old_oracle: Oracle) -> None:
    for message in samples(MESSAGES[name], version):
        check(old_oracle, message, version)


@pytest.mark.compares(1)
@every_pair
@given(st.data())
@settings(max_examples=seeds.examples(3))
def test_java_reads_and_writes_the_same(name: str, version: int, old_oracle: Oracle, data: st.DataObject) -> None:
    check(old_oracle, data.draw(reference.messages(MESSAGES[name], version)), version)
    COMPARED["messages"] += 1


@pytest.mark.compares(1)
@every_pair
@given(st.data(), st.binary(min_size=1, max_size=3))
@settings(max_examples=seeds.examples(3))
def test_damaged_bytes_are_judged_as_by_java(
    name: str, version: int, old_oracle: Oracle, data: st.DataObject, noise: bytes
) -> None:
    encoded = bytearray(data.draw(reference.messages(MESSAGES[name], version)).encode(version))
    at = data.draw(st.integers(0, len(encoded)))
    encoded[at : at + len(noise)] = noise
    COMPARED[check_verdict(old_oracle, name, version, bytes(encoded))] += 1


def header_version(cls: type[Request[Response]], version: int) -> int:
    """By the bytes: version 0 ends with the correlation id, version 2 in no tagged fields."""
    encoded = encode_request_header(cls, version, 1, None)
    return 0 if len(encoded) == 8 else 2 if encoded[-1] == 0 else 1


def test_removed_versions_have_the_headers_of_java(old_oracle: Oracle) -> None:
    theirs = {tuple(map(int, entry.split()[:4])) for entry in old_oracle.one("apis")}
    ours = {
        (cls.api_key, version, header_version(cls, version), int(version >= cls.response.flexible_from))
        for cls in MESSAGES.values()
        if issubclass(cls, Request)
        for version in range(cls.oldest_version, cls.min_version)
    }
    assert ours <= theirs
    assert len(ours) == 59
