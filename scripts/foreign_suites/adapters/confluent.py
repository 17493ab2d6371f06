"""confluent-kafka's suite: a stand-in for the package trivup, whose cluster is an embedded broker."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest

from kafwire.testing import EmbeddedKafka, Security


class KafkaCluster:
    """The stand-in for `trivup.clusters.KafkaCluster.KafkaCluster`, with the options that the suite gives."""

    def __init__(
        self,
        *,
        broker_cnt: int = 1,
        broker_conf: list[str],
        sasl_mechanism: str = "",
        sasl_users: str = "",
        **_: Any,
    ) -> None:
        users = dict(each.split("=", 1) for each in sasl_users.split(",") if each)
        security = Security("SASL_PLAINTEXT", [sasl_mechanism], users=users) if sasl_mechanism else None
        configs = dict(each.split("=", 1) for each in broker_conf)
        # As trivup's own template of a broker's options.
        configs |= {
            "num.partitions": "4",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
        self._kafka = EmbeddedKafka(broker_cnt, security=security, configs=configs)
        self._kafka.start()
        self._client = {"bootstrap.servers": self._kafka.bootstrap}
        if security is not None:
            user, password = next(iter(users.items()))
            self._client |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": sasl_mechanism,
                "sasl.username": user,
                "sasl.password": password,
            }

    def wait_operational(self) -> None:
        """Do nothing: the broker serves."""

    def client_conf(self) -> Mapping[str, str]:
        """A client's options."""
        return dict(self._client)

    def stop(self, **_: Any) -> None:
        """End the broker."""
        self._kafka.close()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Make trivup importable before the suite's own plugins import it."""
    cluster: Any = types.ModuleType("trivup.clusters.KafkaCluster")
    cluster.KafkaCluster = KafkaCluster
    for name in ("trivup", "trivup.clusters"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[cluster.__name__] = cluster
