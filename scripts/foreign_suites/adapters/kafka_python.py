"""kafka-python's suite: its `KafkaFixture` starts an embedded broker in place of Kafka's scripts.

The source distribution lacks two modules of the tests' folder, `test` and `test.service`; stand-ins take their place.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from kafwire.testing import EmbeddedKafka, Security


class Child:
    """The stand-in for Kafka's process, of which fixtures print the logs."""

    def dump_logs(self) -> None:
        """Print nothing: the broker is in this process, and pytest captures its log."""


def _stand_in() -> None:
    """Make `test` the suite's folder, not the package of CPython's own tests, and `test.service` importable."""
    folder = Path.cwd() / "test"
    if not (folder / "__init__.py").exists():
        (folder / "__init__.py").touch()
    sys.modules.pop("test", None)
    if not (folder / "service.py").exists():
        service: Any = types.ModuleType("test.service")
        service.ExternalService = service.SpawnedService = Child
        sys.modules["test.service"] = service


def _broker(fixture: Any) -> EmbeddedKafka:
    security = None
    if fixture.transport != "PLAINTEXT":
        security = Security(
            fixture.transport,
            [fixture.sasl_mechanism] if fixture.sasl_mechanism else [],
            users={fixture.broker_user: fixture.broker_password},
        )
    options = {
        "num.partitions": fixture.partitions,
        "auto.create.topics.enable": fixture.auto_create_topic,
        "allow.everyone.if.no.acl.found": True,
        "group.min.session.timeout.ms": 1000,
    }
    return EmbeddedKafka(host="127.0.0.1", advertised="localhost", configs=options, security=security, acls=[])


def _embedded(base: Any) -> Any:
    """A class with the attributes of the suite's fixture, whose broker is the embedded one."""

    class EmbeddedFixture(base):  # type: ignore[misc]
        kafka_root = str(Path.cwd())  # a folder that is there: no file of Kafka's is used

        @classmethod
        def instance(cls, broker_id: int, **options: Any) -> Any:
            fixture = cls("localhost", None, broker_id, **options)
            fixture.open()
            return fixture

        def open(self) -> None:
            self.start()

        def start(self) -> None:
            if self.running:  # type: ignore[has-type]
                return
            self.embedded = _broker(self)
            self.embedded.start()
            self.port = int(self.embedded.bootstrap.rpartition(":")[2])
            self.child = Child()
            self.running = True
            if self.ssl_enabled:
                certificates = self.embedded.security.certificates
                self.ssl_dir = str(certificates.folder)
                (certificates.folder / "ca-cert").write_bytes(certificates.ca_pem.read_bytes())

        def stop(self) -> None:
            if self.running:
                self.running = False
                self.embedded.close()

        def close(self) -> None:
            self.stop()

        def get_topic_names(self) -> list[str]:
            return self.embedded.ask(lambda state: list(state.topics.by_name))

        def __del__(self) -> None:
            self.close()

    return EmbeddedFixture


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace the fixture's class before the suite's own plugins import it."""
    _stand_in()
    fixtures = importlib.import_module("test.integration.fixtures")
    fixtures.KafkaFixture = _embedded(fixtures.KafkaFixture)  # type: ignore[attr-defined]
