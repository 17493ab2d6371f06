"""`compression_levels`: the one place of the codecs' levels."""

from __future__ import annotations

import pytest

from kafwire.broker.topics.configs import DESCRIBED_CONFIGS
from kafwire.config.compression_levels import GZIP_DEFAULT, LEVELS, check_level
from kafwire.errors import ConfigError


@pytest.mark.parametrize("codec", LEVELS)
def test_the_ends_of_a_range_are_levels_and_their_neighbours_are_not(codec: str) -> None:
    low, high = LEVELS[codec]
    for level in (low, high):
        check_level(codec, level)
    for level in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=f"compression_type='{codec}': {low} to {high}"):
            check_level(codec, level)


def test_gzip_has_a_name_for_its_default() -> None:
    check_level("gzip", GZIP_DEFAULT)


@pytest.mark.parametrize("codec", LEVELS)
def test_topics_of_the_embedded_broker_have_the_same_levels(codec: str) -> None:
    config = DESCRIBED_CONFIGS[f"compression.{codec}.level"]
    low, high = LEVELS[codec]
    least = max(low, 1) if codec == "lz4" else low  # Kafka's lz4 has no level 0
    assert [bool(config.problem(str(level))) for level in (least - 1, least, high, high + 1)] == [
        True,
        False,
        False,
        True,
    ]
