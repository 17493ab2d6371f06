"""Our bytes against those of Kafka's own message classes, in a Java process: both directions, every version."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.errors import ERROR_CODES, ProtocolError
from kafwire.protocol import MESSAGES, Message
from tests.conformance.oracle import Oracle, OracleError
from tests.unit import reference_messages as reference

VERSIONS = [
    pytest.param(MESSAGES[name], version, id=f"{name}-v{version}")
    for name in MESSAGES
    for version in range(MESSAGES[name].min_version, MESSAGES[name].max_version + 1)
]
COMPARED: Counter[str] = Counter()


@pytest.fixture(scope="module")
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle() as started:
        yield started
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(
            f"\ncompared with Java: {len(COMPARED)} messages and versions of {len(VERSIONS)} declared, "
            f"{COMPARED.total()} examples"
        )


def has_records(cls: type[Message], version: int) -> bool:
    def inside(fields: object) -> bool:
        return any(
            version in field.versions
            and (field.kind == "records" or (field.struct and inside(field.struct.__fields__)))
            for field in fields  # type: ignore[attr-defined]
        )

    return inside(cls.__fields__)


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
@given(st.data())
@settings(max_examples=5)
def test_java_reads_and_writes_the_same(cls: type[Message], version: int, oracle: Oracle, data: st.DataObject) -> None:
    name = cls.__name__
    message = data.draw(reference.messages(cls, version))
    encoded = message.encode(version)
    written, seen = oracle.read(name, version, encoded)
    assert written == encoded
    reference.holds(seen, reference.kafka_json(message, version), name)
    if not has_records(cls, version):
        plain = data.draw(reference.messages(cls, version, unknown=False))
        made = oracle.make(name, version, reference.kafka_json(plain, version))
        assert plain.encode(version) == made
        assert cls.decode(made, version) == plain
    COMPARED[f"{name} {version}"] += 1


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
@given(st.data(), st.binary(min_size=1, max_size=3))
@settings(max_examples=3)
def test_what_we_take_java_takes(
    cls: type[Message], version: int, oracle: Oracle, data: st.DataObject, noise: bytes
) -> None:
    """Damaged bytes: whatever decodes here, Java reads too, as the same message."""
    encoded = bytearray(data.draw(reference.messages(cls, version)).encode(version))
    at = data.draw(st.integers(0, len(encoded)))
    encoded[at : at + len(noise)] = noise
    damaged = bytes(encoded)
    try:
        message = cls.decode(damaged, version)
    except ProtocolError:
        return
    try:
        written, seen = oracle.read(cls.__name__, version, damaged)
    except OracleError as error:
        # Java refuses a tag that some other version of the struct knows; we keep it like any that nobody knows.
        assert "is not valid for version" in str(error), error
        return
    assert written == message.encode(version)
    reference.holds(seen, reference.kafka_json(message, version), cls.__name__)


def test_error_codes(oracle: Oracle) -> None:
    theirs = {}
    for entry in oracle.ask("errors").split():
        code, name, retriable = entry.split(",")
        theirs[int(code)] = (name, retriable == "true")
    assert theirs == {code: (error.name, error.retriable) for code, error in ERROR_CODES.items()}
