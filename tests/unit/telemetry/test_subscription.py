"""`telemetry.subscription`: what a client does after each response (KIP-714)."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.telemetry.subscription import DEFAULT_INTERVAL_MS, LEAST_INTERVAL_MS, NO_ID, SubscriptionMachine

ID = uuid.UUID(int=5)


def response(**fields: Any) -> Any:
    given: dict[str, Any] = {
        "client_instance_id": ID,
        "subscription_id": 7,
        "accepted_compression_types": [4, 3],
        "push_interval_ms": 1000,
        "telemetry_max_bytes": 100,
        "delta_temporality": True,
        "requested_metrics": ["a."],
    }
    return protocol.GetTelemetrySubscriptionsResponse(**(given | fields))


@pytest.fixture
def machine() -> SubscriptionMachine:
    return SubscriptionMachine([1, 2, 3, 4])


@pytest.mark.parametrize(("chance", "wait_ms"), [(0.0, 500), (0.5, 1000), (1.0, 1500)])
def test_the_first_push_comes_within_50_to_150_percent(
    machine: SubscriptionMachine, chance: float, wait_ms: float
) -> None:
    assert machine.subscribed(response(), lambda: chance) == wait_ms
    assert machine.client_instance_id == ID
    assert machine.pushed(0) == 1000, "later ones come after the interval"


@pytest.mark.parametrize(
    ("prefixes", "wanted"),
    [
        (["a."], ["a.b"]),
        (["*"], ["a.b", "b", "ab"]),
        ([""], ["a.b", "b", "ab"]),
        (["b", "a."], ["a.b", "b"]),
    ],
)
def test_requested_names(machine: SubscriptionMachine, prefixes: list[str], wanted: list[str]) -> None:
    machine.subscribed(response(requested_metrics=prefixes), lambda: 0.0)
    assert machine.subscription is not None
    assert [name for name in ("a.b", "b", "ab") if machine.subscription.wants(name)] == wanted


def test_without_requested_metrics_the_subscription_is_asked_for_again(machine: SubscriptionMachine) -> None:
    assert machine.subscribed(response(requested_metrics=[]), lambda: 0.0) == 1000
    assert machine.subscription is None
    assert machine.client_instance_id == ID


def test_an_impossible_interval_is_the_default(machine: SubscriptionMachine) -> None:
    assert machine.subscribed(response(push_interval_ms=0), lambda: 0.5) == DEFAULT_INTERVAL_MS


def test_a_broker_cannot_ask_for_pushes_without_pause(machine: SubscriptionMachine) -> None:
    assert machine.subscribed(response(push_interval_ms=1), lambda: 0.5) == LEAST_INTERVAL_MS
    assert machine.pushed(0) == LEAST_INTERVAL_MS


def test_each_name_is_compared_once_with_many_prefixes(machine: SubscriptionMachine) -> None:
    machine.subscribed(response(requested_metrics=[f"a{i}" for i in range(1_000_000)]), lambda: 0.5)
    assert machine.subscription is not None
    begin_s = time.process_time()
    assert not any(machine.subscription.wants("b") for _ in range(10_000))
    assert time.process_time() - begin_s < 2


@pytest.mark.parametrize(
    ("prefixes", "expected"), [(["a"], True), (["a.b"], True), (["*"], True), (["b", "ab"], False), (["b", ""], True)]
)
def test_metrics_with_a_start(machine: SubscriptionMachine, prefixes: list[str], expected: bool) -> None:
    machine.subscribed(response(requested_metrics=prefixes), lambda: 0.5)
    assert machine.subscription is not None
    assert machine.subscription.may_want("a.") is expected


def test_a_response_without_an_id_ends_it(machine: SubscriptionMachine) -> None:
    assert machine.subscribed(response(client_instance_id=NO_ID), lambda: 0.5) is None


@pytest.mark.parametrize(
    ("code", "wait_ms"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 0),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0),
        (ErrorCode.TELEMETRY_TOO_LARGE, 1000),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000),
        (ErrorCode.INVALID_REQUEST, None),
        (ErrorCode.INVALID_RECORD, None),
        (ErrorCode.UNSUPPORTED_VERSION, None),
        (12345, None),
    ],
)
def test_errors_of_pushes(machine: SubscriptionMachine, code: int, wait_ms: float | None) -> None:
    machine.subscribed(response(), lambda: 0.5)
    assert machine.pushed(code) == wait_ms
    assert machine.subscription is None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_refused_question_waits(machine: SubscriptionMachine, code: int) -> None:
    assert machine.subscribed(response(error_code=code), lambda: 0.5) == DEFAULT_INTERVAL_MS
    machine.subscribed(response(), lambda: 0.5)
    assert machine.subscribed(response(error_code=code), lambda: 0.5) == 1000
    assert machine.subscribed(response(error_code=ErrorCode.INVALID_REQUEST), lambda: 0.5) is None


def test_the_brokers_first_compression_type_that_works(machine: SubscriptionMachine) -> None:
    assert machine.compression_type == 0
    machine.subscribed(response(accepted_compression_types=[9, 4, 3]), lambda: 0.5)
    assert machine.compression_type == 4
    machine.pushed(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    machine.subscribed(response(accepted_compression_types=[9, 4, 3]), lambda: 0.5)
    assert machine.compression_type == 3
    machine.without(3)
    assert machine.compression_type == 0


def test_a_lost_request_waits_for_the_interval(machine: SubscriptionMachine) -> None:
    assert machine.failed() == DEFAULT_INTERVAL_MS
    machine.subscribed(response(), lambda: 0.5)
    assert machine.failed() == 1000
    assert machine.subscription is None
