"""aiokafka's suite: a stand-in for the package docker, whose container is an embedded broker.

The suite starts a container with the ports that it chose, and runs Kafka's and OpenSSL's commands in it: a script that
makes certificates, `kafka-acls.sh` and `kafka-configs.sh`. The stand-in has the same effects.
"""

from __future__ import annotations

import re
import shlex
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafwire.broker.security.credentials import Credentials
from kafwire.broker.state import ClusterState
from kafwire.testing import EmbeddedKafka, Security
from scripts.foreign_suites.kafka_tools import bindings, read_options

_PASSWORDS = {"admin": "admin", "test": "test", "test2": "test2"}  # as in the image's kafka_server_jaas.conf
_SCRAM = re.compile(r"(SCRAM-SHA-\d+)=\[password=([^]]*)\]")


class Container:
    """A container of Kafka: an embedded broker with the listeners of the image."""

    def __init__(self, environment: Mapping[str, Any], certificates: Path) -> None:
        security = [
            Security("SSL", name="SSL", client_auth="required"),
            Security("SASL_PLAINTEXT", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], users=_PASSWORDS),
            Security("SASL_SSL", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], users=_PASSWORDS),
        ]
        self._kafka = EmbeddedKafka(
            host=environment["ADVERTISED_HOST"],
            port={
                "PLAINTEXT": environment["ADVERTISED_PORT"],
                "SSL": environment["ADVERTISED_SSL_PORT"],
                "SASL_PLAINTEXT": environment["ADVERTISED_SASL_PLAINTEXT_PORT"],
                "SASL_SSL": environment["ADVERTISED_SASL_SSL_PORT"],
            },
            security=security,
            plain=True,
            acls=[],
            configs={
                "num.partitions": environment["NUM_PARTITIONS"],
                "super.users": "User:admin",
                "allow.everyone.if.no.acl.found": True,
            },
        )
        self._kafka.start()
        _copy_certificates(self._kafka, certificates)

    def exec_run(self, command: str | Sequence[str], **_: Any) -> tuple[int, bytes]:
        """Apply a command of Kafka's to the broker; exit code and output."""
        words = shlex.split(command) if isinstance(command, str) else list(command)
        tool = words[0].rpartition("/")[2]
        if tool == "kafka-acls.sh":
            return self._acls(words[1:])
        if tool == "kafka-configs.sh":
            user = words[words.index("--entity-name") + 1]
            passwords = dict(_SCRAM.findall(words[words.index("--add-config") + 1]))
            self._kafka.ask(lambda state: _add_user(state, user, passwords))
            return 0, b""
        return 127, f"{tool}: no such command".encode()

    def _acls(self, words: Sequence[str]) -> tuple[int, bytes]:
        if "--list" in words:
            acls = self._kafka.ask(lambda state: state.authorizer.all())
            return 0, "\n".join(map(str, acls)).encode()
        acls = list(bindings(read_options(words)))
        change = "add" if "--add" in words else "remove"
        self._kafka.ask(lambda state: getattr(state.authorizer, change)(acls))
        return 0, b""

    def stop(self) -> None:
        """End the broker."""
        self._kafka.close()


class Certificates:
    """A container in which the suite makes certificates: the broker has its own, copied when it starts."""

    def exec_run(self, _: Sequence[str], **__: Any) -> tuple[int, bytes]:
        """Do nothing."""
        return 0, b""

    def stop(self) -> None:
        """Do nothing."""


def _add_user(state: ClusterState, user: str, passwords: Mapping[str, str]) -> None:
    for mechanism, password in passwords.items():
        state.part(Credentials).add_scram(user, password, [mechanism])


def _copy_certificates(kafka: EmbeddedKafka, folder: Path) -> None:
    """Write the broker's certificates under the names that the suite's script has; keys have no password."""
    certificates = kafka.security.certificates
    for name, path in (
        ("ca.crt", certificates.ca_pem),
        ("client.crt", certificates.client_certificate),
        ("client.key", certificates.client_key),
    ):
        (folder / name).write_bytes(path.read_bytes())


class Containers:
    """`docker.from_env().containers`."""

    def run(self, *, environment: Mapping[str, Any] | None = None, volumes: Mapping[str, Any], **_: Any) -> Any:
        """Start a container: the broker's has an environment."""
        if environment is None:
            return Certificates()
        (folder,) = (Path(path) for path, mounted in volumes.items() if mounted["bind"] == "/ssl_cert")
        return Container(environment, folder)


class Client:
    """`docker.from_env()`."""

    def __init__(self) -> None:
        self.containers = Containers()

    def close(self) -> None:
        """Do nothing."""


def _stand_in() -> None:
    """Put the stand-in in docker's place, where the package is installed too."""
    docker: Any = types.ModuleType("docker")
    docker.from_env = Client
    docker.models = types.SimpleNamespace(containers=types.SimpleNamespace(Container=Container))
    sys.modules["docker"] = docker


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Make docker importable before the suite's own plugins import it."""
    _stand_in()


def pytest_sessionstart() -> None:
    """Make no keytab: it needs MIT Kerberos, and the tests that use it are left out."""
    from tests import _testutil  # type: ignore[attr-defined]

    _testutil.KerberosUtils.create_keytab = lambda _: None
