"""The suites by name."""

from scripts.foreign_suites.go_suites import GO_SUITES
from scripts.foreign_suites.librdkafka import LIBRDKAFKA
from scripts.foreign_suites.pytest_suites import PYTEST_SUITES
from scripts.foreign_suites.suite import Suite

__all__ = ["SUITES"]

SUITES: list[Suite] = [*PYTEST_SUITES, *GO_SUITES, LIBRDKAFKA]
