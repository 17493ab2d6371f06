"""GetTelemetrySubscriptions and PushTelemetry of the embedded broker (KIP-714)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.client_telemetry import ClientTelemetry
from kafwire.broker.request import HANG_UP
from kafwire.compression import codec_id, compress
from kafwire.errors import ErrorCode
from kafwire.telemetry.otlp import Point, encode
from tests.support.broker.driver import BrokerDriver

NO_ID = uuid.UUID(int=0)
POINTS = [Point("org.apache.kafka.producer.record.queue.time.avg", 2.5)]


class Client:
    """A client instance of a driven broker."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.driver = driver
        self.instance_id = NO_ID
        self.subscription: Any = None

    def ask(self, **how: Any) -> Any:
        request = protocol.GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id)
        response = self.driver.ask(request, **how)
        if not response.error_code:
            self.instance_id, self.subscription = response.client_instance_id, response
        return response

    def push(self, metrics: bytes = b"", *, terminating: bool = False, **fields: Any) -> int:
        request = protocol.PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription.subscription_id,
            terminating=terminating,
            metrics=metrics,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return int(self.driver.ask(request).error_code)


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver()


@pytest.fixture
def telemetry(driver: BrokerDriver) -> ClientTelemetry:
    found: ClientTelemetry = driver.state.part(ClientTelemetry)
    return found


def offered(driver: BrokerDriver) -> set[int]:
    request = protocol.ApiVersionsRequest(client_software_name="s", client_software_version="1")
    return {each.api_key for each in driver.ask(request).api_keys}


def test_the_apis_are_offered_once_there_is_a_subscription(driver: BrokerDriver, telemetry: ClientTelemetry) -> None:
    assert not offered(driver) & {71, 72}
    assert driver.ask(protocol.GetTelemetrySubscriptionsRequest(client_instance_id=NO_ID)) is HANG_UP
    assert driver.ask(protocol.PushTelemetryRequest(client_instance_id=NO_ID)) is HANG_UP
    telemetry.subscribe("s")
    assert offered(driver) >= {71, 72}


def test_a_client_gets_an_id_and_its_subscriptions_together(driver: BrokerDriver, telemetry: ClientTelemetry) -> None:
    telemetry.subscribe("a", ["x.", "y."], interval_ms=2000)
    telemetry.subscribe("b", ["y.", "z."], interval_ms=1000)
    telemetry.subscribe("other", ["w."], interval_ms=100, match={"client_id": "oth.*"})
    response = Client(driver).ask()
    assert response.client_instance_id != NO_ID
    assert (response.requested_metrics, response.push_interval_ms) == (["x.", "y.", "z."], 1000)
    assert (response.accepted_compression_types, response.delta_temporality) == ([4, 3, 1, 2], True)
    assert Client(driver).ask(client_id="other").push_interval_ms == 100
    telemetry.subscribe("all", ["*"])
    assert Client(driver).ask().requested_metrics == ["*"]


def test_a_question_before_the_interval_is_over_is_throttled(driver: BrokerDriver, telemetry: ClientTelemetry) -> None:
    telemetry.subscribe("a", ["x."], interval_ms=1000)
    client = Client(driver)
    client.ask()
    assert client.ask().error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    driver.pass_ms(1000)
    assert not client.ask().error_code


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_pushes_are_kept(driver: BrokerDriver, telemetry: ClientTelemetry, codec: str) -> None:
    telemetry.subscribe("a", ["*"], interval_ms=1000)
    client = Client(driver)
    client.ask()
    data = encode(POINTS, {"client_rack": "r"})
    data = data if codec == "none" else compress(codec, data)
    assert not client.push(data, compression_type=codec_id(codec))
    (push,) = telemetry.pushes
    assert (push.client_instance_id, push.is_terminating, push.client_id) == (client.instance_id, False, "test")
    assert push.metrics.resource == {"client_rack": "r"}
    assert push.values() == {POINTS[0].name: 2.5}


def test_a_push_comes_once_in_an_interval(driver: BrokerDriver, telemetry: ClientTelemetry) -> None:
    telemetry.subscribe("a", ["*"], interval_ms=1000)
    client = Client(driver)
    client.ask()
    driver.pass_ms(500)  # the first one after a question may be early
    assert not client.push()
    assert client.push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert not client.push(terminating=True)
    assert client.push() == ErrorCode.INVALID_REQUEST, "nothing follows the terminating push"


def test_a_changed_subscription_is_asked_for_again(driver: BrokerDriver, telemetry: ClientTelemetry) -> None:
    telemetry.subscribe("a", ["*"], interval_ms=1000)
    client = Client(driver)
    client.ask()
    telemetry.subscribe("a", ["x."], interval_ms=1000)
    assert client.push() == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    driver.pass_ms(1)
    assert client.ask().requested_metrics == ["x."], "before the interval is over"
    assert not client.push()
    telemetry.unsubscribe("a")
    driver.pass_ms(1000)
    assert client.push() == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.ask().requested_metrics == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"client_instance_id": NO_ID}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": uuid.UUID(int=1)}, ErrorCode.INVALID_REQUEST),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(101)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": b"\x0f"}, ErrorCode.INVALID_RECORD),
        ({"metrics": b"\x0f", "compression_type": 4}, ErrorCode.INVALID_RECORD),
    ],
)
def test_pushes_are_refused(
    driver: BrokerDriver, telemetry: ClientTelemetry, fields: dict[str, Any], code: ErrorCode
) -> None:
    telemetry.subscribe("a", ["*"])
    telemetry.max_bytes = 100
    client = Client(driver)
    client.ask()
    assert client.push(**fields) == code
    assert not telemetry.pushes
