"""Our bytes against those of Kafka's own message classes, in a Java process: both directions, every version.

The classes of Kafka 3.9 judge the versions that Kafka 4 removed.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.errors import ERROR_CODES
from kafwire.protocol import MESSAGES, Request, encode_request_header
from kafwire.protocol.spec import Response
from tests.support import reference_messages as reference
from tests.support import seeds
from tests.support.java.messages import DIFFERENCES, check, check_verdict
from tests.support.java.oracle import Oracle, judged_differently
from tests.support.kafka_definitions import pairs, removed_pairs
from tests.support.message_samples import samples

COMPARED: Counter[str] = Counter()
EVERY = [("valid", *pair) for pair in pairs()] + [("removed", *pair) for pair in removed_pairs()]

every_pair = pytest.mark.parametrize(("kind", "name", "version"), EVERY, ids=str)


@every_pair
def test_java_reads_and_writes_samples_the_same(kind: str, name: str, version: int, oracles: dict[str, Oracle]) -> None:
    for message in samples(MESSAGES[name], version):
        check(oracles[kind], message, version)


@pytest.mark.compares(1)
@every_pair
@given(st.data())
@settings(max_examples=seeds.examples(3))
def test_java_reads_and_writes_the_same(
    kind: str, name: str, version: int, oracles: dict[str, Oracle], data: st.DataObject
) -> None:
    check(oracles[kind], data.draw(reference.messages(MESSAGES[name], version)), version)
    COMPARED["messages"] += 1


@pytest.mark.compares(1)
@every_pair
@given(st.data(), st.binary(min_size=1, max_size=3))
@settings(max_examples=seeds.examples(3))
def test_damaged_bytes_are_judged_as_by_java(
    kind: str, name: str, version: int, oracles: dict[str, Oracle], data: st.DataObject, noise: bytes
) -> None:
    """Bytes that one side accepts, the other accepts too, as the same message.

    The lists of `tests.support.java.messages` are the exceptions.
    """
    cls = MESSAGES[name]
    encoded = bytearray(data.draw(reference.messages(cls, version)).encode(version))
    at = data.draw(st.integers(0, len(encoded)))
    encoded[at : at + len(noise)] = noise
    COMPARED[check_verdict(oracles[kind], name, version, bytes(encoded))] += 1


def test_each_difference_is_still_there(oracle: Oracle) -> None:
    """One case at least for each, which no other describes: an entry that is needed no more fails."""
    cases = judged_differently("messages")
    seen = {check_verdict(oracle, case["message"], case["version"], bytes.fromhex(case["bytes"])) for case in cases}
    assert seen == DIFFERENCES.reasons()


def test_error_codes(oracle: Oracle) -> None:
    theirs = {}
    for entry in oracle.one("errors"):
        code, name, retriable = entry.decode().split()
        theirs[int(code)] = (name, retriable == "true")
    assert theirs == {code: (error.name, error.retriable) for code, error in ERROR_CODES.items()}


def test_every_api_has_the_headers_and_stability_of_java(oracle: Oracle) -> None:
    theirs = {tuple(map(int, entry.split()[:4])): entry.endswith(b"true") for entry in oracle.one("apis")}
    ours = {}
    for cls in MESSAGES.values():
        if not issubclass(cls, Request):
            continue
        for version in range(cls.min_version, cls.max_version + 1):
            flexible_request = encode_request_header(cls, version, 1, None)[-1] == 0  # it ends in no tagged fields
            flexible_response = version >= cls.response.flexible_from and cls.api_key != 18
            key = (cls.api_key, version, 2 if flexible_request else 1, int(flexible_response))
            ours[key] = version > cls.max_stable_version
    assert ours == theirs


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
