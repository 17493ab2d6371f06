"""A listener with GSSAPI of `KafkaCluster`, by Java's client and a KDC of this machine."""

from __future__ import annotations

import pytest

from kafwire.testing import KafkaCluster, Security
from tests.support import kerberos
from tests.support.java.client import JavaClient, Written

if not kerberos.installed():
    pytest.skip(kerberos.MISSING, allow_module_level=True)


def test_a_ticket_is_taken(topic_name: str) -> None:
    with kerberos.Kdc() as kdc:
        listener = Security(
            "SASL_SSL",
            ["GSSAPI", "PLAIN"],
            keytab=kdc.keytab(kdc.service()),
            krb5_conf=kdc.krb5_conf,
            principal=kdc.service(),
        )
        kdc.principal("alice", "wonderland")
        tickets = kdc.kinit("alice", "wonderland")
        created = {"auto.create.topics.enable": True}
        with (
            KafkaCluster(security=listener, properties=created) as cluster,
            JavaClient(jvm_options=[f"-Djava.security.krb5.conf={kdc.krb5_conf}"]) as client,
        ):
            assert cluster.bootstrap.startswith("localhost:")
            made = cluster.client_options(dialect="java")
            made["sasl.jaas.config"] = made["sasl.jaas.config"].replace(";", f' ticketCache="{tickets}";')
            bootstrap = made.pop("bootstrap.servers")
            record = Written(0, 1, None, b"by ticket", ())
            assert client.produce(bootstrap, topic_name, [record], **made) == [0]
