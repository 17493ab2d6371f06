"""`config.pairs`: an option left at its default yields, two given ones that conflict are an error."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig, ScanConfig, ShareConsumerConfig
from kafwire.errors import ConfigError

SERVERS = {"bootstrap_servers": "localhost:9092"}


@pytest.mark.parametrize(
    ("kind", "given", "yielded"),
    [
        (ConsumerConfig, {"max_frame_bytes": 1 << 20}, {"fetch_max_bytes": (1 << 20) - 512 - (1 << 16)}),
        (ConsumerConfig, {"max_frame_bytes": 1 << 20}, {"max_partition_fetch_bytes": (1 << 20) - 512 - (1 << 16)}),
        (ConsumerConfig, {"max_partition_fetch_bytes": 128 << 20}, {"max_frame_bytes": (144 << 20) + 512}),
        (ShareConsumerConfig, {"group_id": "g", "max_frame_bytes": 1024}, {"fetch_max_bytes": 448}),
        (ShareConsumerConfig, {"group_id": "g", "fetch_min_bytes": 9 << 20}, {"fetch_max_bytes": 9 << 20}),
        (ScanConfig, {"max_frame_bytes": 1024}, {"fetch_max_bytes": 448}),
        (ConsumerConfig, {"max_frame_bytes": 10 << 20}, {"fetch_max_bytes": 8 << 20}),
        (ScanConfig, {"fetch_max_bytes": 200 << 20}, {"max_frame_bytes": (200 << 20) + 512 + (25 << 20)}),
        (ConsumerConfig, {"fetch_min_bytes": 9 << 20}, {"fetch_max_bytes": 9 << 20}),
        (ClientConfig, {"retry_backoff_ms": 5_000}, {"retry_backoff_max_ms": 5_000}),
        (ClientConfig, {"reconnect_backoff_max_ms": 10}, {"reconnect_backoff_ms": 10}),
        (ProducerConfig, {"batch_size": 4 << 20}, {"max_request_size": 4 << 20}),
        (ProducerConfig, {"max_request_size": 1000}, {"batch_size": 1000}),
        (ProducerConfig, {"linger_ms": 119_000}, {"delivery_timeout_ms": 149_000, "request_timeout_ms": 30_000}),
        (ProducerConfig, {"request_timeout_ms": 200_000}, {"delivery_timeout_ms": 200_005}),
        (ProducerConfig, {"delivery_timeout_ms": 10_000}, {"linger_ms": 5, "request_timeout_ms": 9_995}),
        (ProducerConfig, {"delivery_timeout_ms": 10_000, "linger_ms": 9_000}, {"request_timeout_ms": 1_000}),
        (ConsumerConfig, {"session_timeout_ms": 2_000}, {"heartbeat_interval_ms": 666}),
        (ConsumerConfig, {"heartbeat_interval_ms": 60_000}, {"session_timeout_ms": 180_000}),
        (ConsumerConfig, {"revocation_timeout_ms": 400_000}, {"rebalance_timeout_ms": 444_445}),
    ],
)
def test_a_default_yields_to_the_option_that_was_given(
    kind: type[ClientConfig], given: dict[str, Any], yielded: dict[str, int]
) -> None:
    config = kind.build({**SERVERS, **given})
    for name, value in (given | yielded).items():
        assert getattr(config, name) == value, name


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (ConsumerConfig, {"max_frame_bytes": 1 << 20, "fetch_max_bytes": 1 << 20}, "max_frame_bytes=1048576 is below"),
        (ScanConfig, {"max_frame_bytes": 2048, "fetch_max_bytes": 1537}, "2049 is needed"),
        (
            ConsumerConfig,
            {"max_frame_bytes": 1 << 20, "max_partition_fetch_bytes": 1 << 20},
            "below max_partition_fetch_bytes",
        ),
        (
            ShareConsumerConfig,
            {"group_id": "g", "max_frame_bytes": 1 << 20, "fetch_max_bytes": 1 << 20},
            "max_frame_bytes=1048576 is below fetch_max_bytes",
        ),
        (ConsumerConfig, {"fetch_min_bytes": 10, "fetch_max_bytes": 9}, "fetch_max_bytes=9 is below fetch_min_bytes"),
        (ClientConfig, {"retry_backoff_ms": 10, "retry_backoff_max_ms": 9}, "retry_backoff_max_ms=9 is below"),
        (ClientConfig, {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 9}, "raise reconnect_backoff_max_ms"),
        (ProducerConfig, {"batch_size": 1001, "max_request_size": 1000}, "max_request_size=1000 is below batch_size"),
        (ProducerConfig, {"delivery_timeout_ms": 5, "request_timeout_ms": 5, "linger_ms": 1}, "6"),
        (ProducerConfig, {"delivery_timeout_ms": 5, "request_timeout_ms": 5}, "is below linger_ms"),
        (ConsumerConfig, {"session_timeout_ms": 9, "heartbeat_interval_ms": 9}, "10 is needed"),
        (ConsumerConfig, {"rebalance_timeout_ms": 9, "revocation_timeout_ms": 9}, "10 is needed"),
    ],
)
def test_two_options_that_conflict_are_refused(kind: type[ClientConfig], given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        kind.build({**SERVERS, **given})


def test_options_that_fit_stay_as_they_are() -> None:
    config = ConsumerConfig.build({**SERVERS, "max_frame_bytes": (1 << 20) + 512, "fetch_max_bytes": 1 << 20})
    assert config.fetch_max_bytes == 1 << 20
