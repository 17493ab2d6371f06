"""A message or its damaged bytes in kafwire and in Java's classes: the same, or different for a listed reason."""

import re
from typing import Any

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Message
from kafwire.protocol.kafka_json import UNKNOWN_TAGGED_FIELDS, from_json, to_json
from tests.support.java.oracle import Differences, Oracle, OracleError, as_read, good, make, read
from tests.support.message_samples import records_of

# Bytes that kafwire and Java judge differently, by the error of the side that refuses.
JAVA_IS_STRICTER = {
    r"Tag \d+ is not valid for version": "a tag of other versions is kept here like any unknown one",
}
JAVA_IS_LAXER = {
    r"a string that is not UTF-8": "Java puts question marks in place of bytes that are no text",
    r"a length of -\d+": "Java takes every negative length for null",
    r"an array of -\d+": "Java takes every negative length for null",
    r"a nullable struct is marked": "Java takes every other mark for one of the two",
    r"takes more than 32 bits": "Java drops bits of a varint over 32",
    r"(fields|length|count) runs past the end; 0 bytes": "Java drops bits of a varint over 32",
    r"[2-4]\d{9} elements do not fit": "Java takes a number above 2**31 for a negative one: for none",
    r"the length is [2-4]\d{9} bytes, but": "Java takes a number above 2**31 for a negative one: for none",
    r"tag \d+ comes after tag \d+": "Java takes tags in any order, and the last of those that appear twice",
    r"bytes are left over in tagged field": "Java does not look at the size of a tagged field it knows",
    r"tagged field \d+ of \d+ bytes runs past": "Java does not look at the size of a tagged field it knows",
    r"inside of a tagged field": "Java does not look at the size of a tagged field it knows",
}
DIFFERENCES = Differences(JAVA_IS_STRICTER, JAVA_IS_LAXER)


def without_unknown(form: Any) -> Any:
    """A message's JSON without the fields that Java's converters leave out: undeclared tagged fields."""
    if isinstance(form, dict):
        return {key: without_unknown(value) for key, value in form.items() if key != UNKNOWN_TAGGED_FIELDS}
    return [without_unknown(value) for value in form] if isinstance(form, list) else form


def check(oracle: Oracle, message: Message, version: int) -> None:
    """Java reads and writes `message` as we do, from bytes and from JSON."""
    cls = type(message)
    name = cls.__name__
    encoded = message.encode(version)
    form = without_unknown(to_json(message, version))
    plain = from_json(cls, form, version)
    questions = [read(name, version, encoded)]
    if "Infinity" not in str(form):  # which Java's converters write, and cannot read
        questions.append(make(name, version, form))
    as_bytes, *as_json = oracle.ask(*questions)
    seen = as_read(as_bytes)
    assert seen.written == encoded
    assert seen.json == without_unknown(to_json(message, version, records=lambda data: ""))
    assert seen.records == list(records_of(message))
    assert cls.decode(encoded, version) == message
    for result in as_json:
        (made,) = good(result)
        assert made == plain.encode(version)
        assert cls.decode(made, version) == plain


def located(error: ProtocolError, data: bytes) -> Exception:
    """The error; if fewer bytes were left than the message has, it says that they were those of a tagged field."""
    left = re.search(r"(\d+)( bytes)? are left|fit into (\d+) bytes", str(error))
    assert error.offset is not None
    if left and int(left[1] or left[3]) < len(data) - error.offset:
        return ProtocolError(f"inside of a tagged field: {error}")
    return error


def check_verdict(oracle: Oracle, name: str, version: int, data: bytes) -> str:
    """Both refuse the bytes, or take them as the same message; or why only one of the two may refuse them."""
    (result,) = oracle.ask(read(name, version, data))
    try:
        message = MESSAGES[name].decode(data, version)
    except ProtocolError as error:
        return DIFFERENCES.refused_here(located(error, data), result)
    if isinstance(result, OracleError):
        return DIFFERENCES.refused_by_java(result)
    seen = as_read(result)
    assert seen.written == message.encode(version)
    assert seen.json == without_unknown(to_json(message, version, records=lambda data: ""))
    assert seen.records == list(records_of(message))
    return "damage taken by both"
