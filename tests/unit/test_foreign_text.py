"""Texts from the wire and of other programs at each door: errors, logs, and the terminal of the command line."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import kafwire.stream
from kafwire import errors, protocol
from kafwire.cli import _line
from kafwire.cli.diagnosis import Finding
from kafwire.cli.doctor import lines
from kafwire.cli.output import print_table, say
from kafwire.cli.topics import _print_list, _print_table
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from kafwire.errors import ConfigError, KafkaConnectionError, KafkaError, ProtocolError
from kafwire.foreign_text import printable
from kafwire.runtime.log import LogLine, log
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.world import World

FOREIGN = "evil\x1b[31m\r\nERROR kafwire: all is lost\u202e\x07\x9b"
SHOWN = r"evil\x1b[31m\r\nERROR kafwire: all is lost\u202e\x07\x9b"


def test_printable_text_stays() -> None:
    assert printable("flights-ключ 'x' 😀") == "flights-ключ 'x' 😀"
    assert printable(FOREIGN) == SHOWN
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"


def plain_kinds() -> list[type[KafkaError]]:
    """The classes of errors whose only argument is a text."""
    found = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, KafkaError)}
    found |= {each for each in vars(kafwire.stream).values() if isinstance(each, type) and issubclass(each, KafkaError)}
    return sorted(found, key=lambda each: each.__name__)


def make(kind: type[KafkaError], text: str) -> Any:
    """An error with a text, and values for what its class needs besides."""
    anything: Any = kind
    needs: dict[str, dict[str, Any]] = {
        "UnknownPartition": {"topic": "t", "partition": 0},
        "DecodeError": {"row": 0, "cause": "too short"},
        "CorruptBatchError": {"topic": "t", "partition": 0, "base_offset": 1},
        "LogTruncatedError": {"topic": "t", "partition": 0, "position": 1, "offset": 0},
        "OffsetsFencedError": {"topic": "t", "partition": 0, "offset": 1, "generation": 1},
        "SerializationError": {"topic": "t", "part": "value"},
    }
    if kind.__name__ == "BrokerError":
        return anything(1, "NAME", False, text)
    if kind.__name__ == "AuthorizationError":
        return anything(29, "NAME", text, operation=None, resource_type="Topic", resource_name=None)
    if kind.__name__ == "AdminError":
        return anything({}, {text: KafkaError("failed")})
    if kind.__name__ == "NotNow":
        return anything(1.0, text)
    return anything(text, **needs.get(kind.__name__, {}))


@pytest.mark.parametrize("kind", plain_kinds(), ids=lambda kind: kind.__name__)
def test_no_error_has_a_character_that_is_not_printable(kind: type[KafkaError]) -> None:
    error = make(kind, FOREIGN)
    expected = SHOWN if not issubclass(kind, ConfigError) else SHOWN.replace(r"\n", "\n")
    assert expected in str(error)
    assert str(error).replace("\n", "").isprintable()
    assert getattr(error, "message", "").isprintable()
    if issubclass(kind, ProtocolError):
        assert error.message == SHOWN


@pytest.mark.parametrize("argument", [FOREIGN, KafkaError("x"), ValueError(FOREIGN), [FOREIGN]], ids=repr)
def test_no_argument_writes_a_line_into_a_log(argument: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    log.warning("kafwire: %s of %d: %s", argument, 5, "fine")
    logging.getLogger("kafwire.spark").warning("spark: %s", argument)
    LogLine(
        logging.getLogger("kafwire"), logging.INFO, "late: %s, %r", (argument, argument), None, (__file__, 1, "f"), {}
    ).emit()
    messages = caplog.messages
    assert len(messages) == 3
    assert all(message.isprintable() for message in messages), messages
    assert messages[0].endswith(" of 5: fine")


def test_arguments_that_are_printable_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("plain")
    log.warning("a %s b %d c %r", error, 5, "d")
    assert caplog.records[-1].args == (error, 5, "d")
    assert caplog.messages[-1] == "a plain b 5 c 'd'"


def test_the_terminal_gets_printable_text(capsys: pytest.CaptureFixture[str]) -> None:
    say(FOREIGN)
    say(FOREIGN, err=True)
    print_table(("NAME", "N"), [(FOREIGN, "1")])
    _print_table(("TOPIC", "PARTITIONS"), [(FOREIGN, "1")], False)
    kind: Any = protocol.MetadataResponse
    broker = kind.MetadataResponseBroker(node_id=1, host=FOREIGN, port=1, rack=FOREIGN)
    response = kind(brokers=[broker], cluster_id=FOREIGN)
    _print_list(response, [kind.MetadataResponseTopic(name=FOREIGN)], [], None)
    for line in lines(Finding("step", False, FOREIGN, FOREIGN)):
        say(line)
    said = capsys.readouterr()
    text = said.out + said.err + _line("kafwire", FOREIGN)
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.startswith("ERROR") for line in text.split("\n"))


def test_the_address_that_a_broker_advertises_is_escaped(caplog: pytest.LogCaptureFixture) -> None:
    def advertise(call: Call) -> Any:
        response: Any = world.serve(call)
        response.brokers[0].host = FOREIGN
        return response

    with World() as world:
        world.on("Metadata", advertise)
        cluster = Cluster(
            world.engine, ClientConfig.build({"bootstrap_servers": "10.0.0.1:9092", "default_api_timeout_ms": 3_000})
        )
        with pytest.raises(KafkaConnectionError, match="evil") as caught:
            world.run(cluster.call(protocol.MetadataRequest(topics=[]), node=1))
    assert str(caught.value).isprintable()
    assert caplog.messages
    assert all(message.isprintable() for message in caplog.messages)


def test_a_traceback_keeps_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KafkaError(FOREIGN)
    except KafkaError:
        log.exception("kafwire: %s", "failed")
    assert caplog.text.count("\n") > 3
    assert SHOWN in caplog.text
