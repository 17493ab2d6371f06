"""The loggers of brokers, and their levels. See KIP-412.

This broker does not write Kafka's logs: it keeps the levels, and describes them. A broker's restart resets them.
"""

from __future__ import annotations

from collections.abc import Mapping

ROOT = "root"
LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
# The loggers that Kafka's log4j2.yaml configures.
CONFIGURED: Mapping[str, str] = {
    ROOT: "INFO",
    "kafka": "INFO",
    "kafka.authorizer.logger": "INFO",
    "kafka.network.RequestChannel$": "WARN",
    "kafka.request.logger": "WARN",
    "org.apache.kafka": "INFO",
    "org.apache.kafka.controller": "INFO",
    "org.apache.kafka.storage.internals.log.LogCleaner": "INFO",
    "state.change.logger": "INFO",
}


class Loggers:
    """The loggers of one broker. A logger without a level of its own has that of its nearest ancestor."""

    def __init__(self) -> None:
        self._own: dict[str, str] = dict(CONFIGURED)

    def levels(self) -> dict[str, str]:
        """Return the level of each logger."""
        return {name: self._level(name) for name in CONFIGURED}

    def set(self, name: str, level: str | None) -> None:
        """Give a logger a level; None: that of its ancestor."""
        if level is None:
            self._own.pop(name, None)
        else:
            self._own[name] = level

    def _level(self, name: str) -> str:
        while name not in self._own:
            name = name.rpartition(".")[0] or ROOT
        return self._own[name]
