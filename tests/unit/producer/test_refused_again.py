"""A producer that sends already, and is not accepted any more: it says so at once, and tries with the next record."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire import protocol
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthenticationError
from tests.support.simulated.producer import Work
from tests.support.simulated.world import World

SOON_S = 2.0
OPTIONS: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "swordfish",
    "linger_ms": 0,
}


@pytest.fixture
def world() -> Iterator[World]:
    with World(brokers=2) as made:
        made.on("SaslHandshake", lambda _: protocol.SaslHandshakeResponse())
        accept(made)
        made.create_topic("t", partitions=2)
        yield made


def accept(world: World) -> None:
    world.on("SaslAuthenticate", lambda _: protocol.SaslAuthenticateResponse())


def refuse(world: World) -> None:
    response = protocol.SaslAuthenticateResponse
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    world.on("SaslAuthenticate", lambda _: response(error_code=code, error_message="not this user"))


def cut(world: World) -> None:
    for broker in (1, 2):
        world.break_connections(broker)
    world.pass_time(0.1)


def error_of(world: World, delivery: Any) -> BaseException:
    world.pass_time(SOON_S)
    assert delivery.done(), "the record waits"
    error: BaseException = delivery.exception(0)
    return error


@pytest.mark.parametrize("idempotent", [False, True])
def test_records_fail_at_once_and_later_ones_make_the_next_attempt(world: World, idempotent: bool) -> None:
    work = Work(world, "t", enable_idempotence=idempotent, **OPTIONS)
    for number in (0, 1):
        work.send("t", b"x", partition=number)
    work.flush()
    refuse(world)
    cut(world)
    for _ in range(3):
        made = len(world.made("SaslAuthenticate"))
        error = error_of(world, work.send("t", b"x", partition=0))
        assert isinstance(error, AuthenticationError)
        assert "not this user" in str(error)
        assert not error.in_doubt
        assert len(world.made("SaslAuthenticate")) == made + 1
    before = len(world.made("SaslAuthenticate"))
    world.pass_time(60)
    assert len(world.made("SaslAuthenticate")) == before
    accept(world)
    delivery = work.send("t", b"x", partition=0)
    work.flush()
    assert delivery.result(0).offset == 1
    assert work.close() == {}


def test_a_first_producer_id_that_is_refused_fails_waiting_records(world: World) -> None:
    work = Work(world, "t", enable_idempotence=True, **OPTIONS)
    refuse(world)
    cut(world)
    assert isinstance(error_of(world, work.send("t", b"x")), AuthenticationError)


def test_a_record_that_waits_for_a_leader_fails(world: World) -> None:
    work = Work(world, "t", enable_idempotence=False, **OPTIONS)
    partitions = work.cluster.metadata.topics["t"].partitions
    partitions[0] = dataclasses.replace(partitions[0], leader=-1)
    refuse(world)
    cut(world)
    assert isinstance(error_of(world, work.send("t", b"x", partition=0)), AuthenticationError)
